"""Cover has the law it is said to have, and nothing of the person in it; samplers with a fault are found out.

Seeds are fixed, so each test always says the same. The false-alarm rate is the chance with which a right sampler would
have failed had the seed been drawn once: 1e-6 for each of the five statistics. Chi-square limits are Laurent and
Massart's for a chi-square law, which a statistic of thousands of draws has nearly; the distances' limits (Dvoretzky,
Kiefer, Wolfowitz with Massart's constant) hold for every number of draws, and for counts too.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from secvm.learning.cover_noise import CoverNoise
from secvm.learning.individual import cover
from secvm.learning.individual.cover import draw_cells, train_package
from secvm.learning.individual.dice import Dice, Purpose, UnsafeSeededDice
from secvm.learning.package import TrainPackage
from secvm.privacy.cover_loss import log_masses
from tests.statistical.bounds import chi_square

pytestmark = pytest.mark.slow

RATE = 1e-6
N = 4_000
BINS = 5
#: 12 cells of mean 2 and variance 10: 24 cover packages on average, standard deviation 11.
NOISE = CoverNoise(cells=12, share=Fraction(1, 2), odds=Fraction(4), cap=10**6)
#: A cap that one in three reaches.
TIGHT = replace(NOISE, cap=28)
#: The most units that a person has.
MOST = 12

#: A sampler as a device would use it: it is handed the person's number of units, and must not look.
Sampler = Callable[[CoverNoise, Dice, int], list[TrainPackage]]


def right(noise: CoverNoise, dice: Dice, units: int) -> list[TrainPackage]:
    cells = draw_cells(noise, Purpose.COVER, dice=dice, round_number=1)
    return [train_package(cell, BINS) for cell in cells]


def one_cell_less(noise: CoverNoise, dice: Dice, units: int) -> list[TrainPackage]:
    found = right(noise, dice, units)
    return [replace(one, bin_index=0) if one.bin_index == BINS and one.sign < 0 else one for one in found]


def wrong_mean(noise: CoverNoise, dice: Dice, units: int) -> list[TrainPackage]:
    return right(replace(noise, share=noise.share * Fraction(9, 10)), dice, units)


def wrong_sizes(noise: CoverNoise, dice: Dice, units: int) -> list[TrainPackage]:
    """The right mean, but packages alone: Poisson noise, which hides far less."""
    words = cover._words(dice, Purpose.COVER, 1)
    count = cover._poisson(noise.mean_packages, words)
    return [train_package(cover._uniform(noise.cells, words), BINS) for _ in range(count)]


def looks_at_the_data(noise: CoverNoise, dice: Dice, units: int) -> list[TrainPackage]:
    """Who has much to say adds less."""
    return right(replace(noise, share=noise.share * Fraction(4 * MOST - units, 4 * MOST)), dice, units)


def fills_up_to_the_budget(noise: CoverNoise, dice: Dice, units: int) -> list[TrainPackage]:
    """Cut at B less the person's own units, instead of B less the most that anybody has."""
    return right(replace(noise, cap=noise.cap + MOST - units), dice, units)


# ── statistics, in units of their limits: above 1 is an alarm ────────────────────────────────────────────────────────


def drawn(sampler: Sampler, noise: CoverNoise, units: int, seed: bytes) -> list[list[TrainPackage]]:
    return [sampler(noise, UnsafeSeededDice(seed, i), units) for i in range(N)]


def counts_of(packages: Sequence[TrainPackage]) -> NDArray[np.int64]:
    cells = [2 * one.bin_index + (one.sign < 0) for one in packages]
    return np.bincount(np.array(cells, dtype=np.int64), minlength=NOISE.cells)


def against(counts: Counter[int], law: NDArray[np.float64]) -> float:
    """Chi-square against a law on 0, 1, …; from where fewer than five are expected on, all are taken together."""
    total = sum(counts.values())
    last = next(k for k in range(int(law.argmax()), len(law)) if total * law[k] < 5)
    expected = total * np.append(law[:last], 1 - law[:last].sum())
    found = np.array([*(counts[k] for k in range(last)), sum(n for k, n in counts.items() if k >= last)])
    statistic = float(((found - expected) ** 2 / expected).sum())
    degrees, x = last, math.log(1 / RATE)
    return statistic / (degrees + 2 * math.sqrt(degrees * x) + 2 * x)


def first_cells(sampler: Sampler) -> float:
    """The cell that a device's first package names is uniform."""
    found = drawn(sampler, NOISE, 0, b"first")
    return chi_square(sum(counts_of(one[:1]) for one in found), RATE)


def cell_law(sampler: Sampler) -> float:
    """Every cell's count is a negative binomial of the share, independent of the other cells'."""
    counts: Counter[int] = Counter()
    for one in drawn(sampler, NOISE, MOST // 2, b"cells"):
        counts.update(counts_of(one).tolist())
    return against(counts, np.exp(log_masses(0.5, 0.8)))


def independent_cells(sampler: Sampler) -> float:
    """Neighbouring cells are not correlated: covariance by Chebyshev's cousin, the normal limit."""
    table = np.array([counts_of(one) for one in drawn(sampler, NOISE, 0, b"pairs")], dtype=float)
    products = ((table[:, :-1] - 2) * (table[:, 1:] - 2)).mean(axis=1)
    return abs(float(products.mean())) / (4.892 * float(products.std()) / math.sqrt(N))


def total_law(sampler: Sampler) -> float:
    """A device's number of packages, cut at the cap, is a negative binomial of shape 6, cut there."""
    totals = np.minimum([len(one) for one in drawn(sampler, TIGHT, MOST, b"totals")], TIGHT.cap)
    law = np.exp(log_masses(6.0, 0.8)).cumsum()[: TIGHT.cap + 1]
    law[-1] = 1.0
    found = np.bincount(totals, minlength=TIGHT.cap + 1).cumsum() / N
    return float(np.abs(found - law).max()) / math.sqrt(math.log(2 / RATE) / (2 * N))


def same_for_all(sampler: Sampler) -> float:
    """Who has no unit and who has the most have the same law of cover."""
    one, other = (
        np.bincount([len(found) for found in drawn(sampler, TIGHT, units, seed)], minlength=200)[:200].cumsum() / N
        for units, seed in ((0, b"nothing"), (MOST, b"much"))
    )
    return float(np.abs(one - other).max()) / (2 * math.sqrt(math.log(4 / RATE) / (2 * N)))


STATISTICS = (first_cells, cell_law, independent_cells, total_law, same_for_all)
FAULTS: dict[Sampler, set[Callable[[Sampler], float]]] = {
    one_cell_less: {first_cells, cell_law},
    wrong_mean: {cell_law},
    wrong_sizes: {cell_law, total_law},
    looks_at_the_data: {same_for_all},
    fills_up_to_the_budget: {same_for_all},
}


@pytest.mark.parametrize("statistic", STATISTICS)
def test_cover_passes(statistic: Callable[[Sampler], float]) -> None:
    """False-alarm rate 1e-6 each."""
    assert statistic(right) < 1


@pytest.mark.parametrize("fault", FAULTS)
def test_a_sampler_with_a_fault_is_found_out(fault: Sampler) -> None:
    for statistic in FAULTS[fault]:
        assert statistic(fault) > 1, statistic


# ── the draws it is made of ──────────────────────────────────────────────────────────────────────────────────────────


def words(seed: bytes) -> Iterator[int]:
    return cover._words(UnsafeSeededDice(seed, 0), Purpose.COVER, 1)


def test_poisson_has_its_law() -> None:
    """False-alarm rate 1e-6 for each of three means."""
    for mean in (Fraction(1), Fraction(2, 7), Fraction(31, 10)):
        source = words(b"poisson")
        counts = Counter(cover._poisson(mean, source) for _ in range(5 * N))
        law: NDArray[np.float64] = np.exp([k * math.log(mean) - float(mean) - math.lgamma(k + 1) for k in range(40)])
        assert against(counts, law) < 1, mean


def test_sizes_have_their_law() -> None:
    """False-alarm rate 1e-6 for each of three odds, whose tables end after 2, 12 and 181 powers."""
    for p in (Fraction(1, 3), Fraction(4, 5), Fraction(65, 66)):
        source = words(b"sizes")
        counts = Counter(cover._geometric(p, source) - 1 for _ in range(5 * N))
        assert against(counts, np.asarray(float(1 - p) * float(p) ** np.arange(2_000), dtype=np.float64)) < 1, p
