"""What is drawn by dice is fair. Seeds are fixed, so each test always says the same; its false-alarm rate is the chance
with which a fair implementation would have failed had the seed been drawn once."""

import math
from fractions import Fraction

import numpy as np
import pytest

from secvm.learning.individual.cohort import draw_cohort
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.individual.features import sample_features
from secvm.learning.individual.splitting import fit_budget, split, thin
from secvm.learning.individual.update import Update
from secvm.learning.package import Cohort
from secvm.learning.thinning import Thinning

pytestmark = pytest.mark.slow

#: Two-sided normal quantile of a false-alarm rate of 1e-6 for one count.
Z = 4.892


def within(hits: int, trials: int, p: float, comparisons: int = 1) -> bool:
    """Whether a binomial count lies within z standard deviations, widened (Bonferroni) for several comparisons."""
    z = Z if comparisons == 1 else math.sqrt(Z * Z + 2 * math.log(comparisons))
    return abs(hits - trials * p) <= z * math.sqrt(trials * p * (1 - p)) + 1


def test_seven_in_ten_people_train() -> None:
    """False-alarm rate 1e-6."""
    n = 20_000
    train = sum(draw_cohort(Fraction(7, 10), UnsafeSeededDice(b"cohorts", i)) is Cohort.TRAIN for i in range(n))
    assert within(train, n, 0.7)


def test_every_feature_is_sampled_equally_often_the_first_and_the_last_too() -> None:
    """False-alarm rate about 1e-6 for all twelve features together."""
    names = [f"feature {i:02}" for i in range(12)]
    n, limit = 6_000, 5
    drawn = dict.fromkeys(names, 0)
    for person in range(n):
        for name in sample_features(dict.fromkeys(names, 1), limit, UnsafeSeededDice(b"features", person)):
            drawn[name] += 1
    assert sum(drawn.values()) == n * limit
    for name in names:
        assert within(drawn[name], n, limit / len(names), comparisons=len(names)), name


def test_pairs_of_features_are_sampled_without_favour() -> None:
    """False-alarm rate about 1e-6 for all ten pairs together."""
    n = 6_000
    together = np.zeros((5, 5), dtype=np.int64)
    for person in range(n):
        chosen = [int(c) for c in sample_features(dict.fromkeys("01234", 1), 2, UnsafeSeededDice(b"pairs", person))]
        together[chosen[0], chosen[1]] += 1
    for a in range(5):
        for b in range(a + 1, 5):
            assert within(int(together[a, b]), n, 0.1, comparisons=10)


@pytest.mark.parametrize("thinning", [Thinning(q=Fraction(1, 5)), Thinning(rho=Fraction(2))])
def test_thinned_update_is_right_on_average_in_every_bin(thinning: Thinning) -> None:
    """False-alarm rate about 1e-6 for all bins together."""
    update = Update(values={0: 4, 3: -2, 7: 1, 9: 1})
    squared = 16 + 4 + 1 + 1
    keep53 = int(thinning.keep53([squared])[0])
    p = keep53 / 2**53
    assert math.isclose(p, 0.2 if thinning.q else 2 / math.sqrt(squared), rel_tol=1e-12)
    packages, n = split(update, 0), 4_000
    counts = dict.fromkeys(update.values, 0)
    for person in range(n):
        for package in thin(packages, keep53=keep53, dice=UnsafeSeededDice(b"thin", person), round_number=1, model=0):
            counts[package.bin_index] += package.sign
    for bin_index, value in update.values.items():
        assert within(abs(counts[bin_index]), n * abs(value), p, comparisons=4)
        assert np.sign(counts[bin_index]) == np.sign(value)


def test_budget_favours_no_package() -> None:
    """False-alarm rate about 1e-6 for all ten packages together."""
    packages, n = split(Update(values=dict.fromkeys(range(10), 1)), 0), 5_000
    counts = np.zeros(10, dtype=np.int64)
    for person in range(n):
        for package in fit_budget(packages, budget=3, dice=UnsafeSeededDice(b"budget", person), round_number=2):
            counts[package.bin_index] += 1
    assert all(within(int(c), n, 0.3, comparisons=10) for c in counts)
