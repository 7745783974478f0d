"""Cover for a wished (ε, δ): which noise every device adds, what that costs, and what it is worth to a device.

What is compared and what is counted is ``accountant.py``'s. Here it is turned round: shares, odds and caps for an
experiment that shall keep (ε, δ) over all its rounds under zero-out.

 1. Participation cells alone get ``PARTICIPATION`` of ε: one look a round, so that little noise does.
 2. Test cells get what a person of the test cohort has left after that, train cells what one of the train cohort has.
 3. Caps: each kind of cover exceeds its own with a small share of δ, for all honest devices and rounds together.

Train cells are many and a device's share of each is small; there a small shape r makes little cover on average. The
other cells are few: there the shape with the smallest cap is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from secvm.errors import BadExperimentError
from secvm.learning.arithmetic import exact
from secvm.learning.cover import COHORTS, Cover
from secvm.learning.cover_noise import MAX_MEAN, MAX_ODDS, CoverNoise
from secvm.learning.thinning import Thinning
from secvm.privacy.accountant import Adjacency, Contribution, Mechanism, Sight, delta_of, sight
from secvm.privacy.cover_loss import smallest_cap

#: Of δ: for caps on cover, and for the cap on a person's own units. The noise has the rest.
OVERFLOW_SHARE, CUT_SHARE = 0.1, 0.02
#: Odds are planned in these steps: of train cells, and of the others, whose odds are small.
_ODDS_STEPS, _FINE_ODDS_STEPS = 64, 4096
#: Participation cells alone keep this share of ε.
PARTICIPATION = 0.2
#: Shapes that ``plan`` tries when it may choose: it takes the one with the smallest budget.
SHAPES = (15, 20, 30, 45, 60, 90, 120, 180, 240)
#: Shares of a device that are tried for cells that are few.
FEW_CELL_SHARES = (Fraction(1, 8), Fraction(1), Fraction(8))


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverPlan:
    """Cover for an experiment: what every device does, what it costs, what it is worth."""

    #: What was asked for.
    epsilon: float
    delta: float
    contribution: Contribution
    #: For how many participants, of whom which share is honest, the cover was made.
    participants: int
    gamma: Fraction
    #: r of the honest devices' cover in each train cell.
    shape: int
    #: Train cells.
    noise: CoverNoise
    #: The other cells; None where the plan is about train cells alone.
    participation: CoverNoise | None
    test: CoverNoise | None
    #: The person's own units of a round are cut to this many, by dice that do not look at the cover.
    real_cap: int
    train_share: Fraction
    #: ε at ``delta`` under the plan's own assumptions.
    achieved: float
    #: How ``delta`` divides at the asked ε: noise, caps on cover, sampler, cap on own units.
    delta_noise: float
    delta_overflow: float
    delta_sampler: float
    delta_cut: float

    @property
    def mechanism(self) -> Mechanism:
        """As an accountant sees it."""
        return Mechanism(
            contribution=self.contribution,
            train=self.noise,
            participation=self.participation,
            test=self.test,
            real_cap=self.real_cap,
        )

    @property
    def honest(self) -> int:
        """Devices whose cover is counted on."""
        return math.floor(self.participants * self.gamma)

    @property
    def budget(self) -> int:
        """B: packages a device sends in each round, nulls included; of a plan about train cells, train packages."""
        return self.noise.cap + self.real_cap if self.participation is None else self.cover.budget

    @property
    def cover(self) -> Cover:
        """What an experiment carries."""
        if self.participation is None:
            raise BadExperimentError("this plan is about train cells alone")
        return Cover(
            train=self.noise,
            participation=self.participation,
            test=self.test,
            real_cap=self.real_cap,
            train_share=self.train_share,
        )


def plan(
    *,
    epsilon: float,
    delta: float,
    rounds: int,
    features: int,
    models: int = 1,
    hashes: int = 1,
    bins: int,
    thinning: Thinning | None = None,
    participants: int,
    gamma: Fraction | float = 1.0,
    shape: int | None = 30,
    violable: int | None = None,
    labels: int | None = None,
    train_share: Fraction | float = 1.0,
) -> CoverPlan:
    """Cover that keeps (ε, δ) over all rounds under zero-out.

    ``features`` is the most that one person has; ``violable`` how many of the models one person can violate in a round
    (all, unless told). A ``shape`` of None looks for the smallest budget; small shapes fail early when fewer are honest
    than assumed. ``labels`` is the number of labels, 1 for numbers; without it the plan is about train cells alone,
    and no experiment can be made of it.
    """
    asked = asked_for(
        epsilon=epsilon,
        delta=delta,
        rounds=rounds,
        features=features,
        models=models,
        hashes=hashes,
        bins=bins,
        thinning=thinning,
        participants=participants,
        gamma=gamma,
        violable=violable,
        labels=labels,
        train_share=train_share,
    )
    made = partial(_plan, asked, asked.few_cells())
    if shape is not None:
        return made(shape)
    found = [one for one in map(partial(_or_none, made), SHAPES) if one is not None]
    if not found:
        raise BadExperimentError("no cover that a device could send keeps this ε and δ")
    return min(found, key=lambda one: one.budget)


def asked_for(
    *,
    epsilon: float,
    delta: float,
    rounds: int,
    features: int,
    models: int = 1,
    hashes: int = 1,
    bins: int,
    thinning: Thinning | None = None,
    participants: int,
    gamma: Fraction | float = 1.0,
    violable: int | None = None,
    labels: int | None = None,
    train_share: Fraction | float = 1.0,
) -> Asked:
    """What ``plan`` plans for, refused where it makes no sense."""
    share = exact(gamma)
    if not (0 < epsilon <= 32 and 0 < delta < 1 and 0 < share <= 1):
        raise BadExperimentError("ε must lie above 0 and at most at 32, δ between 0 and 1, γ above 0 and at most at 1")
    if bins < 1 or hashes < 1 or features < 0 or participants * share < 1:
        raise BadExperimentError("a plan needs a bin, a hash, and an honest participant")
    told = Contribution(
        rounds=rounds,
        models=models if violable is None else violable,
        cells=min(hashes * (features + 1), bins + 1),
        thinning=thinning or Thinning(),
    )
    return Asked(
        epsilon=epsilon,
        delta=delta,
        told=told,
        participants=participants,
        gamma=share,
        train_cells=2 * models * (bins + 1),
        labels=labels,
        train_share=exact(train_share),
    )


def epsilon_of(
    plan: CoverPlan,
    *,
    delta: float,
    participants: int,
    gamma: Fraction | float,
    rounds: int | None = None,
    adjacency: Adjacency = Adjacency.ZERO_OUT,
) -> float:
    """ε at δ if γ · participants or more are honest, after so many rounds (all, unless told); +∞: no guarantee."""
    mechanism = plan.mechanism
    if rounds is not None:
        mechanism = replace(mechanism, contribution=replace(plan.contribution, rounds=rounds))
    return mechanism.epsilon(delta=delta, honest=math.floor(participants * exact(gamma)), adjacency=adjacency)


def smallest_odds(
    everybody: Iterable[Callable[[float], tuple[Sight, ...]]], epsilon: float, delta: float, *, steps: int = _ODDS_STEPS
) -> Fraction:
    """The smallest odds, in so many parts of one, whose noise keeps (ε, δ) under zero-out, as far as halving finds it.

    Each person says what it shows, given p.
    """

    def keeps(odds: int, cases: list[Callable[[float], tuple[Sight, ...]]]) -> bool:
        p = odds / (odds + steps)
        return all(delta_of(case(p), epsilon, Adjacency.ZERO_OUT) <= delta for case in cases)

    everyone = list(everybody)
    # Halving looks at both ends; then everybody is looked at, and who is not kept joins.
    cases = [everyone[0], everyone[-1]]
    low, high = 0, 1
    while True:
        while not keeps(high, cases):
            low, high = high, 2 * high
            if high > MAX_ODDS * steps:
                raise BadExperimentError("no cover that a device could send keeps this ε and δ")
        while high - low > max(1, high // 512):
            middle = (low + high) // 2
            low, high = (low, middle) if keeps(middle, cases) else (middle, high)
        missed = [case for case in everyone if not keeps(high, [case])]
        if not missed:
            return Fraction(high, steps)
        cases += missed
        low, high = high, high + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a plan is for."""

    epsilon: float
    delta: float
    told: Contribution
    participants: int
    gamma: Fraction
    train_cells: int
    labels: int | None
    train_share: Fraction

    @property
    def honest(self) -> int:
        return math.floor(self.participants * self.gamma)

    @property
    def kinds(self) -> int:
        """Kinds of cells, among which the share of δ for caps is divided."""
        return 1 if self.labels is None else 2 if self.labels == 1 else 3

    def few_cells(self) -> tuple[CoverNoise | None, CoverNoise | None]:
        """Cover of participation cells and of test cells."""
        if self.labels is None:
            return None, None
        here = self._few(COHORTS * self.labels, self.epsilon * PARTICIPATION, ())
        if self.labels == 1:
            return here, None
        return here, self._few(self.labels**2, self.epsilon, (sight(here, self.honest, 1.0, self.told.rounds),))

    def _few(self, cells: int, epsilon: float, besides: tuple[Sight, ...]) -> CoverNoise:
        rounds, for_noise = self.told.rounds, self.delta * (1 - OVERFLOW_SHARE - CUT_SHARE)
        found: list[CoverNoise] = []
        for share in FEW_CELL_SHARES:
            shape = float(self.honest * share)

            def shown(p: float, shape: float = shape) -> tuple[Sight, ...]:
                return (Sight(shape, p, 1.0, rounds), *besides)

            try:
                odds = smallest_odds([shown], epsilon, for_noise, steps=_FINE_ODDS_STEPS)
                found.append(self.capped(cells, share, odds))
            except BadExperimentError:
                continue
        if not found:
            raise BadExperimentError("no cover that a device could send keeps this ε and δ")
        return min(found, key=lambda noise: noise.cap)

    def capped(self, cells: int, share: Fraction, odds: Fraction) -> CoverNoise:
        """Noise whose cap is exceeded with no more than its part of δ."""
        if cells * share * odds > MAX_MEAN:
            raise BadExperimentError(f"a device would send more than {MAX_MEAN} cover packages in a round")
        sized = CoverNoise(cells=cells, share=share, odds=odds, cap=0)
        both, devices = 1 + math.exp(self.epsilon), self.honest * self.told.rounds
        log_chance = math.log(self.delta * OVERFLOW_SHARE / (both * devices * self.kinds))
        return replace(sized, cap=smallest_cap(float(cells * share), float(sized.p), log_chance))


def _or_none(made: Callable[[int], CoverPlan], shape: int) -> CoverPlan | None:
    try:
        return made(shape)
    except BadExperimentError:
        return None


def _plan(asked: Asked, few: tuple[CoverNoise | None, CoverNoise | None], shape: int) -> CoverPlan:
    told, honest, epsilon, delta = asked.told, asked.honest, asked.epsilon, asked.delta
    participation, test = few
    both = 1 + math.exp(epsilon)
    besides = () if participation is None else (sight(participation, honest, 1.0, told.rounds),)

    def shown(p: float, q: float, looks: int) -> tuple[Sight, ...]:
        return (Sight(float(shape), p, q, looks), *besides)

    everybody = [partial(shown, q=q, looks=looks) for q, looks in told.looks()]
    odds = smallest_odds(everybody, epsilon, delta * (1 - OVERFLOW_SHARE - CUT_SHARE))
    real_cap = math.ceil(told.mean_units)
    while both * told.rounds * math.exp(told.log_cut(real_cap)) > delta * CUT_SHARE:
        real_cap += 1
    mechanism = Mechanism(
        contribution=told,
        train=asked.capped(asked.train_cells, Fraction(shape, honest), odds),
        participation=participation,
        test=test,
        real_cap=real_cap,
    )
    overflow, sampler, cut = mechanism.departures(honest)
    noise = max(delta_of(one, epsilon, Adjacency.ZERO_OUT) for one in mechanism.persons(honest))
    # The sampler's error has no share of its own: it is next to nothing, until e^ε makes it more than δ.
    if noise + both * math.fsum((overflow, sampler, cut)) > delta:
        raise BadExperimentError(
            "this ε and δ cannot be kept: the sampler's own error, e^ε times, is more than δ leaves"
        )
    return CoverPlan(
        epsilon=epsilon,
        delta=delta,
        contribution=told,
        participants=asked.participants,
        gamma=asked.gamma,
        shape=shape,
        noise=mechanism.train,
        participation=participation,
        test=test,
        real_cap=real_cap,
        train_share=asked.train_share,
        # Known to hold at ε; the search for the smallest may step over where δ is kept, and then finds none.
        achieved=min(epsilon, mechanism.epsilon(delta=delta, honest=honest)),
        delta_noise=noise,
        delta_overflow=both * overflow,
        delta_sampler=both * sampler,
        delta_cut=both * cut,
    )
