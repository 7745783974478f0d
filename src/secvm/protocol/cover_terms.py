"""The privacy of an experiment as its document tells it: plain, or cover with all its numbers (docs/protocol.md §11.1).

``plain`` is a kind and nothing else. ``cover`` tells what was asked for (ε, δ), for whom it was planned (participants,
and γ, the share of them that is honest and delivers), and the noise itself: of each kind of cells a device's share, the
odds and the cap. How many cells there are follows from the experiment, and the train share stands in the document's own
field: neither is told twice.

Cover is refused where it would promise what it cannot keep:

 1. features count by presence, and at most F of them: else a person has more than one unit in a bin, or no bound;
 2. there is one relay, in mode ``round``: only there packages are shuffled among all participants. Each of several
    relays would shuffle a part of every device's cover, and the coordinator sees their batches apart;
 3. B holds all caps (``Experiment`` sees to it), and the floor is at least the number of labels: so many people remain
    that the step of a counted round has somebody to divide by.

That ε and δ follow from the rest is *not* checked here: whoever wants to know computes it (``protocol.stating``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from secvm.errors import BadInputError, LocalProtocolError, MalformedMessageError
from secvm.learning.cover import COHORTS, Cover
from secvm.learning.cover_noise import CoverNoise
from secvm.learning.experiment import Experiment
from secvm.protocol.documents import Fields, ratio_text

#: More packages of one kind in a round fit no budget.
_MAX_CAP = 2**16
#: ε beyond this is no guarantee that anybody would state.
_MAX_EPSILON = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverTerms:
    """What the cover of an experiment was asked for and planned for. Public."""

    #: Over all rounds of the experiment, under zero-out.
    epsilon: Fraction
    delta: Fraction
    #: Of so many participants in a round at least this share is honest and delivers.
    participants: int
    gamma: Fraction

    @property
    def honest(self) -> int:
        """Devices whose cover is counted on."""
        return int(self.participants * self.gamma)


def write_privacy(terms: CoverTerms | None, experiment: Experiment, train_share: Fraction) -> dict[str, Any]:
    """The field ``privacy`` of a document."""
    cover = experiment.cover
    if (terms is None) != (cover is None):
        raise LocalProtocolError("an experiment with cover tells what it was planned for, and one without does not")
    if terms is None or cover is None:
        return {"kind": "plain"}
    if cover.train_share != train_share:
        raise LocalProtocolError("the cover was made for another share of devices that train")
    return {
        "delta": ratio_text(terms.delta),
        "epsilon": ratio_text(terms.epsilon),
        "gamma": ratio_text(terms.gamma),
        "kind": "cover",
        "participants": terms.participants,
        "participation": _write_noise(cover.participation),
        "real_cap": cover.real_cap,
        "test": None if cover.test is None else _write_noise(cover.test),
        "train": _write_noise(cover.train),
    }


def read_privacy(fields: Fields, experiment: Experiment, train_share: Fraction) -> tuple[CoverTerms | None, Experiment]:
    """What the field says, and the experiment with its cover."""
    kind = fields.text("kind", longest=20)
    if kind == "plain":
        fields.done()
        return None, experiment
    if kind != "cover":
        raise fields.refuse("kind")
    labels = len(experiment.labels)
    untested = fields.is_null("test")
    try:
        cover = Cover(
            train=_read_noise(fields.inner("train"), 2 * experiment.models.n_models * (experiment.n_bins + 1)),
            participation=_read_noise(fields.inner("participation"), COHORTS * labels),
            test=None if untested else _read_noise(fields.inner("test"), labels**2),
            real_cap=fields.integer("real_cap", 1, _MAX_CAP),
            train_share=train_share,
        )
        covered = replace(experiment, cover=cover)
    except BadInputError as fault:
        raise MalformedMessageError(str(fault)) from None
    terms = CoverTerms(
        epsilon=fields.ratio("epsilon"),
        delta=fields.ratio("delta"),
        participants=fields.integer("participants", 1),
        gamma=fields.ratio("gamma"),
    )
    fields.done()
    if not (0 < terms.epsilon <= _MAX_EPSILON and 0 < terms.delta < 1 and 0 < terms.gamma <= 1 and terms.honest):
        raise MalformedMessageError("ε, δ, γ or the participants of the experiment's cover are not as they should be")
    return terms, covered


def check_covered(*, presence: bool, modes: list[str | None], floor: int, labels: int) -> None:
    """Rules 1 to 3 of an experiment with cover; the first that is broken is told."""
    # (1)
    if not presence:
        raise MalformedMessageError("cover needs features that count by presence: a guarantee is about one unit")
    # (2)
    if modes != ["round"]:
        raise MalformedMessageError(
            "cover needs one relay, in mode round: nobody else shuffles all packages of a round"
        )
    # (3)
    if floor < labels:
        raise MalformedMessageError("cover needs a floor that is at least the number of labels")


def _write_noise(noise: CoverNoise) -> dict[str, Any]:
    return {"cap": noise.cap, "odds": ratio_text(noise.odds), "share": ratio_text(noise.share)}


def _read_noise(fields: Fields, cells: int) -> CoverNoise:
    noise = CoverNoise(
        cells=cells,
        share=fields.ratio("share"),
        odds=fields.ratio("odds"),
        cap=fields.integer("cap", 0, _MAX_CAP),
    )
    fields.done()
    return noise
