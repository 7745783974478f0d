"""What a soak says of growth."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm_lab.cli.dev.searches import judged
from secvm_lab.soak import Sample, percentile, settled, slope_of

STEADY = Sample(
    number=1, acknowledged=100, counted=100, per_s=50.0, p50_ms=1.0, p99_ms=9.0, close_s=0.1,
    rss_mb=100.0, descriptors=20, disk_mb=5.0,
)  # fmt: skip


@given(st.floats(-5, 5), st.floats(-100, 100), st.integers(3, 40))
def test_a_straight_line_has_its_slope_and_no_doubt(per_step: float, start: float, n: int) -> None:
    found = slope_of([start + per_step * i for i in range(n)])
    assert found.per_step == pytest.approx(per_step, abs=1e-6)
    assert found.high - found.low < 1e-5


def test_the_interval_has_the_true_slope_in_about_95_of_100_runs() -> None:
    # By chance fewer than 920 or more than 975 of 1,000: less than once in 10,000 seeds.
    dice = random.Random(5)
    hits = 0
    for _ in range(1000):
        found = slope_of([0.3 * i + dice.gauss(0, 2) for i in range(12)])
        hits += found.low <= 0.3 <= found.high
    assert 920 <= hits <= 975


def test_few_values_say_nothing() -> None:
    found = slope_of([1.0, 100.0])
    assert (found.low, found.high) == (-math.inf, math.inf)


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=50), st.floats(0.01, 1))
def test_a_percentile_is_one_of_the_values_with_its_share_below(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert percentile([], share) == 0


def test_the_first_third_is_left_out() -> None:
    assert settled(list(range(9))) == [3, 4, 5, 6, 7, 8]


def _noisy(i: int) -> float:
    return 0.02 * ((7 * i) % 5)


def test_a_soak_is_steady_when_nothing_grows() -> None:
    samples = [replace(STEADY, number=i, rss_mb=100 + _noisy(i)) for i in range(1, 20)]
    told = judged(samples)
    assert (told["steady"], told["faults"], told["acknowledged"]) == (True, [], 1900)


@pytest.mark.parametrize(
    ("grows", "fault"),
    [
        ("rss_mb", "memory grows"),
        ("descriptors", "open files grow"),
        ("counted", "not everything that was acknowledged was counted"),
    ],
)
def test_a_soak_finds_what_grows_or_is_lost(grows: str, fault: str) -> None:
    samples = [replace(STEADY, number=i, rss_mb=100 + _noisy(i)) for i in range(1, 20)]
    broken = {
        "rss_mb": [replace(one, rss_mb=one.rss_mb + 0.4 * one.number) for one in samples],
        "descriptors": [replace(one, descriptors=20 + one.number) for one in samples],
        "counted": [*samples[:-1], replace(samples[-1], counted=99)],
    }[grows]
    told = judged(broken)
    assert (told["steady"], told["faults"]) == (False, [fault])
