"""Settings under noise follow from public numbers, and bend the way they should."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadExperimentError
from secvm.learning.aggregate.descent import Swift
from secvm.privacy.planning.noise_settings import (
    LEAST_ROUNDS,
    MOST_RHO,
    MOST_ROUNDS,
    SCORE_NOISE,
    NoiseSettings,
    mu_for,
    noise_settings,
)

PEOPLE, BINS, FEATURES = st.integers(100, 10**6), st.integers(10, 10**5), st.integers(1, 1000)
EPSILONS = st.floats(0.1, 8)


def settings_of(people: int, bins: int, features: int, epsilon: float, **given: float) -> NoiseSettings:
    return noise_settings(people=people, bins=bins, contribution=features, epsilon=epsilon, delta=1e-6, **given)  # type: ignore[arg-type]  # numbers of several kinds


@given(PEOPLE, BINS, FEATURES, EPSILONS)
def test_settings_lie_within_their_bounds(people: int, bins: int, features: int, epsilon: float) -> None:
    found = settings_of(people, bins, features, epsilon)
    assert found.rounds == 1 or LEAST_ROUNDS <= found.rounds <= MOST_ROUNDS
    assert 0 < found.step_size <= Swift().step_size
    assert 1 <= found.rho <= min(math.sqrt(min(features, bins) + 1) + 1 / 16, MOST_RHO)
    assert found.floor >= Swift().floor
    # Noise in people's scores stays below the limit, unless the step is the least that can be written.
    assert found.score_noise <= SCORE_NOISE * (1 + 1e-9) or found.step_size == Fraction(1, 64)


@given(PEOPLE, BINS, FEATURES, EPSILONS)
def test_more_people_and_a_larger_epsilon_allow_no_fewer_rounds_and_no_smaller_steps(
    people: int, bins: int, features: int, epsilon: float
) -> None:
    def way(people: int, bins: int, epsilon: float, **given: float) -> tuple[int, Fraction]:
        found = settings_of(people, bins, features, epsilon, **given)
        return found.rounds, found.step_size

    def not_below(more: tuple[int, Fraction], less: tuple[int, Fraction]) -> bool:
        # One round has a step of its own.
        return more[0] >= less[0] and (more[1] >= less[1] or less[0] == 1)

    here = way(people, bins, epsilon)
    assert not_below(way(2 * people, bins, epsilon), here)
    assert not_below(way(people, bins, 2 * epsilon), here)
    assert not_below(here, way(people, bins, epsilon, covers=2))
    assert not_below(here, way(people, bins, epsilon, models=3))
    # Bins that a person does not have add nothing to its score.
    assert way(people, bins // 2 + 1, epsilon) == here


@given(PEOPLE, BINS, FEATURES, EPSILONS)
def test_more_noise_makes_steps_evener_and_thinning_stronger(
    people: int, bins: int, features: int, epsilon: float
) -> None:
    less = settings_of(people, bins, features, epsilon, rounds=2)
    more = settings_of(people, bins, features, epsilon, rounds=8)
    assert more.floor >= less.floor
    assert more.rho <= less.rho
    assert more.noise_to_signal == pytest.approx(2 * less.noise_to_signal)


def test_the_noise_is_that_of_two_cells_a_bin() -> None:
    found = settings_of(10_000, 1000, 100, 1.0, rounds=1)
    assert found.noise_to_signal == pytest.approx(math.sqrt(2 * 1001) / mu_for(1.0, 1e-6) / 10_000)


def test_what_is_given_is_kept() -> None:
    found = noise_settings(people=500, bins=50, contribution=9, epsilon=1.0, delta=1e-6, rounds=7, rho=Fraction(5, 2))
    assert (found.rounds, found.rho) == (7, Fraction(5, 2))
    assert found.thinning.rho == Fraction(5, 2)
    assert found.rule == Swift(step_size=found.step_size, floor=found.floor)


def test_nobody_has_no_settings() -> None:
    with pytest.raises(BadExperimentError, match="settings need a person"):
        settings_of(0, 10, 3, 1.0)
