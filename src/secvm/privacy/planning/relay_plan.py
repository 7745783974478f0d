"""A plan of two relays' cover: from public numbers to the cover that keeps (ε, δ), and what it costs.

 1. Participation cells alone get ``PARTICIPATION`` of ε: one look a round, so that little noise does.
 2. Test cells get what a person of the test cohort has left after that, train cells what one of the train cohort has.
    The odds are the smallest that keep it, by the accountant.
 3. D is the least multiple of S whose parts overflow with at most ``OVERFLOW_SHARE`` of δ over all rounds.

Nothing of this depends on how many take part: one honest relay of two is all that is counted on. People are asked for
to say whether the noise leaves a model (``private_plan.usefulness``) and how long the steps after a window take.

**Times.** With M devices of B capsules and D cover packages of a relay, in a round

- the entry relay draws and seals D packages twice, and hands on n₁ = B M + D capsules of 128 bytes;
- the mixing relay opens n₁, seals D packages once, and hands on n₂ = n₁ + D capsules of 80 bytes;
- the coordinator opens n₂, and publishes them.

Nothing can be sealed before a window has ended, because the cover is bound to the batch. Each step gets ``SLACK`` times
what it takes for the expected people, and ``LEAST_S`` at least, so that a step that was interrupted can begin again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from secvm.errors import BadExperimentError
from secvm.learning.cover_law import COHORTS, MAX_ODDS, MAX_PACKAGES, RELAYS, Noise, RelayCover, relay_budget
from secvm.learning.declared import USUAL_TRAIN_SHARE
from secvm.learning.thinning import Thinning
from secvm.privacy.accounting.accountant import Adjacency, Contribution, Mechanism, Sight, delta_of
from secvm.privacy.accounting.relay_cover import relay_mechanism, smallest_part
from secvm.privacy.planning.noise_settings import NoiseSettings, noise_settings
from secvm.privacy.target import PrivacyTarget

#: Odds are planned in these parts of one: of train cells, and of the others, whose odds may be small.
STEPS, FINE_STEPS = 64, 4096


def smallest_odds(
    persons: Iterable[Callable[[float], tuple[Sight, ...]]], epsilon: float, delta: float, *, steps: int = STEPS
) -> Fraction:
    """The smallest odds, in so many parts of one, whose noise keeps (ε, δ) under zero-out, as far as halving finds it.

    Each person says what it shows, given p.
    """

    def keeps(odds: int, cases: list[Callable[[float], tuple[Sight, ...]]]) -> bool:
        p = odds / (odds + steps)
        return all(delta_of(case(p), epsilon, Adjacency.ZERO_OUT) <= delta for case in cases)

    listed = list(persons)
    # Halving looks at both ends; then everybody is looked at, and who is not kept joins.
    cases = [listed[0], listed[-1]]
    low, high = 0, 1
    while True:
        while not keeps(high, cases):
            low, high = high, 2 * high
            if high > MAX_ODDS * steps:
                raise BadExperimentError(
                    "no relay could add as much noise as this ε and δ need: raise epsilon or delta, or plan fewer"
                    " rounds"
                )
        while high - low > max(1, high // 512):
            middle = (low + high) // 2
            low, high = (low, middle) if keeps(middle, cases) else (middle, high)
        missed = [case for case in listed if not keeps(high, [case])]
        if not missed:
            return Fraction(high, steps)
        cases += missed
        low, high = high, high + 1


#: Of δ, for parts that overflow; the noise has the rest.
OVERFLOW_SHARE = Fraction(1, 10)
#: Of ε, for participation cells alone.
PARTICIPATION = Fraction(1, 5)
#: r of one relay's cover.
SHAPE = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayQuestion:
    """An experiment in public numbers, with the privacy that is asked for."""

    target: PrivacyTarget
    #: Devices that are expected in a round, those that test included.
    people: int
    bins: int
    #: F, the most of one person.
    features: int
    rounds: int
    thinning: Thinning
    #: 1: the label is a number.
    labels: int = 2
    models: int = 1
    #: Models that one person can violate in a round; None: all.
    violable: int | None = None
    hashes: int = 1
    train_share: Fraction = USUAL_TRAIN_SHARE
    shape: Fraction = Fraction(SHAPE)

    def __post_init__(self) -> None:
        for name in ("people", "bins", "features", "rounds", "labels", "models", "hashes"):
            if getattr(self, name) < 1:
                raise BadExperimentError(f"{getattr(self, name)} {name} were planned with: 1 is the least")
        if not 0 < self.train_share <= 1:
            raise BadExperimentError(f"a train share of {self.train_share}: it lies above 0 and at most at 1")

    @property
    def contribution(self) -> Contribution:
        """The most that one person tells."""
        return Contribution(
            rounds=self.rounds,
            models=self.models if self.violable is None else self.violable,
            cells=min(self.hashes * self.features, self.bins) + 1,
            thinning=self.thinning,
        )

    @property
    def train_cells(self) -> int:
        return 2 * self.models * (self.bins + 1)

    @property
    def budget(self) -> int:
        """B: a participation package, every unit before thinning, the canary."""
        return relay_budget(violable=self.contribution.models, features=self.features, hashes=self.hashes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayPlan:
    """Cover for an experiment: what each relay adds, and what it is worth."""

    question: RelayQuestion
    cover: RelayCover
    #: ε at δ under zero-out.
    achieved: float

    @property
    def mechanism(self) -> Mechanism:
        """As an accountant sees it."""
        return relay_mechanism(self.question.contribution, self.cover)

    @property
    def budget(self) -> int:
        return self.question.budget

    @property
    def noise_per_cell(self) -> float:
        """The standard deviation of each train cell of a net tally: two relays' cover, twice the variance of one."""
        return math.sqrt(RELAYS * self.cover.train.variance)


def plan_relays(question: RelayQuestion) -> RelayPlan:
    """The cover with the smallest odds that keep (ε, δ) over all rounds under zero-out.

    Raises
    ------
    BadExperimentError
        No cover keeps it, or a relay would add more in a round than the target allows.
    """
    parts, most = question.target.parts, question.target.most_packages
    epsilon, delta = float(question.target.epsilon), float(question.target.delta)
    both = 1 + math.exp(epsilon)
    kinds = _kinds(question, epsilon, delta * float(1 - OVERFLOW_SHARE))
    # The label's ε is at most 2 ε, and there an overflow weighs e^(2ε): half of δ must still be left for the noise.
    allowed = min(delta * float(OVERFLOW_SHARE) / both, delta / 2 / (1 + math.exp(2 * epsilon)))
    allowed /= question.rounds * parts
    packages = parts * smallest_part(kinds, parts, math.log(allowed))
    if packages > min(most, MAX_PACKAGES - 1):
        raise BadExperimentError(
            f"a relay would add {packages:,} packages to each round, and {most:,} are the limit: fewer bins or"
            f" models ({question.train_cells:,} train cells now), fewer rounds ({question.rounds}), or a larger ε"
        )
    train, participation, *test = kinds
    cover = RelayCover(
        train=train,
        participation=participation,
        test=test[0] if test else None,
        parts=parts,
        packages=packages,
        train_share=question.train_share,
    )
    mechanism = relay_mechanism(question.contribution, cover)
    noise = max(delta_of(person, epsilon, Adjacency.ZERO_OUT) for person in mechanism.persons)
    if noise + both * mechanism.departs > delta:
        # The sampler's error has no share of its own: it is next to nothing, until e^ε makes it more than δ.
        raise BadExperimentError(
            f"{question.target} cannot be kept: the sampler's own error, e^ε times, is more than δ leaves; ask for a"
            " smaller ε or a larger δ"
        )
    return RelayPlan(
        question=question,
        cover=cover,
        # Known to hold at ε; the search for the smallest may step over where δ is kept, and then finds none.
        achieved=min(epsilon, mechanism.epsilon(delta=delta)),
    )


def question_for(
    *, rounds: int | None = None, rho: Fraction | None = None, **numbers: Any
) -> tuple[RelayQuestion, NoiseSettings]:
    """A question whose rounds and ρ, where they are not given, follow from its other ``numbers``.

    With it comes all that was chosen: the rule's own numbers are part of an experiment, and of no plan.
    """
    question = RelayQuestion(rounds=1, thinning=Thinning(), **numbers)
    chosen = noise_settings(
        people=max(1, math.floor(question.people * question.train_share)),
        bins=question.bins,
        contribution=question.contribution.cells - 1,
        epsilon=float(question.target.epsilon),
        delta=float(question.target.delta),
        covers=RELAYS,
        models=question.contribution.models,
        rounds=rounds,
        rho=rho,
    )
    return replace(question, rounds=chosen.rounds, thinning=chosen.thinning), chosen


def _kinds(question: RelayQuestion, epsilon: float, delta: float) -> tuple[Noise, ...]:
    contribution, shape, labels = question.contribution, float(question.shape), question.labels

    def alone(p: float, besides: tuple[Sight, ...] = ()) -> tuple[Sight, ...]:
        return (Sight(shape, p, 1.0, contribution.rounds), *besides)

    def trained(p: float, q: float, looks: int) -> tuple[Sight, ...]:
        return (Sight(shape, p, q, looks), *here)

    participation = _noise(question, COHORTS * labels, [alone], epsilon * float(PARTICIPATION), delta, FINE_STEPS)
    here = alone(float(participation.p))
    persons = [partial(trained, q=q, looks=looks) for q, looks in contribution.looks()]
    train = Noise(cells=question.train_cells, shape=question.shape, odds=smallest_odds(persons, epsilon, delta))
    if labels == 1:
        return train, participation
    tested = [partial(alone, besides=here)]
    return train, participation, _noise(question, labels**2, tested, epsilon, delta, FINE_STEPS)


def _noise(
    question: RelayQuestion,
    cells: int,
    persons: Sequence[Callable[[float], tuple[Sight, ...]]],
    epsilon: float,
    delta: float,
    steps: int,
) -> Noise:
    odds = smallest_odds(persons, epsilon, delta, steps=steps)
    return Noise(cells=cells, shape=question.shape, odds=odds)


SLACK = 3
#: In which a relay seals or opens a million packages, where nobody says: what relays' own settings say by default.
SECONDS_PER_MILLION = 600
#: Of every step; the reveals are two small messages and have no more.
LEAST_S = 60
#: The longest step that a document may name: a week.
MOST_S = 7 * 86_400
#: Capsules as they are handed on by the entry relay, and by the mixing relay.
OUTER_BYTES, INNER_BYTES = 128, 80
_MILLION = 1_000_000


#: Seconds for a million packages where a relay's terms do not tell: drawn and sealed twice by the entry relay; by the
#: mixing relay drawn and sealed once, or opened.
ENTRY_PACE, MIX_PACE = 125.0, 65.0
#: The same of the coordinator, which opens the inner layer and counts.
_COUNT_PACE = 65.0
#: That go from one party to the next in a second.
_BYTES_PER_S = 1e7


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTimes:
    """Whole seconds for each step, with its slack."""

    batch_s: int
    mix_s: int
    reveal_s: int
    open_s: int


def round_times(plan: RelayPlan, *, entry: float = ENTRY_PACE, mix: float = MIX_PACE) -> PlannedTimes:
    """Times for a plan and the people that it expects, by the paces of both relays.

    Raises
    ------
    BadExperimentError
        A step takes longer than a document may name.
    """
    for name, pace in (("the entry relay", entry), ("the mixing relay", mix)):
        if not 0 < pace < math.inf:
            raise BadExperimentError(f"a pace of {pace} for {name}: it lies above 0")
    cover = plan.cover.packages
    first = plan.budget * plan.question.people + cover
    second = first + cover
    return PlannedTimes(
        batch_s=_step("batch_s", cover * entry / _MILLION + first * OUTER_BYTES / _BYTES_PER_S),
        mix_s=_step("mix_s", (first + cover) * mix / _MILLION + second * INNER_BYTES / _BYTES_PER_S),
        reveal_s=LEAST_S,
        open_s=_step("open_s", second * _COUNT_PACE / _MILLION + second * INNER_BYTES / _BYTES_PER_S),
    )


def _step(name: str, seconds: float) -> int:
    total = max(LEAST_S, math.ceil(SLACK * seconds))
    if total > MOST_S:
        raise BadExperimentError(
            f"{name} would be {total:,} seconds, and {MOST_S:,} are the limit: quicker relays (more cores), fewer bins,"
            " or fewer people in a round"
        )
    return total
