"""A plan of two relays' cover: from public numbers to the cover that keeps (ε, δ), and what it costs.

 1. Participation cells alone get ``PARTICIPATION`` of ε: one look a round, so that little noise does.
 2. Test cells get what a person of the test cohort has left after that, train cells what one of the train cohort has.
    The odds are the smallest that keep it, by the accountant.
 3. D is the least multiple of S whose parts overflow with at most ``OVERFLOW_SHARE`` of δ over all rounds.

Nothing here depends on how many take part: one honest relay of two is all that is counted on. People are asked for to
say whether the noise leaves a model (``private_plan.usefulness``) and how long a round takes (``relay_times``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

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
                raise BadExperimentError("no cover that anybody could send keeps this ε and δ")
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
    #: How δ divides at the asked ε.
    delta_noise: float
    delta_overflow: float
    delta_sampler: float

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


def plan_relays(question: RelayQuestion, *, most_packages: int | None = None) -> RelayPlan:
    """The cover with the smallest odds that keep (ε, δ) over all rounds under zero-out.

    Raises
    ------
    BadExperimentError
        No cover keeps it, or a relay would add more than ``most_packages`` in a round; None: the target's.
    """
    parts, most = question.target.parts, question.target.most_packages if most_packages is None else most_packages
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
    departures, rounds = mechanism.departures, question.rounds
    return RelayPlan(
        question=question,
        cover=cover,
        # Known to hold at ε; the search for the smallest may step over where δ is kept, and then finds none.
        achieved=min(epsilon, mechanism.epsilon(delta=delta)),
        delta_noise=noise,
        delta_overflow=both * rounds * departures.overflow,
        delta_sampler=both * rounds * departures.sampler,
    )


def question_for(
    *,
    target: PrivacyTarget,
    people: int,
    bins: int,
    features: int,
    labels: int = 2,
    models: int = 1,
    violable: int | None = None,
    hashes: int = 1,
    train_share: Fraction = USUAL_TRAIN_SHARE,
    rounds: int | None = None,
    rho: Fraction | None = None,
    choose: Callable[..., NoiseSettings] = noise_settings,
) -> tuple[RelayQuestion, NoiseSettings]:
    """A question whose rounds and ρ, where they are not given, ``choose`` takes from the same public numbers.

    With it comes all that was chosen: the rule's own numbers are part of an experiment, and of no plan.
    """
    chosen = choose(
        people=max(1, math.floor(people * train_share)),
        bins=bins,
        contribution=min(hashes * features, bins),
        epsilon=float(target.epsilon),
        delta=float(target.delta),
        covers=RELAYS,
        models=models if violable is None else violable,
        rounds=rounds,
        rho=rho,
    )
    question = RelayQuestion(
        target=target,
        people=people,
        bins=bins,
        features=features,
        rounds=chosen.rounds,
        thinning=chosen.thinning,
        labels=labels,
        models=models,
        violable=violable,
        hashes=hashes,
        train_share=train_share,
    )
    return question, chosen


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
