"""Clipping and trimming: what they cut, what they never touch, and how far a few devices get."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadExperimentError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.aggregate.direction import direction_of
from secvm.learning.aggregate.robust import clipped, remembered_at_start, trimmed
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment, Robust
from secvm.learning.thinning import Thinning

COUNTS = st.lists(st.integers(0, 10**6), min_size=6, max_size=6)
SIDES = st.tuples(st.integers(1, 50), st.integers(1, 50))
CLIPS = st.fractions(Fraction(1, 20), Fraction(20), max_denominator=40)
SWIFT = Experiment(n_bins=5, labels=("a", "b"), rule=Swift(), thinning=Thinning(rho=Fraction(1)))


def tally(plus: list[int], minus: list[int]) -> Tally:
    whole = replace(
        Tally.empty(n_models=1, n_bins=len(plus) - 1, n_labels=2), plus=np.array([plus]), minus=np.array([minus])
    )
    return replace(whole, participants=np.array([1000, 1000]))


def inside(up: int, down: int, plus: int, minus: int) -> int:
    ours, theirs = up * up * max(plus, 0), down * down * max(minus, 0)
    return min(ours + theirs, 4 * min(ours, theirs) + 8 * (up * up + down * down))


@given(plus=COUNTS, minus=COUNTS, sides=SIDES, clip=CLIPS, variance=st.fractions(0, 1000, max_denominator=9))
def test_clipping_is_the_law_exactly(
    plus: list[int], minus: list[int], sides: tuple[int, int], clip: Fraction, variance: Fraction
) -> None:
    up, down = sides
    found = clipped(Robust(clip=clip), tally(plus, minus), [sides], variance)
    for p, m, cut_p, cut_m in zip(plus, minus, found.plus[0].tolist(), found.minus[0].tolist(), strict=True):
        noise = math.floor((up * up + down * down) * variance)
        limit = math.isqrt(math.floor(clip * clip * (inside(up, down, p, m) + noise)))
        net = up * p - down * m
        if abs(net) <= limit:
            assert (cut_p, cut_m) == (p, m)
        elif net > 0:
            assert cut_m == m
            assert limit - up < up * cut_p - down * m <= limit
        else:
            assert cut_p == p
            assert limit - down < down * cut_m - up * p <= limit


@given(plus=COUNTS, minus=COUNTS, shouts=st.integers(0, 10**6), clip=CLIPS)
def test_whoever_shouts_with_one_sign_moves_a_bin_within_the_limit_that_the_other_sign_sets(
    plus: list[int], minus: list[int], shouts: int, clip: Fraction
) -> None:
    robust = Robust(clip=clip)
    louder = clipped(robust, tally([p + shouts for p in plus], minus), [(1, 1)])
    for m, cut in zip(minus, (louder.plus - louder.minus)[0].tolist(), strict=True):
        assert cut <= math.sqrt(float(clip) ** 2 * (4 * m + 16)) + 1e-6
    # Beyond three times the other sign, ten times as many units buy nothing.
    first, second = (clipped(robust, tally([10**6 + n] * 6, minus), [(1, 1)]) for n in (0, 9 * 10**6))
    vouched = np.array(minus) * 3 + 16 <= 10**6
    assert (first.plus == second.plus)[0][vouched].all()


def test_long_class_weights_are_clipped_in_numbers_without_a_range() -> None:
    many = tally([10**9, 3, 0], [5, 10**9, 7])
    big = 10**14
    found = clipped(Robust(clip=Fraction(1, 2)), many, [(big, big)])
    assert found == clipped(Robust(clip=Fraction(1, 2)), many, [(1, 1)])


def test_under_cover_counts_below_zero_are_no_fault_and_noise_widens_the_limit() -> None:
    noisy = tally([-40, 90, 0], [35, -20, 0])
    robust = Robust(clip=Fraction(1))
    assert clipped(robust, noisy, [(1, 1)], Fraction(10_000)) == noisy
    cut = clipped(robust, noisy, [(1, 1)])
    assert abs(cut.plus - cut.minus).max() <= 4


@pytest.mark.parametrize("rule", [Swift(), Pegasos()])
def test_one_bad_round_of_three_moves_no_bin_beyond_good_rounds(rule: Swift | Pegasos) -> None:
    thinning = Thinning(rho=Fraction(1)) if isinstance(rule, Swift) else Thinning()
    experiment = replace(SWIFT, rule=rule, thinning=thinning, robust=Robust(trim=3))
    robust = experiment.robust
    assert robust is not None
    dice = np.random.default_rng(5)
    good = [tally(dice.integers(0, 100, 6).tolist(), dice.integers(0, 100, 6).tolist()) for _ in range(4)]
    bad = replace(good[2], plus=good[2].plus + 10**6)
    recent = remembered_at_start(robust, 1, 5)
    for i, told in enumerate([good[0], good[1], bad, good[3]]):
        ours = direction_of(
            told,
            models=experiment.models,
            class_weights=[Fraction(1)] * 2,
            factors=(Fraction(1),) * 2,
            divisor=Fraction(1),
        )
        taken, recent = trimmed(robust, ours, recent)
        if i == 2:
            nets = np.stack([(one.plus - one.minus)[0] for one in good[:2]]) / 2000
            moved = taken.numerators[0] * float(taken.scales[0])
            assert (moved <= nets.max(axis=0) + 1e-9).all()
            assert (moved >= nets.min(axis=0) - 1e-9).all()


def test_the_state_remembers_what_trimming_needs_and_steps_without_it_are_as_ever() -> None:
    trimmed = replace(SWIFT, robust=Robust(clip=Fraction(1, 2), trim=5))
    assert set(aggregate.start(trimmed).vectors) - set(aggregate.start(SWIFT).vectors) == {
        f"recent_{i}" for i in range(1, 5)
    }
    told = tally([5, 6, 7, 8, 9, 10], [6, 5, 7, 9, 8, 10])
    lax = replace(SWIFT, robust=Robust(clip=Fraction(1000)))
    assert (
        aggregate.step(lax, aggregate.start(lax), told).to_bytes()
        == aggregate.step(SWIFT, aggregate.start(SWIFT), told).to_bytes()
    )
    assert aggregate.step(trimmed, aggregate.start(trimmed), told).vectors["recent_1"].any()


def test_what_makes_no_sense_is_refused() -> None:
    for wrong in ({}, {"trim": 2}, {"trim": 11}, {"clip": Fraction(0)}, {"clip": Fraction(1001)}):
        with pytest.raises(BadExperimentError):
            Robust(**wrong)
    with pytest.raises(BadExperimentError, match="thin swift"):
        Experiment(n_bins=2, labels=("a", "b"), rule=Swift(), fixed_point_rows=True, robust=Robust(trim=3))
