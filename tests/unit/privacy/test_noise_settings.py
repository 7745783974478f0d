"""Settings under noise follow from public numbers, and bend the way they should."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadExperimentError
from secvm.learning.aggregate.descent import Swift
from secvm.privacy.gaussian import mu_for
from secvm.privacy.noise_settings import MOST_NOISE, MOST_ROUNDS, NoiseSettings, noise_settings

PEOPLE, BINS, FEATURES = st.integers(100, 10**6), st.integers(10, 10**5), st.integers(1, 1000)
EPSILONS = st.floats(0.1, 8)


def settings_of(people: int, bins: int, features: int, epsilon: float, **given: float) -> NoiseSettings:
    return noise_settings(people=people, bins=bins, contribution=features, epsilon=epsilon, delta=1e-6, **given)  # type: ignore[arg-type]  # numbers of several kinds


@given(PEOPLE, BINS, FEATURES, EPSILONS)
def test_settings_lie_within_their_bounds(people: int, bins: int, features: int, epsilon: float) -> None:
    found = settings_of(people, bins, features, epsilon)
    assert 1 <= found.rounds <= MOST_ROUNDS
    assert 1 <= found.rho <= math.sqrt(min(features, bins) + 1) + 1 / 16
    assert found.floor >= Swift().floor
    # Several rounds are only taken while their noise stays below the limit.
    assert found.rounds == 1 or found.noise_to_signal <= MOST_NOISE * (1 + 1e-9)


@given(PEOPLE, BINS, FEATURES, EPSILONS)
def test_more_people_larger_epsilon_and_fewer_bins_allow_more_rounds(
    people: int, bins: int, features: int, epsilon: float
) -> None:
    here = settings_of(people, bins, features, epsilon).rounds
    assert settings_of(2 * people, bins, features, epsilon).rounds >= here
    assert settings_of(people, bins, features, 2 * epsilon).rounds >= here
    assert settings_of(people, bins // 2 + 1, features, epsilon).rounds >= here
    assert settings_of(people, bins, features, epsilon, gamma=0.5).rounds <= here
    assert settings_of(people, bins, features, epsilon, models=3).rounds <= here


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
    assert found.rule == Swift(floor=found.floor)


def test_nobody_has_no_settings() -> None:
    with pytest.raises(BadExperimentError, match="settings need a person"):
        settings_of(0, 10, 3, 1.0)
