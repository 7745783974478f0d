"""From a published experiment to what a privacy statement is about. Pure, and nothing that it claims is believed."""

from __future__ import annotations

from fractions import Fraction

from secvm.errors import LocalProtocolError
from secvm.privacy.accountant import Adjacency, Mechanism
from secvm.privacy.statement import Terms
from secvm.protocol.experiment_document import ExperimentDocument, HashedBins


def terms_of(document: ExperimentDocument) -> Terms:
    """What a statement about this experiment takes."""
    planned = document.privacy
    return Terms(
        experiment=document.experiment,
        rounds=document.rounds,
        hashes=document.binning.hashes if isinstance(document.binning, HashedBins) else 1,
        floor=document.floor,
        train_share=document.train_share,
        relay_modes=tuple(relay.mode for relay in document.relays),
        logged=document.log is not None,
        participants=None if planned is None else planned.participants,
        gamma=Fraction(1) if planned is None else planned.gamma,
        delta=1e-6 if planned is None else float(planned.delta),
    )


def mechanism_of(document: ExperimentDocument) -> Mechanism:
    """What an accountant has to know of an experiment with cover."""
    found = terms_of(document).mechanism
    if found is None:
        raise LocalProtocolError("this experiment has no cover")
    return found


def epsilon_of(
    document: ExperimentDocument, *, delta: float, honest: int, adjacency: Adjacency = Adjacency.ZERO_OUT
) -> float:
    """ε over all rounds at δ, if in every round so many devices or more are honest; +∞: no guarantee."""
    return mechanism_of(document).epsilon(delta=delta, honest=honest, adjacency=adjacency)
