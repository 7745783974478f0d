"""What is drawn by dice is fair, and a sampler that favours somebody is seen.

Seeds are the run's. Fails by chance with probability at most 1e-6 a test: exact binomial counts (``bounds``).
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from secvm.learning.individual.contribution import fit_budget, split, thin
from secvm.learning.individual.dice import UnsafeSeededDice, draw_cohort, sample_features
from secvm.learning.individual.update import Update
from secvm.learning.package import Cohort
from secvm.learning.thinning import Thinning
from tests.deep.statistical.bounds import counts
from tests.seeds import FALSE_ALARM, seed_bytes


def dice(purpose: str, person: int) -> UnsafeSeededDice:
    return UnsafeSeededDice(seed_bytes(purpose), person)


def test_seven_in_ten_people_train() -> None:
    n = 8_000
    train = sum(draw_cohort(Fraction(7, 10), dice("cohorts", i)) is Cohort.TRAIN for i in range(n))
    assert counts(train, n, 0.7, FALSE_ALARM) < 1
    # Six in a hundred more or fewer would be seen: 11 standard deviations.
    assert counts(train, n, 0.76, FALSE_ALARM) > 1
    assert counts(train, n, 0.64, FALSE_ALARM) > 1


def test_every_feature_is_sampled_equally_often_the_first_and_the_last_too() -> None:
    names = [f"feature {i:02}" for i in range(12)]
    n, limit = 6_000, 5
    drawn = dict.fromkeys(names, 0)
    for person in range(n):
        for name in sample_features(dict.fromkeys(names, 1), limit, dice("features", person)):
            drawn[name] += 1
    assert sum(drawn.values()) == n * limit
    assert counts(list(drawn.values()), n, limit / len(names), FALSE_ALARM) < 1


def test_pairs_of_features_are_sampled_without_favour() -> None:
    n = 6_000
    together = np.zeros((5, 5), dtype=np.int64)
    for person in range(n):
        chosen = [int(c) for c in sample_features(dict.fromkeys("01234", 1), 2, dice("pairs", person))]
        together[chosen[0], chosen[1]] += 1
    assert counts(together[np.triu_indices(5, 1)], n, 0.1, FALSE_ALARM) < 1


@pytest.mark.parametrize("thinning", [Thinning(q=Fraction(1, 5)), Thinning(rho=Fraction(2))], ids=["q", "rho"])
def test_thinned_update_is_right_on_average_in_every_bin(thinning: Thinning) -> None:
    update = Update(values={0: 4, 3: -2, 7: 1, 9: 1})
    squared = 16 + 4 + 1 + 1
    keep53 = int(thinning.keep53([squared])[0])
    p = keep53 / 2**53
    assert math.isclose(p, 0.2 if thinning.q else 2 / math.sqrt(squared), rel_tol=1e-12)
    packages, n = split(update, 0), 4_000
    found = dict.fromkeys(update.values, 0)
    for person in range(n):
        thrown = dice(f"thin {thinning}", person)
        for package in thin(packages, keep53=keep53, dice=thrown, round_number=1, model=0):
            assert package.sign == np.sign(update.values[package.bin_index])
            found[package.bin_index] += 1
    sent, trials = list(found.values()), [n * abs(value) for value in update.values.values()]
    assert counts(sent, trials, p, FALSE_ALARM) < 1
    # A fifth less would be seen: 12 standard deviations.
    assert counts(sent, trials, 0.8 * p, FALSE_ALARM) > 1


def test_budget_favours_no_package() -> None:
    packages, n = split(Update(values=dict.fromkeys(range(10), 1)), 0), 5_000
    found = np.zeros(10, dtype=np.int64)
    for person in range(n):
        for package in fit_budget(packages, budget=3, dice=dice("budget", person), round_number=2):
            found[package.bin_index] += 1
    assert counts(found, n, 0.3, FALSE_ALARM) < 1


def test_a_budget_that_cuts_the_end_of_the_list_is_seen() -> None:
    assert counts([5_000] * 3 + [0] * 7, 5_000, 0.3, FALSE_ALARM) > 1
