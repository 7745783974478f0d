"""What an experiment's cover is worth, computed from its document alone: ε at δ, under whatever assumptions one has.

Nothing that a document claims is believed here. What counts is the noise that its devices add, how often they are
asked, and how much a person tells at most; the reader brings the number of honest participants that it counts on.
"""

from __future__ import annotations

from secvm.errors import LocalProtocolError
from secvm.privacy.accountant import Adjacency, Contribution, Mechanism
from secvm.protocol.experiment_document import ExperimentDocument, HashedBins


def mechanism_of(document: ExperimentDocument) -> Mechanism:
    """What an accountant has to know of an experiment with cover."""
    experiment, cover = document.experiment, document.experiment.cover
    if cover is None or experiment.features_per_person is None:
        raise LocalProtocolError("this experiment has no cover")
    hashes = document.binning.hashes if isinstance(document.binning, HashedBins) else 1
    return Mechanism(
        contribution=Contribution(
            rounds=document.rounds,
            models=experiment.models.most_per_person,
            cells=min(hashes * (experiment.features_per_person + 1), experiment.n_bins + 1),
            thinning=experiment.thinning,
        ),
        train=cover.train,
        participation=cover.participation,
        test=cover.test,
        real_cap=cover.real_cap,
    )


def epsilon_of(
    document: ExperimentDocument, *, delta: float, honest: int, adjacency: Adjacency = Adjacency.ZERO_OUT
) -> float:
    """ε over all rounds at δ, if in every round so many devices or more are honest; +∞: no guarantee."""
    return mechanism_of(document).epsilon(delta=delta, honest=honest, adjacency=adjacency)
