"""Rounds and step under noise: one law, the ends of its range, and settings whose best rounds are known."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadExperimentError
from secvm.learning.aggregate.descent import Swift
from secvm.learning.aggregate.direction import Direction
from secvm.privacy.planning.noise_settings import (
    LEAST_ROUNDS,
    MOST_ROUNDS,
    MOST_SHRUNK,
    ONE_ROUND_EPSILON,
    SCORE_NOISE,
    NoiseSettings,
    noise_settings,
    noise_sum,
    rounds_under_noise,
)

NOISES = st.floats(1e-9, 10.0)
EPSILONS = st.sampled_from([0.25, 1.0, 1.01, 4.0])
OWN = Swift().step_size


@given(NOISES, NOISES, EPSILONS)
def test_less_noise_gives_no_fewer_rounds_and_no_smaller_steps(one: float, other: float, epsilon: float) -> None:
    less, more = (rounds_under_noise(pick(one, other), epsilon=epsilon) for pick in (min, max))
    assert less.rounds >= more.rounds
    assert less.step_size >= more.step_size or more.rounds == 1


@given(NOISES, EPSILONS)
def test_the_step_shrinks_only_where_rounds_are_fewest(noise: float, epsilon: float) -> None:
    found = rounds_under_noise(noise, epsilon=epsilon)
    assert found.rounds == 1 or LEAST_ROUNDS <= found.rounds <= MOST_ROUNDS
    assert found.rounds in (1, LEAST_ROUNDS) or found.step_size == OWN


@given(NOISES, EPSILONS)
def test_one_round_is_taken_where_many_would_shrink_the_step_and_epsilon_is_small(noise: float, epsilon: float) -> None:
    many = rounds_under_noise(noise, epsilon=epsilon, rounds=LEAST_ROUNDS)
    shrunk = noise * float(OWN) * noise_sum(LEAST_ROUNDS) > MOST_SHRUNK * SCORE_NOISE
    found = rounds_under_noise(noise, epsilon=epsilon)
    assert (found.rounds == 1) == (shrunk and epsilon <= ONE_ROUND_EPSILON)
    if shrunk:
        assert many.step_size <= OWN / MOST_SHRUNK


@given(NOISES, st.integers(1, 100))
def test_noise_in_a_score_stays_below_the_limit_and_close_to_it(noise: float, rounds: int) -> None:
    found = rounds_under_noise(noise, epsilon=1.0, rounds=rounds)
    part = noise * noise_sum(rounds) / 64
    assert found.rounds == rounds
    assert found.score_noise == pytest.approx(noise * float(found.step_size) * noise_sum(rounds))
    assert found.score_noise <= SCORE_NOISE * (1 + 1e-9) or found.step_size == Fraction(1, 64)
    assert found.step_size == OWN or found.score_noise >= SCORE_NOISE - part * (1 + 1e-9)


@given(NOISES)
def test_of_rounds_that_fit_at_the_own_step_the_most_are_taken(noise: float) -> None:
    found = rounds_under_noise(noise, epsilon=2.0)
    if found.step_size == OWN and found.rounds < MOST_ROUNDS:
        assert noise * float(OWN) * noise_sum(found.rounds + 1) > SCORE_NOISE


def test_without_noise_swift_runs_as_it_is() -> None:
    found = rounds_under_noise(0.0, epsilon=1.0)
    assert (found.rounds, found.step_size, found.score_noise) == (MOST_ROUNDS, OWN, 0.0)


@pytest.mark.parametrize("rounds", [1, 2, 5, 16, 32])
def test_the_sum_is_that_of_swifts_own_weights(rounds: int) -> None:
    # The rule is fed a direction in one bin alone, round by round: its weight at the end is what that round adds.
    rule = Swift(mean_move=Fraction(10**6), floor=Fraction(10**6))
    squares = 0.0
    for fed in range(rounds):
        state = rule.start(1, 1)
        for number in range(rounds):
            # A second bin is there so that popularity, and with it the factor, is the same in all rounds: 1.
            state = rule.step(state, _direction(1 if number == fed else 0))
        squares += (float(state.vectors["weights"][0][0]) / float(rule.step_size)) ** 2
    assert math.sqrt(rounds * squares) == pytest.approx(noise_sum(rounds), rel=1e-3)


def _direction(first: int) -> Direction:
    return Direction(
        numerators=np.array([[first, 0]], dtype=np.int64),
        scales=(Fraction(1),),
        totals=np.array([[1, 1]], dtype=np.int64),
        total_scales=(Fraction(1),),
        imbalances=(Fraction(0),),
    )


def test_rounds_alone_cost_hardly_any_accuracy() -> None:
    # How far the directions go over what noise goes with them, for a step of 1 and one round's noise of 1.
    momentum = float(Swift().momentum)
    for rounds in range(4, 49):
        way = math.fsum(momentum ** (t - u) / math.sqrt(t) for u in range(1, rounds + 1) for t in range(u, rounds + 1))
        assert 0.86 < way / noise_sum(rounds) < 0.89


def settings_of(people: int, bins: int, features: int, epsilon: float) -> NoiseSettings:
    """Under the noise of two covers, each of them enough for itself."""
    return noise_settings(people=people, bins=bins, contribution=features, epsilon=epsilon, delta=1e-6, covers=2)


@pytest.mark.parametrize(
    ("people", "bins", "features", "epsilon", "rounds", "step"),
    [
        # Profiles: at ε = 4 three rounds had .713 and twenty .739; at ε = 1 one round and twenty small ones are alike
        # (docs/privacy.md).
        (10_800, 4_000, 100, 4.0, 20, 83),
        (10_800, 4_000, 100, 1.0, 1, 100),
        (3_000, 1_000, 100, 2.0, 20, 12),
        # Long texts of many people: at ε = 4 four rounds had .673, twenty .741, thirty .755.
        (15_300, 10_000, 300, 4.0, 23, 100),
        (15_300, 3_000, 300, 1.0, 20, 33),
        # So many people that swift runs as it is.
        (1_000_000, 10_000, 300, 1.0, 32, 100),
        # So few that all rounds would be one mean: posts of newsgroups in 10,000 bins had .797 in twenty, .817 in one.
        (8_486, 10_000, 300, 1.0, 1, 100),
        (1_000, 1_000, 100, 0.5, 1, 49),
    ],
)
def test_settings_whose_rounds_are_known(
    people: int, bins: int, features: int, epsilon: float, rounds: int, step: int
) -> None:
    found = settings_of(people, bins, features, epsilon)
    assert found.rounds == rounds
    assert math.floor(found.step_size) == step


@pytest.mark.parametrize("noise", [-1.0, math.inf, math.nan])
def test_a_noise_that_is_none_is_refused(noise: float) -> None:
    with pytest.raises(BadExperimentError, match="the noise of one round"):
        rounds_under_noise(noise, epsilon=1.0)


def test_no_round_at_all_is_refused() -> None:
    with pytest.raises(BadExperimentError, match="at least one round, and there are 0"):
        rounds_under_noise(0.1, epsilon=1.0, rounds=0)
