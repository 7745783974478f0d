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
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from secvm.errors import BadExperimentError
from secvm.learning.aggregate.descent import Swift
from secvm.learning.thinning import Thinning
from secvm.privacy.accounting.gaussian import mu_for
from secvm.privacy.planning.rounds_under_noise import rounds_under_noise

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
