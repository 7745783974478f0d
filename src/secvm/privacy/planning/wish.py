"""What is wrong with a planned experiment, and what somebody should know about it: one sentence each, beside its field.

*Refusals* are nonsense: what no coordinator would take, what could never have a round, and what promises protection
that is none. *Warnings* leave the decision to the operator. Fields are named as a specification names them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction

from secvm.learning.aggregate.descent import AskedDescent
from secvm.learning.declared import MAX_BINS, MAX_BUDGET, MAX_HASHES, USUAL_TRAIN_SHARE
from secvm.learning.package import MAX_ROUNDS
from secvm.privacy.accounting.guarantee import NO_PROTECTION, WEAK
from secvm.privacy.planning.relay_plan import SECONDS_PER_MILLION
from secvm.privacy.statements.operators import Operators
from secvm.privacy.target import USUAL, PrivacyTarget

#: What devices agree to unless their people have said otherwise (``participant.consent``; a test holds them together).
DEVICE_EPSILON, DEVICE_ROUNDS = 4.0, 1000
#: And what they send in a day at most.
DEVICE_DAILY_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence about one field; "" is about all of it."""

    field: str
    sentence: str

    def content(self) -> dict[str, str]:
        """As JSON: stable keys."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RelayWish:
    """A relay as far as somebody has filled in what it is."""

    role: str | None = None
    operator: str | None = None
    seconds_per_million: int = SECONDS_PER_MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """An experiment in numbers, as somebody fills a form: nothing of it is checked yet."""

    labels: int
    #: Devices that are expected in a round, those that test included.
    people: int
    bins: int
    #: F; None: all that a person has.
    features: int | None
    #: None, which only a guarantee allows: chosen, as is what nobody has given of the descent.
    rounds: int | None
    floor: int
    hashes: int = 1
    descent: AskedDescent
    multiclass: str = "ovr"
    presence: bool = True
    train_share: Fraction = USUAL_TRAIN_SHARE
    #: B; None: computed.
    budget: int | None = None
    #: None: plain.
    guarantee: PrivacyTarget | None = None
    #: How frequent each label is; None: all alike.
    shares: tuple[float, ...] | None = None
    #: Different words that there are, for what a bin hides.
    vocabulary: int | None = None
    relays: tuple[RelayWish, ...] = ()
    logged: bool = True
    #: Rounds that may happen in a day, where the windows are known.
    rounds_per_day: float | None = None

    @property
    def train_participants(self) -> float:
        return self.people * float(self.train_share)


def refusals(wish: Wish) -> list[Remark]:
    """Everything that makes no sense, seen without planning."""
    remarks = [*_sizes(wish), *_people(wish)]
    if wish.guarantee is not None:
        remarks += _guaranteed(wish, wish.guarantee)
    elif wish.features is None and wish.budget is None:
        remarks.append(
            Remark("features.per_participant", "Without a limit on features per person, the budget must be given.")
        )
    elif not wish.presence and wish.budget is None and wish.descent.thinning.rho is None:
        remarks.append(Remark("budget", "Counts have no bound without thinning by ρ: give a budget."))
    return remarks


def _sizes(wish: Wish) -> Iterator[Remark]:
    if not 1 <= wish.bins <= MAX_BINS:
        yield Remark("binning.bins", f"There must be from 1 to {MAX_BINS:,} bins.")
    if not 1 <= wish.hashes <= MAX_HASHES:
        yield Remark("binning.hashes", f"A feature has from 1 to {MAX_HASHES} hashes.")
    if wish.features is not None:
        if wish.features < 1:
            yield Remark("features.per_participant", "A person takes part with one feature at least.")
        elif wish.features * wish.hashes > wish.bins >= 1:
            yield Remark(
                "features.per_participant",
                f"{wish.features * wish.hashes:,} bins of a person do not fit into {wish.bins:,}: fewer features, or"
                " more bins.",
            )
    if wish.rounds is not None and not 1 <= wish.rounds <= MAX_ROUNDS:
        yield Remark("rounds", f"There must be from 1 to {MAX_ROUNDS:,} rounds.")
    if wish.budget is not None and not 2 <= wish.budget <= MAX_BUDGET:
        yield Remark("budget", f"A device sends from 2 to {MAX_BUDGET:,} packages in a round.")
    rule = wish.descent.rule
    if rule.normalised != (wish.descent.thinning.rho is not None):
        needed = f"{rule.name} is thinned by {'ρ' if rule.normalised else 'q=Q, or not at all'}"
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
    if wish.people < 1:
        yield Remark("people", "Somebody must be expected to take part.")
    if wish.floor < 1:
        yield Remark("floor", "The floor is one participant at least.")
    elif wish.floor > wish.train_participants > 0:
        yield Remark(
            "floor",
            f"No step would ever be taken: of {wish.people:,} participants about"
            f" {math.floor(wish.train_participants):,} train, and the floor is {wish.floor:,}.",
        )
    if wish.vocabulary is not None and wish.vocabulary < 1:
        yield Remark("vocabulary", "There is one word at least.")


def _guaranteed(wish: Wish, asked: PrivacyTarget) -> Iterator[Remark]:
    if asked.epsilon >= NO_PROTECTION:
        yield Remark("privacy.epsilon", f"{WEAK} Choose a smaller one, or no guarantee at all.")
    if wish.features is None:
        yield Remark("features.per_participant", "A guarantee needs a limit on features per person.")
    if not wish.presence:
        yield Remark("features.presence", "A guarantee needs features that count once, however often they occur.")
    if sorted(relay.role or "" for relay in wish.relays) != ["entry", "mix"]:
        yield Remark("relays", "A guarantee needs two relays: one that takes packages in, and one that mixes them.")
    operators = operators_of(wish)
    if operators.same:
        yield Remark("relays", "Both relays have one operator, who alone could link everything: name two.")


def operators_of(wish: Wish) -> Operators:
    """Who runs the relays; those that nobody has named yet are somebody."""
    named = {relay.role: relay.operator for relay in wish.relays}
    return Operators(
        entry=named.get("entry") or "the entry relay's operator", mix=named.get("mix") or "the mixing relay's operator"
    )


def warnings(wish: Wish) -> list[Remark]:
    """What somebody should know, seen without planning."""
    remarks = [*_worth_knowing(wish)]
    if wish.guarantee is not None:
        remarks += _about_guarantee(wish, wish.guarantee)
    return remarks


def _worth_knowing(wish: Wish) -> Iterator[Remark]:
    if wish.rounds is not None and wish.rounds > DEVICE_ROUNDS:
        yield Remark("rounds", f"Devices refuse more than {DEVICE_ROUNDS:,} rounds, unless their people say otherwise.")
    if wish.features is not None and 2 * wish.features * wish.hashes > wish.bins:
        yield Remark(
            "features.per_participant",
            "A person fills more than half of the bins: collisions leave little to learn from.",
        )
    if wish.vocabulary is not None and wish.vocabulary * wish.hashes < 2 * wish.bins:
        yield Remark("binning.bins", "Fewer than two words share a bin: a bin names its word.")
    if wish.people < 2 * wish.floor / float(wish.train_share):
        yield Remark("floor", "On a day with half as many participants no step would be taken.")
    if not wish.relays:
        yield Remark("relays", "Without a relay the coordinator sees who sends; only a test may do without.")


def _about_guarantee(wish: Wish, asked: PrivacyTarget) -> Iterator[Remark]:
    if asked.epsilon > DEVICE_EPSILON:
        yield Remark(
            "privacy.epsilon", f"Devices refuse an ε above {DEVICE_EPSILON:g}, unless their people say otherwise."
        )
    if asked.delta > USUAL.delta:
        yield Remark(
            "privacy.delta",
            f"Devices ask what holds at δ = {float(USUAL.delta):.0e}: planned for a larger δ, a guarantee may be worth"
            " nothing to them.",
        )
    if asked.delta * wish.people >= 1:
        yield Remark(
            "privacy.delta",
            f"A δ of 1/participants or more ({1 / wish.people:.1g}) would allow to show somebody altogether.",
        )
    if not wish.logged:
        yield Remark("", "This coordinator has no log: devices join only tests, unless their people say otherwise.")
