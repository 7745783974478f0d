"""SecVMRegressor: a number as the label, learned from signs of residuals."""

from typing import Any

import numpy as np
import pytest

from secvm.errors import BadInputError
from secvm.estimator import SecVMRegressor
from tests.unit.estimator.people import numbers, state

LOSSES: dict[str, dict[str, Any]] = {
    "epsilon-insensitive": {"loss": "epsilon-insensitive"},
    "median": {"loss": "pinball"},
    "quantile": {"loss": "pinball", "loss_parameter": 0.8},
    "swift": {"descent": "swift", "thinning": None},
    "swift thinned": {"descent": "swift", "thinning": 1.0},
}


@pytest.mark.parametrize("loss", LOSSES)
def test_partial_fit_n_times_is_fit_of_n_rounds(loss: str) -> None:
    X, y = numbers()
    step_by_step = SecVMRegressor(dice_seed=b"r", **LOSSES[loss])
    for n in range(1, 5):
        step_by_step.partial_fit(X, y)
        at_once = SecVMRegressor(rounds=n, dice_seed=b"r", **LOSSES[loss]).fit(X, y)
        assert state(step_by_step) == state(at_once)
        assert step_by_step.n_iter_ == n


@pytest.mark.parametrize("loss", ["epsilon-insensitive", "median", "quantile", "swift"])
def test_integer_sample_weights_are_repetition_to_the_bit(loss: str) -> None:
    X, y = numbers(40)
    weight = np.random.default_rng(2).integers(0, 4, 40)
    where = np.repeat(np.arange(40), weight)
    once = SecVMRegressor(rounds=15, **LOSSES[loss]).fit(X, y, sample_weight=weight)
    assert state(once) == state(SecVMRegressor(rounds=15, **LOSSES[loss]).fit(X[where], y[where]))


def test_repro_first_partial_fit_took_the_scale_of_people_without_weight() -> None:
    X, y = numbers(20)
    far = np.append(y, 1e6)
    weight = np.append(np.ones(20), 0)
    model = SecVMRegressor().partial_fit(np.vstack([X, X[:1]]), far, sample_weight=weight)
    assert state(model) == state(SecVMRegressor(rounds=1).fit(X, y))


@pytest.mark.parametrize("loss", LOSSES)
def test_people_of_the_test_cohort_change_nothing(loss: str) -> None:
    X, y = numbers(40)
    others, theirs = numbers(15, seed=9)
    asked: dict[str, Any] = {"rounds": 8, "dice_seed": b"r", **LOSSES[loss]}
    among = SecVMRegressor(**asked).fit(
        np.vstack([X, 50 * others]), np.append(y, 1000 + theirs), cohorts=["train"] * 40 + ["test"] * 15
    )
    assert state(among) == state(SecVMRegressor(**asked).fit(X, y))


def test_it_learns_a_line_in_the_units_of_the_label() -> None:
    X, y = numbers(300)
    fresh, truth = numbers(300, seed=1)
    model = SecVMRegressor().fit(X, y)
    assert model.score(fresh, truth) > 0.9
    # Twice as large labels are the same experiment in other units.
    twice = SecVMRegressor().fit(X, 2 * y)
    assert np.allclose(twice.predict(fresh), 2 * model.predict(fresh))


def test_pinball_puts_its_share_of_people_below() -> None:
    X, y = numbers(400)
    for share in (0.2, 0.5, 0.8):
        predicted = SecVMRegressor(loss="pinball", loss_parameter=share).fit(X, y).predict(X)
        assert abs(float((y < predicted).mean()) - share) < 0.1


def test_plateau_stops_and_keeps_a_round_it_went_through() -> None:
    X, y = numbers(200)
    cohorts = ["test" if i % 4 == 0 else "train" for i in range(200)]
    model = SecVMRegressor(rounds=400, stop="plateau").fit(X, y, cohorts=cohorts)
    assert model.stopped_because_ == "plateau"
    assert state(model) == state(SecVMRegressor(rounds=model.state_.step).fit(X, y, cohorts=cohorts))


def test_equal_labels_are_predicted_as_they_are() -> None:
    X, _ = numbers(10)
    assert np.allclose(SecVMRegressor(rounds=5).fit(X, np.full(10, 7.0)).predict(X), 7.0, atol=0.2)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"loss": "hinge"}, "loss"),
        ({"loss": "pinball", "loss_parameter": 1.0}, "quantile"),
        ({"thinning": 3.0}, "belongs to normalised rows"),
        ({"loss": "pinball", "loss_parameter": 0.2, "thinning": "q=1/2"}, "with negative values"),
    ],
)
def test_parameters_that_cannot_be_are_refused(parameters: dict[str, Any], sentence: str) -> None:
    X, y = numbers()
    with pytest.raises(ValueError, match=sentence):
        SecVMRegressor(**parameters).fit(X, y)


def test_labels_that_are_no_numbers_are_refused() -> None:
    X, y = numbers(4)
    with pytest.raises(ValueError, match="NaN"):
        SecVMRegressor().fit(X, [1.0, np.nan, 2.0, 3.0])
    with pytest.raises(BadInputError, match="requires y"):
        SecVMRegressor().fit(X, None)
    with pytest.raises(BadInputError, match="too far from the centre"):
        SecVMRegressor().fit(np.vstack([X] * 10), np.append(np.tile(y, 9), [1e30, 0, 0, 0]))
