"""Small charts."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from secvm.lab.svg import HEIGHT, WIDTH, Axes, Bars, Line, Rule, bar_chart, line_chart, nice_top

_SHARES = st.lists(st.floats(0, 1) | st.just(math.nan), min_size=1, max_size=40)


def _axes(places: int, highest: float = 1.0) -> Axes:
    return Axes("A <title>", "What is & what is not", "round", "share", [str(i) for i in range(places)], 0.0, highest)


def _check(figure: str) -> None:
    root = ET.fromstring(figure)
    assert root.tag == "figure"
    for name, most in (("x", WIDTH), ("y", HEIGHT), ("x1", WIDTH), ("x2", WIDTH), ("cy", HEIGHT)):
        for value in re.findall(rf' {name}="([^"]*)"', figure):
            assert 0 <= float(value) <= most
    for points in re.findall(r'points="([^"]*)"', figure):
        for point in points.split():
            x, y = point.split(",")
            assert 0 <= float(x) <= WIDTH
            assert 0 <= float(y) <= HEIGHT


@given(_SHARES)
def test_lines_stay_inside_the_drawing_and_break_where_there_is_no_value(values: list[float]) -> None:
    figure = line_chart(_axes(len(values)), [Line("a", values, low=values, high=values)], [Rule("r", 0.4)])
    _check(figure)
    pieces = len(re.findall("<polyline|<circle", figure))
    there = [not math.isnan(value) for value in values]
    assert pieces == sum(here and not before for before, here in zip([False, *there], there, strict=False))


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30))
def test_bars_stay_inside_the_drawing(values: list[int]) -> None:
    axes = _axes(len(values), nice_top(2 * max(values)))
    figure = bar_chart(axes, [Bars("a", values), Bars("b", values, 1)], [Rule("mean", 1.0)])
    _check(figure)
    assert figure.count("<rect") == 2 * len(values)


@given(st.floats(1e-6, 1e12))
def test_the_top_of_an_axis_is_a_little_above(value: float) -> None:
    assert 0.999 * value <= nice_top(value) <= 1.6 * value


def test_an_axis_of_nothing_has_a_top() -> None:
    assert nice_top(0) == nice_top(math.nan) == 1.0
