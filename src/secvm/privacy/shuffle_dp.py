"""(ε, δ) of cover packages in the shuffle model: what a plan costs, and what it is worth under one's own assumptions.

The coordinator sees, per round, how often each cell was named: the real packages of all, and cover that the honest
devices add (``learning/cover_noise.py``). Compared are two worlds that differ in one person:

- **zero-out**: the device sends its cover and nulls, but no real package (the number of participants is public, so a
  world without the device would be a comparison nobody could keep);
- **label flip**: the same features with the other label, that is, every unit moves from a cell to the one of the other
  sign: a unit taken and a unit given.

In each round the person touches at most n cells of each model, one unit each. Each touched cell is a look
(``cover_loss.py``), whatever the weights and whatever was published before, so malicious weights are covered; rounds
that were opened and abandoned count like others. Thinning by ρ sends each unit of a person with n cells with chance
q = min(1, ρ/√n), n fixed when the device joins: which n is worst is not proved but *looked up*, over all of them
(docs/proofs/thinned-cover.md).

To the noise's δ come, each times (1 + e^ε), the chances that reality departs from this: a device's cover exceeds its
cap (for every honest device and round), the sampler's error (likewise), a person's thinned units exceed ``real_cap``.
Cover and real units are cut apart, so that neither cut tells of the other.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial

from secvm.errors import BadExperimentError
from secvm.learning.arithmetic import exact
from secvm.learning.cover_noise import MAX_ODDS, CoverNoise
from secvm.learning.thinning import Thinning
from secvm.privacy.cover_loss import cell_losses, log_tail, smallest_cap, spread_of_loss
from secvm.privacy.pld import Looks, PrivacyLoss, smallest_epsilon

#: The sampler's distance from its law, a device and round (``learning/individual/cover.py`` proves far less).
SAMPLER_ERROR = 2.0**-60
#: Of δ: for caps on cover, and for the cap on a person's own units. The noise has the rest.
_OVERFLOW_SHARE, _CUT_SHARE = 0.1, 0.02
#: Odds are planned in these steps.
_ODDS_STEPS = 64
#: A grid's step, in standard deviations of one look: it adds a 1,500th to the variance, never takes from it.
_STEP = 1 / 16
#: Neighbouring n are looked at together while they differ by less than this share: the larger n with the larger q.
_TOGETHER = 0.01
#: More than what a few roundings take from a chance.
_ROUNDED_UP = 1 + 1e-12
#: Shapes that ``plan`` tries when it may choose: it takes the one with the smallest budget.
SHAPES = (15, 20, 30, 45, 60, 90, 120, 180, 240)


class Adjacency(enum.Enum):
    """Which two worlds are compared."""

    ZERO_OUT = "zero-out"
    LABEL_FLIP = "label flip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """The most that one person tells over an experiment."""

    #: Rounds that are opened, the abandoned ones too.
    rounds: int
    #: Models that a person can violate in a round.
    models: int
    #: Cells of one model that a person touches in a round: hashes x (features + 1), one unit each.
    cells: int
    thinning: Thinning

    def __post_init__(self) -> None:
        if min(self.rounds, self.models, self.cells) < 1:
            raise BadExperimentError("a contribution has a round, a model and a cell at least")

    def looks(self) -> Iterator[tuple[float, int]]:
        """(q, how many looks) of every person there may be, or of one who tells more."""
        each = self.rounds * self.models
        if self.thinning.rho is None:
            yield (float(self.thinning.q or 1), each * self.cells)
            return
        rho = float(self.thinning.rho)
        # Below ρ² nothing is thinned: fewer cells with the same q tell less.
        low = max(1, min(math.floor(self.thinning.rho**2), self.cells))
        while low <= self.cells:
            high = min(self.cells, math.floor(low * (1 + _TOGETHER)))
            yield (min(1.0, rho / math.sqrt(low) * _ROUNDED_UP), each * high)
            low = high + 1

    @property
    def mean_units(self) -> float:
        """The largest mean number of units that a person sends in a round."""
        if self.thinning.rho is not None:
            return self.models * min(self.cells, float(self.thinning.rho) * math.sqrt(self.cells))
        return float(self.models * self.cells * (self.thinning.q or 1))

    def log_cut(self, real_cap: int) -> float:
        """The logarithm of a bound on the chance that more than ``real_cap`` units remain in a round (Chernoff)."""
        k, mean = real_cap + 1, self.mean_units
        if k > self.models * self.cells:
            return -math.inf
        return 0.0 if k <= mean else k - mean - k * math.log(k / mean)


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
    #: r of the honest devices' cover in each cell.
    shape: int
    noise: CoverNoise
    #: The person's own units of a round are cut to this many, by dice that do not look at the cover.
    real_cap: int
    #: ε at ``delta`` under the plan's own assumptions.
    achieved: float
    #: How ``delta`` divides at the asked ε: noise, caps on cover, sampler, cap on own units.
    delta_noise: float
    delta_overflow: float
    delta_sampler: float
    delta_cut: float

    @property
    def budget(self) -> int:
        """B: train packages a device sends in each round, nulls included."""
        return self.noise.cap + self.real_cap


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
) -> CoverPlan:
    """Cover that keeps (ε, δ) over all rounds under zero-out.

    ``features`` is the most that one person has; ``violable`` how many of the models one person can violate in a round
    (all, unless told). A ``shape`` of None looks for the smallest budget; small shapes fail early when fewer are honest
    than assumed. Test and participation cells are no part of it: they need cover and a share of ε of their own.
    """
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
    made = partial(_plan, epsilon, delta, told, participants, share, models, bins)
    if shape is not None:
        return made(shape)
    found = [one for one in map(partial(_or_none, made), SHAPES) if one is not None]
    if not found:
        raise BadExperimentError("no cover that a device could send keeps this ε and δ")
    return min(found, key=lambda one: one.budget)


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
    told = plan.contribution if rounds is None else replace(plan.contribution, rounds=rounds)
    honest = math.floor(participants * exact(gamma))
    if honest < 1:
        return math.inf
    departs = sum(_departures(plan.noise, told, honest, plan.real_cap))
    shape, p = float(honest * plan.noise.share), float(plan.noise.p)
    worst = 0.0
    for q, looks in told.looks():

        def whole(epsilon: float, q: float = q, looks: int = looks) -> float:
            return _delta(shape, p, q, looks, epsilon, adjacency) + (1 + math.exp(epsilon)) * departs

        worst = smallest_epsilon(whole, delta, at_least=worst)
        if math.isinf(worst):
            break
    return worst


def noise_delta(
    contribution: Contribution, shape: float, p: float, epsilon: float, adjacency: Adjacency = Adjacency.ZERO_OUT
) -> float:
    """δ(ε) of the noise alone: the largest over all persons there may be."""
    return max(_delta(shape, p, q, looks, epsilon, adjacency) for q, looks in contribution.looks())


def smallest_odds(contribution: Contribution, shape: float, epsilon: float, delta: float) -> Fraction:
    """The smallest odds, in 64ths, whose noise keeps (ε, δ) under zero-out, as far as halving finds it."""

    def keeps(steps: int, cases: list[tuple[float, int]]) -> bool:
        p = steps / (steps + _ODDS_STEPS)
        return all(_delta(shape, p, q, looks, epsilon, Adjacency.ZERO_OUT) <= delta for q, looks in cases)

    everybody = list(contribution.looks())
    # Halving looks at both ends; then everybody is looked at, and who is not kept joins.
    cases = [everybody[0], everybody[-1]]
    low, high = 0, 1
    while True:
        while not keeps(high, cases):
            low, high = high, 2 * high
            if high > MAX_ODDS * _ODDS_STEPS:
                raise BadExperimentError("no cover that a device could send keeps this ε and δ")
        while high - low > max(1, high // 512):
            middle = (low + high) // 2
            low, high = (low, middle) if keeps(middle, cases) else (middle, high)
        missed = [case for case in everybody if not keeps(high, [case])]
        if not missed:
            return Fraction(high, _ODDS_STEPS)
        cases += missed
        low, high = high, high + 1


def _or_none(made: Callable[[int], CoverPlan], shape: int) -> CoverPlan | None:
    try:
        return made(shape)
    except BadExperimentError:
        return None


def _plan(
    epsilon: float,
    delta: float,
    told: Contribution,
    participants: int,
    gamma: Fraction,
    models: int,
    bins: int,
    shape: int,
) -> CoverPlan:
    honest = math.floor(participants * gamma)
    both = 1 + math.exp(epsilon)
    odds = smallest_odds(told, float(shape), epsilon, delta * (1 - _OVERFLOW_SHARE - _CUT_SHARE))
    share = Fraction(shape, honest)
    sized = CoverNoise(n_models=models, n_bins=bins, share=share, odds=odds, cap=0)
    log_chance = math.log(delta * _OVERFLOW_SHARE / (both * honest * told.rounds))
    cap = smallest_cap(float(sized.cells * share), float(sized.p), log_chance)
    real_cap = math.ceil(told.mean_units)
    while both * told.rounds * math.exp(told.log_cut(real_cap)) > delta * _CUT_SHARE:
        real_cap += 1
    noise = replace(sized, cap=cap)
    overflow, sampler, cut = _departures(noise, told, honest, real_cap)
    made = CoverPlan(
        epsilon=epsilon,
        delta=delta,
        contribution=told,
        participants=participants,
        gamma=gamma,
        shape=shape,
        noise=noise,
        real_cap=real_cap,
        achieved=math.inf,
        delta_noise=noise_delta(told, float(shape), float(noise.p), epsilon),
        delta_overflow=both * overflow,
        delta_sampler=both * sampler,
        delta_cut=both * cut,
    )
    return replace(made, achieved=epsilon_of(made, delta=delta, participants=participants, gamma=gamma))


def _departures(noise: CoverNoise, told: Contribution, honest: int, real_cap: int) -> tuple[float, float, float]:
    """Chances that cover exceeds its cap somewhere, that the sampler errs, that a person's own units are cut."""
    devices = honest * told.rounds
    overflow = devices * math.exp(log_tail(float(noise.cells * noise.share), float(noise.p), noise.cap))
    return overflow, devices * SAMPLER_ERROR, told.rounds * math.exp(told.log_cut(real_cap))


def _delta(shape: float, p: float, q: float, looks: int, epsilon: float, adjacency: Adjacency) -> float:
    taken, given = _losses(shape, p, q)
    if adjacency is Adjacency.LABEL_FLIP:
        return Looks([(taken, looks), (given, looks)]).delta(epsilon)
    return max(Looks([(taken, looks)]).delta(epsilon), Looks([(given, looks)]).delta(epsilon))


@lru_cache(maxsize=512)
def _losses(shape: float, p: float, q: float) -> tuple[PrivacyLoss, PrivacyLoss]:
    return cell_losses(shape, p, q, _STEP * spread_of_loss(shape, p, q))
