"""Numbers on axes."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from secvm.pages.ticks import linear_ticks, log_ticks, scientific, span

_VALUES = st.floats(-1e12, 1e12, allow_nan=False)


@given(_VALUES, _VALUES, st.integers(3, 12))
def test_linear_ticks_are_few_inside_the_axis_and_read_apart(one: float, other: float, count: int) -> None:
    low, high = min(one, other), max(one, other)
    assume(high - low > 1e-6 * max(abs(low), abs(high), 1e-6))
    ticks = linear_ticks(low, high, count)
    assert 1 <= len(ticks) <= count + 1
    assert all(low <= tick.value <= high for tick in ticks)
    assert len({tick.label for tick in ticks}) == len(ticks)
    assert [tick.value for tick in ticks] == sorted(tick.value for tick in ticks)


@given(st.floats(-12, 12), st.floats(0.01, 20), st.integers(4, 10))
def test_log_ticks_are_few_inside_the_axis_and_read_apart(start: float, decades: float, count: int) -> None:
    low, high = 10.0**start, 10.0 ** (start + decades)
    ticks = log_ticks(low, high, count)
    assert 1 <= len(ticks) <= count + 3
    assert all(low <= tick.value <= high for tick in ticks)
    assert len({tick.label for tick in ticks}) == len(ticks)


@given(st.lists(_VALUES | st.sampled_from([math.nan, math.inf, -math.inf]), max_size=20))
def test_a_span_is_finite_and_holds_every_finite_value(values: list[float]) -> None:
    low, high = span(values)
    assert -math.inf < low < high < math.inf
    assert all(low <= value <= high for value in values if math.isfinite(value))
    assert linear_ticks(low, high)


def test_labels_are_written_as_people_write_them() -> None:
    def labels(low: float, high: float) -> list[str]:
        return [tick.label for tick in linear_ticks(low, high, 5)]

    assert labels(0, 1) == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    assert labels(0, 120_000) == ["0", "50,000", "100,000"]
    assert labels(0, 2_500_000) == ["0.0", "0.5\u00a0M", "1.0\u00a0M", "1.5\u00a0M", "2.0\u00a0M", "2.5\u00a0M"]
    assert labels(-10, 10) == ["\u221210", "\u22125", "0", "5", "10"]
    assert labels(0, 4e-5) == ["0", "10⁻⁵", "2·10⁻⁵", "3·10⁻⁵", "4·10⁻⁵"]


def test_decades_are_written_as_powers_where_they_are_long() -> None:
    assert [tick.label for tick in log_ticks(1e-9, 1e-6)] == ["10⁻⁹", "10⁻⁸", "10⁻⁷", "10⁻⁶"]
    assert [tick.label for tick in log_ticks(1, 1000)] == ["1", "10", "100", "1,000"]
    assert [tick.label for tick in log_ticks(1, 10)] == ["1", "2", "5", "10"]
    assert [tick.label for tick in log_ticks(1, 4, 5)] == ["1", "2", "3", "4"]
    assert [scientific(value) for value in (1e-6, 0.0, 2.5e7)] == ["10⁻⁶", "0", "2.5·10⁷"]
    # Less than a decade without a round power in it.
    assert [tick.label for tick in log_ticks(3.1, 3.4, 4)] == ["3.1", "3.2", "3.3", "3.4"]


@pytest.mark.parametrize("value", [0.0, 0.3, -7.0, 1e9])
def test_one_value_takes_some_room(value: float) -> None:
    low, high = span([value])
    assert low < value < high
