"""Where each loss puts its threshold, and that sending by the coin is unbiased."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadExperimentError
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.update import local_update
from secvm.learning.losses import COIN_BITS, LOSSES, ONE, Loss, logistic_table
from tests.unit.learning.helpers import ints, some_weights

HALF = 1 << (COIN_BITS - 1)
LAST = (1 << COIN_BITS) - 1
GRID_BITS = 16
#: Every 2^-16 of the coin, in the middle of its interval: counting them is the probability to within 2^-17 and a bit.
GRID = ((np.arange(1 << GRID_BITS, dtype=np.int64) << 1) + 1) << (COIN_BITS - GRID_BITS - 1)


@pytest.mark.parametrize(
    ("loss", "coin", "threshold"),
    [
        (Loss("hinge"), 0, ONE),
        (Loss("hinge"), LAST, ONE),
        (Loss("perceptron"), LAST, 0),
        (Loss("squared-hinge"), 0, ONE),
        (Loss("squared-hinge"), HALF, ONE - 2 * ONE),  # 1 - 4/2
        (Loss("squared-hinge", Fraction(3, 2)), HALF, ONE // 4),  # 1 - 3/4
        (Loss("squared-hinge"), LAST, ONE - 4 * ONE + 4),
        (Loss("modified-huber"), 0, ONE),
        (Loss("modified-huber"), HALF, 0),
        (Loss("modified-huber"), LAST, -ONE + 2),
        (Loss("logistic"), HALF, 0),
        (Loss("logistic"), 0, 38701053814),
        (Loss("logistic"), LAST, -38701053814),
    ],
)
def test_thresholds_by_hand(loss: Loss, coin: int, threshold: int) -> None:
    assert loss.thresholds(ints(coin)).tolist() == [threshold]


def test_outermost_threshold_of_the_logistic_loss_is_the_logarithm_of_8191() -> None:
    assert math.isclose(38701053814 / ONE, math.log(8191), rel_tol=1e-10)
    table = logistic_table()
    assert table[0] == 38701053814
    assert (np.diff(table) < 0).all()
    assert (table == -table[::-1]).all()


@given(st.integers(0, LAST), st.fractions(1, 1024))
def test_squared_hinge_threshold_is_exact_for_any_clip(coin: int, clip: Fraction) -> None:
    expected = ONE - math.floor(clip * (coin >> 21))
    assert Loss("squared-hinge", clip).thresholds(ints(coin)).tolist() == [expected]


def test_repro_clip_with_many_decimals_does_not_wrap() -> None:
    clip = Fraction("3.141592653589793")
    (threshold,) = Loss("squared-hinge", clip).thresholds(ints(LAST)).tolist()
    assert threshold == ONE - math.floor(clip * (2**32 - 1))


# ── unbiased ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def sent_by_grid(loss: Loss, margin: float) -> float:
    """Share of the coins for which a person of this margin sends."""
    return float((math.ceil(margin * ONE) < loss.thresholds(GRID)).mean())


@pytest.mark.parametrize(
    "margin", [-30.0, -12.0, -9.2, -8.5, -5.0, -2.2, -1.0, -0.3, 0.0, 0.7, 1.0, 3.3, 8.4, 8.9, 9.1, 40.0]
)
def test_logistic_sends_with_the_probability_of_the_sigmoid(margin: float) -> None:
    sigmoid = 1 / (1 + math.exp(margin))
    assert abs(sent_by_grid(Loss("logistic"), margin) - sigmoid) < 2e-4


def coins_that_send(loss: Loss, margin: int) -> int:
    """How many of the 2^32 different coins send at this margin (units of 2^-32), found by bisection: θ falls with p."""
    low, high = 0, 1 << 32
    while low < high:
        middle = (low + high) // 2
        if margin < int(loss.thresholds(ints(middle << 21))[0]):
            low = middle + 1
        else:
            high = middle
    return low


@given(st.integers(-6 * ONE, 2 * ONE), st.sampled_from([Fraction(1), Fraction(4), Fraction(7, 3), Fraction(1024)]))
def test_squared_hinge_sends_with_the_probability_of_its_derivative(margin: int, clip: Fraction) -> None:
    loss = Loss("squared-hinge", clip)
    derivative = 2 * min(clip, max(Fraction(0), 1 - Fraction(margin, ONE)))
    assert loss.factors == (2 * clip, 2 * clip)
    assert abs(Fraction(coins_that_send(loss, margin), 2**32) - derivative / loss.factors[0]) < Fraction(1, 2**30)


@given(st.integers(-4 * ONE, 2 * ONE))
def test_modified_huber_sends_with_the_probability_of_its_derivative(margin: int) -> None:
    loss = Loss("modified-huber")
    z = Fraction(margin, ONE)
    derivative = Fraction(4) if z < -1 else max(Fraction(0), 2 * (1 - z))
    assert abs(Fraction(coins_that_send(loss, margin), 2**32) - derivative / loss.factors[0]) < Fraction(1, 2**30)


@given(st.lists(st.integers(0, LAST), min_size=2, max_size=2), st.sampled_from(list(LOSSES)))
def test_threshold_never_rises_with_the_coin(coins: list[int], name: str) -> None:
    low, high = Loss(name).thresholds(ints(*sorted(coins))).tolist()
    assert high <= low


@pytest.mark.parametrize("name", ["hinge", "perceptron", "squared-hinge", "modified-huber", "logistic"])
@pytest.mark.parametrize("coin", [0, 12345 << 30, HALF, LAST])
def test_on_the_threshold_nothing_is_sent(name: str, coin: int) -> None:
    (threshold,) = Loss(name).thresholds(ints(coin)).tolist()
    vector = BinnedVector(values={0: 2**20}, n_bins=1)
    high, low = divmod(threshold, 2**20)  # score = high * 2^20 + low, in units of 2^-32

    def sends(extra: int) -> bool:
        weights = some_weights([[high, low + extra]], unit=Fraction(1, ONE))
        return local_update(weights=weights, model=0, vector=vector, label_sign=1, threshold=threshold) is not None

    assert not sends(0)
    assert sends(-1)


# ── parameters ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pinball_weighs_the_two_signs_by_its_quantile() -> None:
    assert Loss("pinball", Fraction(9, 10)).factors == (Fraction(9, 10), Fraction(1, 10))
    assert Loss("hinge").factors == (Fraction(1), Fraction(1))


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("unknown", None),
        ("hinge", Fraction(1)),
        ("logistic", Fraction(1)),
        ("squared-hinge", Fraction(1, 2)),
        ("squared-hinge", Fraction(1025)),
        ("epsilon-insensitive", Fraction(-1, 10)),
        ("pinball", Fraction(0)),
        ("pinball", Fraction(1)),
    ],
)
def test_losses_refuse_parameters_they_cannot_have(name: str, parameter: Fraction | None) -> None:
    with pytest.raises(BadExperimentError):
        Loss(name, parameter)


def test_which_losses_toss_coins_and_which_predict_numbers() -> None:
    assert {n for n in LOSSES if Loss(n).tosses_coins} == {"logistic", "squared-hinge", "modified-huber"}
    assert {n for n in LOSSES if Loss(n).regression} == {"epsilon-insensitive", "pinball"}
