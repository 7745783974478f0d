"""Intervals and indices of the lab, against brute force and against their promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import adjusted_rand_score, roc_auc_score

from secvm_lab.attacks.statistics import adjusted_rand, auc, average, wilson
from tests.seeds import FALSE_ALARM, seed_for

SCORES = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12)


@given(hits=st.integers(0, 50), more=st.integers(0, 50))
def test_a_share_lies_in_its_interval_and_both_in_the_unit(hits: int, more: int) -> None:
    trials = hits + more or 1
    low, high = wilson(hits, trials)
    assert 0 <= low <= hits / trials <= high <= 1
    assert high > low


def test_wilson_is_what_the_book_says() -> None:
    """Newcombe (1998), table I: 81 of 263, and 0 of 20."""
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0, 0.1611), abs=5e-5)


@given(these=SCORES, those=SCORES)
def test_auc_is_that_of_all_pairs_and_lies_in_its_interval(these: list[float], those: list[float]) -> None:
    value, (low, high) = auc(these, those)
    pairs = [(a > b) + (a == b) / 2 for a in these for b in those]
    assert value == pytest.approx(float(np.mean(pairs)))
    answers = [1] * len(these) + [0] * len(those)
    assert value == pytest.approx(roc_auc_score(answers, these + those))
    assert 0 <= low <= value <= high <= 1


def fewest(trials: int, share: float) -> int:
    """What a count of independent hits is below with probability at most 1e-6: exact binomial."""
    return int(stats.binom.ppf(FALSE_ALARM, trials, share))


@pytest.mark.parametrize("shift", [0.0, 1.0, 3.0])
def test_intervals_of_an_auc_hold_the_truth_as_often_as_they_promise(shift: float) -> None:
    """95 of 100 on average, and by no less than 93; half as wide, they would hold it 67 times."""
    dice = np.random.default_rng(seed_for(f"interval of an AUC {shift}"))
    truth = 0.5 * math.erfc(-shift / 2)
    held = held_by_half = 0
    for _ in range(400):
        value, (low, high) = auc(dice.normal(shift, size=60), dice.normal(size=40))
        held += low <= truth <= high
        held_by_half += (low + value) / 2 <= truth <= (value + high) / 2
    assert held >= fewest(400, 0.93)
    assert held_by_half < fewest(400, 0.93)


def test_intervals_of_a_mean_hold_the_truth() -> None:
    """As above."""
    dice = np.random.default_rng(seed_for("interval of a mean"))
    intervals = [average(dice.beta(2, 3, size=40))[1] for _ in range(200)]
    assert sum(low <= 0.4 <= high for low, high in intervals) >= fewest(200, 0.92)


def test_a_mean_of_equal_values_still_has_a_width() -> None:
    value, (low, high) = average([0.0] * 20)
    assert (value, low) == (0, 0)
    assert high > 0.1


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=20))
def test_agreement_of_groupings_is_the_known_index(pairs: list[tuple[int, int]]) -> None:
    these, those = [a for a, _ in pairs], [b for _, b in pairs]
    assert adjusted_rand(these, those) == pytest.approx(adjusted_rand_score(these, those))


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="trials"):
        wilson(3, 2)
    with pytest.raises(ValueError, match="both sides"):
        auc([], [1.0])
