"""What an experiment with two relays says of them and of their cover (docs/protocol.md §26).

``privacy`` is of kind ``relays``: what was asked for (ε, δ), into how many parts a relay's cover is cut, how many
packages it has, and the noise of each kind of cells. ``windows`` tells how long each step after a window may take.
``relays`` are two, the entry relay first.

That ε and δ follow from the rest is *not* checked here: whoever wants to know computes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, Literal

from secvm.errors import BadInputError, MalformedMessageError
from secvm.learning.cover_law import COHORTS, MAX_PACKAGES, MAX_PARTS, MIN_PARTS, Noise, RelayCover, relay_budget
from secvm.learning.experiment import Experiment
from secvm.privacy.target import PrivacyTarget
from secvm.protocol.canonical import Fields, ratio_text
from secvm.protocol.records import Record, whole

#: What a relay does in a round (docs/protocol.md §25).
RelayRole = Literal["entry", "mix"]
#: In the order in which a document names them.
ROLES: tuple[RelayRole, RelayRole] = ("entry", "mix")
#: A week: who waits longer for a step has another problem.
_MAX_STEP_S = 7 * 86_400
#: Seconds that a step may take.
Step = Annotated[int, whole(1, _MAX_STEP_S)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayTimes(Record):
    """How long each step of a round takes at most, one after the other, from the end of its grace on."""

    #: Until the entry relay hands on.
    batch_s: Step
    #: Until the mixing relay hands on.
    mix_s: Step
    #: Until both relays have opened a part.
    reveal_s: Step
    #: Until the opening is in the log.
    open_s: Step


def write_relay_cover(target: PrivacyTarget, cover: RelayCover) -> dict[str, Any]:
    """The field ``privacy`` of a document."""
    return {
        "delta": ratio_text(target.delta),
        "epsilon": ratio_text(target.epsilon),
        "kind": "relays",
        "packages": cover.packages,
        "participation": _write_noise(cover.participation),
        "parts": cover.parts,
        "test": None if cover.test is None else _write_noise(cover.test),
        "train": _write_noise(cover.train),
    }


def read_relay_cover(fields: Fields, experiment: Experiment, train_share: Fraction) -> tuple[PrivacyTarget, Experiment]:
    """What the field says, and the experiment with its cover."""
    fields.constant("kind", "relays")
    labels = len(experiment.labels)
    untested = fields.is_null("test")
    try:
        cover = RelayCover(
            train=_read_noise(fields.inner("train"), 2 * experiment.models.n_models * (experiment.n_bins + 1)),
            participation=_read_noise(fields.inner("participation"), COHORTS * labels),
            test=None if untested else _read_noise(fields.inner("test"), labels**2),
            parts=fields.integer("parts", MIN_PARTS, MAX_PARTS),
            packages=fields.integer("packages", 1, MAX_PACKAGES - 1),
            train_share=train_share,
        )
        covered = replace(experiment, cover=cover)
        target = PrivacyTarget(fields.ratio("epsilon"), fields.ratio("delta"))
    except BadInputError as fault:
        raise MalformedMessageError(str(fault)) from None
    fields.done()
    return target, covered


def check_relayed(
    experiment: Experiment, *, hashes: int, presence: bool, roles: Sequence[str | None], keys: Sequence[bytes]
) -> None:
    """What must hold of an experiment with relays' cover as a whole; the first rule that is broken is told."""
    if not presence:
        raise MalformedMessageError("cover needs features that count by presence: a guarantee is about one unit")
    if tuple(roles) != ROLES or len(set(keys)) != len(ROLES):
        raise MalformedMessageError("relays' cover needs an entry relay, then a mixing relay, with keys of their own")
    features = experiment.features_per_person
    if features is None:
        raise MalformedMessageError("relays' cover needs a bound on the features per person")
    budget = relay_budget(violable=experiment.models.most_per_person, features=features, hashes=hashes)
    if experiment.budget != budget:
        raise MalformedMessageError(
            f"the budget is {experiment.budget}, and a person's units before thinning, participation and canary"
            f" are {budget}"
        )


def _write_noise(noise: Noise) -> dict[str, Any]:
    return {"odds": ratio_text(noise.odds), "shape": ratio_text(noise.shape)}


def _read_noise(fields: Fields, cells: int) -> Noise:
    noise = Noise(cells=cells, shape=fields.ratio("shape"), odds=fields.ratio("odds"))
    fields.done()
    return noise
