"""What is wrong with a planned experiment, and what somebody should know about it: one sentence each, beside its field.

*Refusals* are nonsense: what no coordinator would take, what could never have a round, and what promises protection
that is none. *Warnings* leave the decision to the operator. Fields are named as a specification names them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from secvm.learning.thinning import Thinning
from secvm.privacy.leak_plan import WANTED_AUC
from secvm.privacy.statement import NO_PROTECTION, SHUFFLER

#: What devices agree to unless their people have said otherwise (``participant.consent``; a test holds them together).
DEVICE_AUC, DEVICE_EPSILON, DEVICE_FLOOR, DEVICE_ROUNDS = WANTED_AUC, 4.0, 20, 1000
#: And what they send in a day at most.
DEVICE_DAILY_BYTES = 50_000_000
#: Below so many honest devices cover costs more than a device would send.
_FEW_HONEST = 500


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence about one field; "" is about all of it."""

    field: str
    sentence: str

    def content(self) -> dict[str, str]:
        return {"field": self.field, "sentence": self.sentence}


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverWish:
    """The guarantee that is wished for, over all rounds."""

    epsilon: float
    delta: float = 1e-6
    #: Devices in a round that it is planned for, and which share of them is honest and delivers.
    participants: int
    gamma: Fraction = Fraction(1, 2)
    #: r of the noise in a train cell; None: look for the smallest budget.
    shape: int | None = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest numbers that can be published."""

    bins: int = 2**24
    hashes: int = 16
    rounds: int = 2**20 - 1
    budget: int = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """An experiment in numbers, as somebody fills a form: nothing of it is checked yet."""

    labels: int
    #: Devices that are expected in a round, those that test included.
    participants: int
    bins: int
    #: F; None: all that a person has.
    features: int | None
    rounds: int
    floor: int
    hashes: int = 1
    thinning: Thinning
    #: "swift" or "pegasos".
    rule: str = "swift"
    multiclass: str = "ovr"
    presence: bool = True
    train_share: Fraction = Fraction(7, 10)
    #: Swift's floor of the popularity, in shares of its mean; None: left to the planner's suggestion.
    popularity_floor: Fraction | None = None
    #: B; None: computed.
    budget: int | None = None
    #: None: plain.
    cover: CoverWish | None = None
    #: How frequent each label is; None: all alike.
    shares: tuple[float, ...] | None = None
    #: Different words that there are, for what a bin hides.
    vocabulary: int | None = None
    relay_modes: tuple[str | None, ...] = ()
    logged: bool = True
    #: Rounds that may happen in a day, where the windows are known.
    rounds_per_day: float | None = None
    limits: Limits = Limits()

    @property
    def train_participants(self) -> float:
        return self.participants * float(self.train_share)


def refusals(wish: Wish) -> list[Remark]:
    """Everything that makes no sense, seen without planning."""
    found = [*_sizes(wish), *_people(wish)]
    if wish.cover is not None:
        found += _covered(wish, wish.cover)
    elif wish.features is None and wish.budget is None:
        found.append(
            Remark("features.per_participant", "Without a limit on features per person, the budget must be given.")
        )
    elif not wish.presence and wish.thinning.rho is None and wish.budget is None:
        found.append(Remark("budget", "Counts have no bound without thinning by ρ: give a budget."))
    return found


def _sizes(wish: Wish) -> Iterator[Remark]:
    limits = wish.limits
    if not 1 <= wish.bins <= limits.bins:
        yield Remark("binning.bins", f"There must be from 1 to {limits.bins:,} bins.")
    if not 1 <= wish.hashes <= limits.hashes:
        yield Remark("binning.hashes", f"A feature has from 1 to {limits.hashes} hashes.")
    if wish.features is not None:
        if wish.features < 1:
            yield Remark("features.per_participant", "A person takes part with one feature at least.")
        elif wish.features * wish.hashes > wish.bins >= 1:
            yield Remark(
                "features.per_participant",
                f"{wish.features * wish.hashes:,} bins of a person do not fit into {wish.bins:,}: fewer features, or"
                " more bins.",
            )
    if not 1 <= wish.rounds <= limits.rounds:
        yield Remark("rounds", f"There must be from 1 to {limits.rounds:,} rounds.")
    if wish.budget is not None and not 2 <= wish.budget <= limits.budget:
        yield Remark("budget", f"A device sends from 2 to {limits.budget:,} packages in a round.")
    if (wish.rule == "swift") != (wish.thinning.rho is not None):
        needed = "swift is thinned by ρ" if wish.rule == "swift" else "pegasos is thinned by q=Q, or not at all"
        yield Remark("descent.thinning", f"This rule takes another thinning: {needed}.")


def _people(wish: Wish) -> Iterator[Remark]:
    if wish.labels < 2:
        yield Remark("labels", "Two labels are the least that can be told apart.")
    if not 0 < wish.train_share <= 1:
        yield Remark("train_share", "The share of devices that train lies above 0, up to 1.")
        return
    if wish.shares is not None and (
        len(wish.shares) != wish.labels
        or not all(0 < share < 1 for share in wish.shares)
        or abs(math.fsum(wish.shares) - 1) > 1e-6
    ):
        yield Remark("shares", "Each label has a share between 0 and 1, and together they are 1.")
    if wish.participants < 1:
        yield Remark("participants", "Somebody must be expected to take part.")
    if wish.floor < 1:
        yield Remark("floor", "The floor is one participant at least.")
    elif wish.floor > wish.train_participants > 0:
        yield Remark(
            "floor",
            f"Every round would be abandoned: of {wish.participants:,} participants about"
            f" {math.floor(wish.train_participants):,} train, and the floor is {wish.floor:,}.",
        )
    if wish.vocabulary is not None and wish.vocabulary < 1:
        yield Remark("vocabulary", "There is one word at least.")


def _covered(wish: Wish, cover: CoverWish) -> Iterator[Remark]:
    if not 0 < cover.epsilon < math.inf:
        yield Remark("privacy.epsilon", "ε lies above 0.")
    elif cover.epsilon >= NO_PROTECTION:
        yield Remark(
            "privacy.epsilon",
            f"An ε of {NO_PROTECTION:g} or more protects nobody: choose a smaller one, or no guarantee at all.",
        )
    if not 0 < cover.delta < 1:
        yield Remark("privacy.delta", "δ lies between 0 and 1.")
    if not 0 < cover.gamma <= 1:
        yield Remark("privacy.gamma", "The honest share γ lies above 0, up to 1.")
    elif cover.participants * cover.gamma < 1:
        yield Remark("participants", "A guarantee needs an honest participant at least.")
    if wish.features is None:
        yield Remark("features.per_participant", "A guarantee needs a limit on features per person.")
    if not wish.presence:
        yield Remark("features.presence", "A guarantee needs features that count once, however often they occur.")
    if wish.relay_modes != (SHUFFLER,):
        yield Remark(
            "relays", "A guarantee needs exactly one relay, in mode round: nobody else shuffles a whole round."
        )
    if 1 <= wish.floor < wish.labels:
        yield Remark("floor", "With a guarantee the floor is at least the number of labels.")


def warnings(wish: Wish) -> list[Remark]:
    """What somebody should know, seen without planning."""
    found = [*_worth_knowing(wish)]
    if wish.cover is not None:
        found += _about_cover(wish, wish.cover)
    return found


def _worth_knowing(wish: Wish) -> Iterator[Remark]:
    if wish.floor < DEVICE_FLOOR:
        yield Remark("floor", f"Devices refuse a floor below {DEVICE_FLOOR}, unless their people say otherwise.")
    if wish.rounds > DEVICE_ROUNDS:
        yield Remark("rounds", f"Devices refuse more than {DEVICE_ROUNDS:,} rounds, unless their people say otherwise.")
    if wish.features is not None and 2 * wish.features * wish.hashes > wish.bins:
        yield Remark(
            "features.per_participant",
            "A person fills more than half of the bins: collisions leave little to learn from.",
        )
    if wish.vocabulary is not None and wish.vocabulary * wish.hashes < 2 * wish.bins:
        yield Remark("binning.bins", "Fewer than two words share a bin: a bin names its word.")
    if wish.participants < 2 * wish.floor / float(wish.train_share):
        yield Remark("floor", "On a day with half as many participants every round would be abandoned.")
    if not wish.relay_modes:
        yield Remark("relays", "Without a relay the coordinator sees who sends; only a test may do without.")


def _about_cover(wish: Wish, cover: CoverWish) -> Iterator[Remark]:
    if cover.epsilon > DEVICE_EPSILON:
        yield Remark(
            "privacy.epsilon", f"Devices refuse an ε above {DEVICE_EPSILON:g}, unless their people say otherwise."
        )
    if cover.delta >= 1 / cover.participants:
        yield Remark(
            "privacy.delta",
            f"A δ of 1/participants or more ({1 / cover.participants:.1g}) would allow to show somebody altogether.",
        )
    if cover.gamma > Fraction(9, 10):
        yield Remark("privacy.gamma", "This counts on nearly everybody: Sybils, drop-outs and losses are the rest.")
    if cover.participants * cover.gamma < _FEW_HONEST:
        yield Remark("participants", f"Cover of fewer than {_FEW_HONEST} honest devices costs each of them very much.")
    if not wish.logged:
        yield Remark("", "This coordinator has no log: devices take its guarantee for none, because keys could differ.")
