"""Rounds, step, thinning and floor of swift under noise, from public numbers alone.

Settings that were tried out on people's data would have to be charged to ε. These follow from the number of people,
of bins and of features per person, and from (ε, δ), before anybody is asked.

Let σ be what a trusted server would have to add to one round's mean direction (Gaussian, all of ε in that round, a row
of length 1). Cover has two cells for each bin and is divided among T rounds, so that each bin of the direction gets
noise of about

    ν = σ √(2 T c) / N            of N people, if c times the cover is added that would do

**Rounds and step.** Such that the noise of all rounds in a person's score is not more than its margin bears: the law of
``rounds_under_noise``.

**Floor.** Swift divides by the popularity of a bin, which under noise is noise for rare bins. The mean popularity is
√F / D; the floor is ``FLOOR`` times the noise over it, where that is more than swift's own.

**Thinning.** A row of n = F + 1 units is sent with q = ρ / √n. In a bin that everybody has, thinning's own dice then
add the variance (1 - q) / (ρ √n N) to the mean direction. ρ makes that ``THINNING`` times the noise's variance ν²:
sending more would cost cover, sending less accuracy. That is 1/ρ = 1/√n + THINNING · ν² N √n, from 1 to ``MOST_RHO``.
A person of fewer than ρ² units has a shorter say than others, and noise is as large for it as for them: over many
rounds a larger ρ was never better, also where people have hundreds of units.

The constants were chosen on generated people and on texts other than those that anybody trains on later (ADR 34, 56).

The law of rounds and step:

**What accumulates.** Swift's weights after T rounds are a sum over rounds: the mean direction of round u has the weight

    a_u = Σ_{t=u..T} m^(t-u) / √t        of momentum m, times the step size η and the popularity factor,

and that factor is 1 on average over everything that people send (``swift.py``: s). Let ν be the noise that each bin of
a mean direction would have if all of (ε, δ) went into one round. In one of T rounds it is ν √T. So all rounds together
give the score of a person, whose row has length 1, a noise of

    S(T, η) = η ν √T · √(Σ a_u²),        while the directions themselves go as far as η · Σ a_u.

Their ratio is 1/ν times (Σ a_u) / (√T √(Σ a_u²)), which lies between .87 and .89 for 4 to 48 rounds of momentum 9/10:
**rounds by themselves cost hardly any accuracy**. What costs accuracy is how far the weights go. They go astray once
the noise in people's scores is about their margin, which is 1: then who violates it is decided by dice, directions
shrink and noise does not. And the weights must go far: the first rounds find the difference of two means, and words
that go together in real texts need more.

**The law.** S(T, η) is ``SCORE_NOISE``, as near as it can be with

- η at most swift's own, and
- T from ``LEAST_ROUNDS`` to ``MOST_ROUNDS``.

With little noise that is all rounds and swift's own step; with more noise fewer rounds; with still more the fewest
rounds and a smaller step. Fewer rounds than ``LEAST_ROUNDS`` would be larger steps over the same way, which was worse
in most settings tried; more than ``MOST_ROUNDS`` gained next to nothing. Bins do not enter: noise in bins that a person
does not have is not in its score.

**One round.** Where ε is at most ``ONE_ROUND_EPSILON`` and the step would be less than 1/``MOST_SHRUNK`` of swift's
own, one round with all of (ε, δ) is taken. Many small steps then hardly leave the direction of the first round, and
each of them is thinned more, since thinning is in proportion to a round's share of ε. That is what was measured, no
theorem: one round was better by up to .02 and worse by at most .006, and with larger ε it was worse by up to .017.

The constants were fitted on real texts and profiles of several sizes, and held to others (ADR 56, docs/privacy.md).

**What Gaussian noise is worth**, exactly (Balle and Wang 2018; Dong, Roth and Su 2019). A sum that one person changes
by a vector of length s at most, plus N(0, σ²) in each place, tells as much as one draw of N(0, 1) against N(μ, 1) with
μ = s / σ. Many looks, each chosen after what the ones before have shown, tell as much as
one with μ² = Σ μ_t². For that pair, whichever way round,

    δ(ε) = Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from secvm.errors import BadExperimentError, BadInputError
from secvm.learning.aggregate.descent import Swift
from secvm.learning.thinning import Thinning

#: The noise of all rounds in the score of a person, in margins.
SCORE_NOISE = 0.8
LEAST_ROUNDS, MOST_ROUNDS = 20, 32
#: A step that would be shrunk more than this is not worth many rounds, where ε is this small.
MOST_SHRUNK, ONE_ROUND_EPSILON = 4, 1.0
#: Steps are written in these parts of one, rounded down; one part is the least.
_STEP_PARTS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsAndStep:
    """How far swift goes, and in how many rounds."""

    rounds: int
    step_size: Fraction
    #: Noise in the score of a person after all rounds, over the margin: expected, not measured.
    score_noise: float


def rounds_under_noise(one_round: float, *, epsilon: float, rounds: int | None = None) -> RoundsAndStep:
    """Rounds and step under this noise in each bin, if all of (ε, δ) went into one round; ``rounds`` where given."""
    if not 0 <= one_round < math.inf:
        raise BadExperimentError(f"the noise of one round must be at least 0 and finite, and it is {one_round}")
    own = Swift().step_size
    at_own_step = one_round * float(own)
    if rounds is None:
        fitting = (t for t in range(MOST_ROUNDS, LEAST_ROUNDS, -1) if at_own_step * noise_sum(t) <= SCORE_NOISE)
        shrunk = at_own_step * noise_sum(LEAST_ROUNDS) / SCORE_NOISE
        one_is_better = epsilon <= ONE_ROUND_EPSILON and shrunk > MOST_SHRUNK
        rounds = 1 if one_is_better else next(fitting, LEAST_ROUNDS)
    noise = at_own_step * noise_sum(rounds)
    step_size = own
    if noise > SCORE_NOISE:
        step_size = Fraction(max(1, math.floor(_STEP_PARTS * float(own) * SCORE_NOISE / noise)), _STEP_PARTS)
    return RoundsAndStep(rounds=rounds, step_size=step_size, score_noise=noise * float(step_size / own))


@lru_cache(maxsize=256)
def noise_sum(rounds: int) -> float:
    """√T √(Σ a_u²): noise of all rounds in the weights, for a step of 1, over that of one round with all of (ε, δ)."""
    if rounds < 1:
        raise BadExperimentError(f"there must be at least one round, and there are {rounds}")
    momentum = float(Swift().momentum)
    # From the last round on: a_u = 1/√u + m · (Σ_{t>u} m^(t-u-1) / √t); both sums end at T.
    squares, later = 0.0, 0.0
    for u in range(rounds, 0, -1):
        later = 1 / math.sqrt(u) + momentum * later
        squares += later * later
    return math.sqrt(rounds * squares)


FLOOR = 20
THINNING = 1 / 4
MOST_RHO = 4
#: ρ and the floor are written in these parts of one.
_PARTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseSettings:
    """How swift runs under noise."""

    rounds: int
    step_size: Fraction
    rho: Fraction
    floor: Fraction
    #: The length of the noise in a round's mean direction, over the length of a person's row: expected, not measured.
    noise_to_signal: float
    #: Noise in the score of a person after all rounds, over the margin, likewise.
    score_noise: float

    @property
    def rule(self) -> Swift:
        return Swift(step_size=self.step_size, floor=self.floor)

    @property
    def thinning(self) -> Thinning:
        return Thinning(rho=self.rho)


def noise_settings(
    *,
    people: int,
    bins: int,
    contribution: int,
    epsilon: float,
    delta: float,
    covers: Fraction | float = 1,
    models: int = 1,
    rounds: int | None = None,
    rho: Fraction | None = None,
) -> NoiseSettings:
    """Settings for so many people, bins and features per person; ``rounds`` and ``rho`` where they are given.

    ``covers``: how many times the cover is added that would do; two relays add it twice. ``models`` are those that one
    person can violate in a round: their rows together are √models long.
    """
    if min(people, bins, contribution, models) < 1:
        raise BadExperimentError("settings need a person, a bin, a feature and a model")
    sigma = math.sqrt(models * 2 * covers) / mu_for(epsilon, delta)
    one_round = sigma / people
    way = rounds_under_noise(one_round, epsilon=epsilon, rounds=rounds)
    noise = one_round * math.sqrt(way.rounds)
    cells = min(contribution, bins) + 1
    length = math.sqrt(cells)
    if rho is None:
        wanted = 1 / (1 / length + THINNING * noise**2 * people * length)
        rho = Fraction(round(_PARTS * min(max(wanted, 1.0), MOST_RHO)), _PARTS)
    return NoiseSettings(
        rounds=way.rounds,
        step_size=way.step_size,
        rho=rho,
        floor=floor_for(noise, bins=bins, cells=cells),
        noise_to_signal=noise * math.sqrt(bins + 1),
        score_noise=way.score_noise,
    )


def floor_for(noise: float, *, bins: int, cells: int) -> Fraction:
    """Swift's floor under this noise in each bin of a round's mean direction; ``cells``: of a person, with the bias."""
    floor = Fraction(round(_PARTS * FLOOR * noise * (bins + 1) / math.sqrt(cells)), _PARTS)
    return max(Swift().floor, floor)


#: Halvings of the interval in which μ lies: down to the last bits of a float.
_HALVINGS = 100
_MAX_MU = 1e4


def normal_below(x: float) -> float:
    """Φ(x), good to a few last digits also far below 0."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """δ(ε) of looks that together tell μ."""
    if mu == 0:
        return 0.0
    second = normal_below(-epsilon / mu - mu / 2)
    # e^ε can be more than a float holds where Φ is less than one holds: then their product is nothing.
    raised = math.exp(epsilon + math.log(second)) if second > 0 else 0.0
    return max(0.0, normal_below(-epsilon / mu + mu / 2) - raised)


def mu_for(epsilon: float, delta: float) -> float:
    """The most that looks may tell together under (ε, δ); δ grows with μ, so halving finds it, from below."""
    if not (epsilon >= 0 and 0 < delta < 1):
        raise BadInputError("ε must not be negative, and δ must lie between 0 and 1")
    low, high = 0.0, 1.0
    while gaussian_delta(epsilon, high) <= delta:
        low, high = high, 2 * high
        if high > _MAX_MU:
            return math.inf
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(epsilon, middle) <= delta else (low, middle)
    return low
