"""Charts in a real browser: the numbers on their axes, their shapes, their files."""

from __future__ import annotations

import json
import math
import random
import re
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from secvm.pages.figure import Bars, Curve, Figure, NamedPlace, Shade, Stack
from secvm_lab.reports import ReportPage
from secvm_lab.rigs.browser import Browser, Window
from tests.system.browser import charts
from tests.system.browser.charts import address

__all__ = ["address"]


@pytest.fixture(scope="module")
def held(browser: Browser, address: str) -> Iterator[Window]:
    with browser.window() as window:
        charts.open_charts(window, address)
        yield window


@pytest.fixture
def page(held: Window) -> Iterator[Page]:
    yield held.page
    assert held.faults() == []


def test_numbers_of_an_axis_are_few_inside_it_and_read_apart(page: Page) -> None:
    dice = random.Random(1)
    asked = [(*charts.a_range(dice), dice.randint(3, 12)) for _ in range(1500)]
    logs = [(*charts.a_log_range(dice), dice.randint(4, 10)) for _ in range(1500)]
    linear, log = page.evaluate(
        "([asked, logs]) => [asked.map(one => pages.linearTicks(...one)), logs.map(one => pages.logTicks(...one))]",
        [asked, logs],
    )
    for (low, high, count), ticks in [*zip(asked, linear, strict=True), *zip(logs, log, strict=True)]:
        values, labels = [tick["value"] for tick in ticks], [tick["label"] for tick in ticks]
        assert 1 <= len(ticks) <= count + 3
        assert all(low <= value <= high for value in values)
        assert values == sorted(values)
        assert len(set(labels)) == len(labels)


def test_numbers_of_an_axis_are_written_as_people_write_them(page: Page) -> None:
    wanted = {
        (0, 1): ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"],
        (0, 120_000): ["0", "50,000", "100,000"],
        (0, 2_500_000): ["0.0", "0.5\u00a0M", "1.0\u00a0M", "1.5\u00a0M", "2.0\u00a0M", "2.5\u00a0M"],
        (-10, 10): ["\u221210", "\u22125", "0", "5", "10"],
        (0, 4e-5): ["0", "10⁻⁵", "2·10⁻⁵", "3·10⁻⁵", "4·10⁻⁵"],
    }
    logs = {
        (1e-9, 1e-6, 7): ["10⁻⁹", "10⁻⁸", "10⁻⁷", "10⁻⁶"],
        (1, 1000, 7): ["1", "10", "100", "1,000"],
        (1, 10, 7): ["1", "2", "5", "10"],
        (1, 4, 5): ["1", "2", "3", "4"],
        # Less than a decade without a round power in it.
        (3.1, 3.4, 4): ["3.1", "3.2", "3.3", "3.4"],
    }
    told = page.evaluate(
        """([linear, logs]) =>
          [linear.map(([a, b]) => pages.linearTicks(a, b, 5)), logs.map(one => pages.logTicks(...one))]
          .map(all => all.map(ticks => ticks.map(tick => tick.label)))""",
        [list(wanted), list(logs)],
    )
    assert told == [list(wanted.values()), list(logs.values())]
    assert page.evaluate("pages.betweenDecades(1, 100)") == [*range(2, 10), *range(20, 100, 10)]
    assert page.evaluate("pages.betweenDecades(1, 1e9)") == []


def _shapes(page: Page, figure: Figure, size: str = "LARGE") -> list[tuple[str, dict[str, Any], str]]:
    told = page.evaluate("([spec, size]) => pages.draw(new pages.Figure(spec), pages[size])", [figure.spec(), size])
    return [(tag, attributes, *text, "")[:3] for tag, attributes, *text in told["shapes"]]


def test_drawings_by_the_dice_stay_inside_and_have_no_place_that_is_no_number(page: Page) -> None:
    dice = random.Random(3)
    figures = [charts.a_figure(dice) for _ in range(120)]
    drawn = "([specs, size]) => specs.map(spec => pages.draw(new pages.Figure(spec), pages[size]))"
    for size in ("LARGE", "HALF", "SMALL"):
        for drawing in page.evaluate(drawn, [[figure.spec() for figure in figures], size]):
            for _, attributes, *_ in drawing["shapes"]:
                places = {name: value for name, value in attributes.items() if name in ("x", "x1", "x2", "cx")}
                assert all(0 <= value <= drawing["width"] for value in places.values())
                assert "NaN" not in json.dumps(attributes)
                assert None not in attributes.values()
                for point in attributes.get("points", "").split():
                    across, up = map(float, point.split(","))
                    assert 0 <= across <= drawing["width"]
                    assert 0 <= up <= drawing["height"]


def _one(*curves: Curve, **more: Any) -> Figure:
    return Figure("f", "t", "d", "x", "y", curves, **more)


def test_names_stand_at_the_ends_of_curves_that_are_apart_and_else_in_a_legend(page: Page) -> None:
    apart = _one(Curve("upper", [0, 1], [0, 0.9]), Curve("lower", [0, 1], [0, 0.1]))
    close = _one(Curve("upper", [0, 1], [0, 0.90]), *(Curve(f"n{i}", [0, 1], [1, 0.9 + i / 1e3]) for i in range(5)))

    def classes(figure: Figure, size: str) -> list[str]:
        return [attributes["class"] for _, attributes, text in _shapes(page, figure, size) if text == "upper"]

    assert classes(apart, "LARGE") == ["label name-0"]
    assert classes(apart, "SMALL") == classes(close, "LARGE") == ["label"]


def test_names_do_not_overlap_and_one_that_is_too_wide_is_cut_and_says_so(page: Page) -> None:
    dice = random.Random(7)
    names = [
        ["".join(dice.choices("abcm iW%", k=dice.randint(1, 30))) for _ in range(dice.randint(1, 9))] for _ in range(99)
    ]
    rows = page.evaluate(
        """all => all.map(names => pages.laidOut(names.map(name => ({ name, kind: "curve" })), 360)
          .map(row => row.map(([x, entry]) => [x, x + pages.SAMPLE + pages.wide(entry.name)])))""",
        names,
    )
    for row in (row for legend in rows for row in legend):
        assert all(end <= start for (_, end), (start, _) in pairwise(row))
        assert row[-1][1] <= 360
    places = [[dice.uniform(0, 400) for _ in range(dice.randint(1, 9))] for _ in range(99)]
    beside = page.evaluate(
        """all => all.map(places => pages.beside(places.map((_, i) => ({ name: `${i}`, kind: "curve" })),
          new Map(places.map((place, i) => [`${i}`, place])), 100).map(({ placed }) => placed))""",
        places,
    )
    for heights, wanted in zip(beside, places, strict=True):
        assert len(heights) in (0, len(wanted))
        assert all(lower - upper > 14 for upper, lower in pairwise(sorted(heights)))
    long = "none of these, or I would rather not say, baseline, and so on and on"
    cut = page.evaluate("name => pages.fitted(name, 320)", long)
    assert cut.endswith("…")
    assert long.startswith(cut[:-1])
    assert page.evaluate("pages.fitted('short', 360)") == "short"


def test_bands_whiskers_nights_and_places_are_drawn_once_and_where_they_belong(page: Page) -> None:
    def count(figure: Figure, kind: str) -> int:
        return sum(attributes["class"] == kind for _, attributes, _ in _shapes(page, figure))

    nan = math.nan
    # An interval of nobody who was counted is no band.
    nobody = _one(Curve("a", [1, 2, 3], [0.5, nan, nan], [0.4, 0, 0], [0.6, 1, 1]))
    assert count(nobody, "band-0") == 1
    alone = _one(Curve("a", [1, 2, 3], [0.5, nan, 0.5], [0.4, nan, 0.4], [0.6, nan, 0.6]))
    assert count(alone, "whisker series-0") == 2
    nights = _one(Curve("a", [0, 10], [0, 1]), shades=[Shade(2, 4, "night"), Shade(6, 8, "night")])
    assert count(nights, "shade") == 3
    assert [text for *_, text in _shapes(page, nights)].count("night") == 1
    named = _one(
        Curve("a", [1, 2], [0, 1]),
        places=[NamedPlace(1, "one\n\u22125"), NamedPlace(2, "two"), NamedPlace(9, "beyond")],
    )
    texts = [text for *_, text in _shapes(page, named)]
    assert [text for text in texts if text in {"one", "\u22125", "two", "beyond"}] == ["one", "\u22125", "two"]


def test_bars_stand_on_the_axis_and_on_each_other(page: Page) -> None:
    stacks = [Stack("a", [3, 0, 5], 0), Stack("b", [1, 2, math.nan], 1)]
    figure = Figure("f", "t", "d", "round", "people", bars=Bars([1, 2, 3], stacks))
    below, above = (attributes["d"] for tag, attributes, _ in _shapes(page, figure) if tag == "path")
    tops = dict(re.findall(r"M([\d.]+),([\d.]+)H", below))
    for left, bottom in re.findall(r"M([\d.]+),[\d.]+H[\d.]+V([\d.]+)H", above):
        assert bottom == tops.get(left, "354")
    labels = [text for _, attributes, text in _shapes(page, figure) if attributes["class"] == "tick"]
    assert labels[-3:] == ["1", "2", "3"]


def test_a_report_draws_its_figures_for_a_desk_and_for_a_phone(browser: Browser, tmp_path: Path) -> None:
    report = ReportPage("A report", "with a figure")
    report.figure(_one(Curve("a", [0, 1], [0, 0.9]), percent=True), "A caption.")
    (tmp_path / "report.html").write_text(report.html(), encoding="utf-8")
    with browser.window() as window:
        window.page.goto((tmp_path / "report.html").as_uri())
        assert window.page.locator("figure.plot svg").count() == 2
        assert window.page.locator("figure.plot svg.large polyline").count() == 1
        assert window.page.locator("figure.plot svg.small").is_hidden()
        assert window.faults() == []


def test_the_numbers_behind_a_figure_are_the_same_file_byte_for_byte(page: Page) -> None:
    dice = random.Random(4)
    figures = [charts.a_figure(dice) for _ in range(100)]
    odd = [
        0.1 + 0.2,
        1e-5,
        1e-4,
        123456789.125,
        1e15,
        1e16,
        1.5e21,
        1e22,
        -0.0,
        -1.5,
        5e-324,
        1.7e308,
        2**53,
        1 / 3,
        1e-7,
    ]
    figures += [
        Figure("odd", "t", "d", "x", "y", [Curve("a", range(len(odd)), odd)]),
        Figure("twice", "t", "d", "x", "y", [Curve("a", [3, 1, 1, 2], [5, 6, math.inf, 7]), Curve("b", [2], [1])]),
        Figure("empty", "t", "d", "", "y"),
        Figure(
            "formula", "t", "d", "x", "y", [Curve(name, [1], [2]) for name in ("=1", "+1", "-1", "@A", "\tx", "a=")]
        ),
    ]
    told = page.evaluate("specs => specs.map(spec => new pages.Figure(spec).csv())", [one.spec() for one in figures])
    assert told == [figure.csv() for figure in figures]


def test_a_picture_is_a_png_of_the_right_size_in_daylight(page: Page) -> None:
    figure = Figure("f", "A title", "d", "round", "share", [Curve("a", range(9), [i / 9 for i in range(9)])])
    page.emulate_media(color_scheme="dark")
    data = bytes(
        page.evaluate(
            """async spec => {
              const chart = pages.make(spec);
              const blob = await chart.png();
              chart.destroy();
              return [...new Uint8Array(await blob.arrayBuffer())];
            }""",
            figure.spec(),
        )
    )
    page.emulate_media(color_scheme="light")
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (2 * (920 + 40), 2 * (400 + 30 + 40))
    corner = page.evaluate(
        """async data => {
          const image = await createImageBitmap(new Blob([new Uint8Array(data)], { type: "image/png" }));
          const pen = new OffscreenCanvas(image.width, image.height).getContext("2d");
          pen.drawImage(image, 0, 0);
          return [...pen.getImageData(3, 3, 1, 1).data];
        }""",
        list(data),
    )
    assert corner == [255, 255, 255, 255]


def _long(rounds: int, curves: int) -> Figure:
    dice = random.Random(5)
    x = range(1, rounds + 1)
    made = []
    for colour in range(curves):
        y = [0.5 + 0.3 * math.sin(i / 300 + colour) + dice.uniform(-0.1, 0.1) for i in x]
        made.append(Curve(f"c{colour}", x, y, [v - 0.05 for v in y], [v + 0.05 for v in y], colour=colour))
    return Figure("long", "Long", "d", "round", "share", made, percent=True)


def test_of_many_points_every_peak_is_still_drawn(page: Page) -> None:
    figure = _long(10_000, 1)
    told = page.evaluate(
        """spec => {
          const { box, shapes } = pages.draw(new pages.Figure(spec), pages.LARGE);
          const { x, y, low, high } = spec.curves[0];
          const exact = x.map((place, i) => [box.exactX(place), box.y(y[i]), box.y(low[i]), box.y(high[i])]);
          const points = kind => shapes.find(([, shape]) => shape.class.startsWith(kind))[1].points.split(" ")
            .map(point => point.split(",").map(Number));
          return { exact, line: points("bar"), band: points("band") };
        }""",
        figure.spec(),
    )
    # From the lowest to the highest of each column, and half of a line's width more.
    assert len(told["line"]) <= 2 * 920
    columns: dict[int, list[list[float]]] = {}
    for x, *levels in told["exact"]:
        columns.setdefault(math.floor(x), []).append(levels)
    half = len(told["line"]) // 2
    assert len(columns) == half
    for levels, (_, top), (_, bottom) in zip(
        columns.values(), told["line"][:half], reversed(told["line"][half:]), strict=True
    ):
        assert top <= min(level[0] for level in levels) - 1
        assert bottom >= max(level[0] for level in levels) + 1
    # And no more than that: somewhere each column's edge is the curve's own, or the way there from the one before.
    own = [y for _, y, *_ in told["exact"]]
    assert min(top for _, top in told["line"][:half]) == pytest.approx(min(own) - 1.1, abs=0.1)
    edges = {y for _, y in told["band"]}
    for levels in columns.values():
        assert {max(level[1] for level in levels), min(level[2] for level in levels)} <= edges


def test_of_many_bars_the_highest_of_every_column_is_drawn(page: Page) -> None:
    dice = random.Random(6)
    bars = Bars(
        range(10_000), [Stack(name, [dice.randint(0, 99) for _ in range(10_000)], i) for i, name in enumerate("ab")]
    )
    figure = Figure("bars", "Bars", "d", "round", "participants", bars=bars)
    shapes = page.evaluate("spec => pages.draw(new pages.Figure(spec), pages.LARGE).shapes", figure.spec())
    paths = [attributes["d"] for tag, attributes, *_ in shapes if tag == "path"]
    assert len(paths) == 2
    assert all(500 < path.count("M") <= 920 for path in paths)


def test_ten_thousand_rounds_are_drawn_and_panned(page: Page) -> None:
    """What it costs is measured by ``secvm bench page``; this prints it and holds that it works."""
    told = page.evaluate(
        """spec => {
          const chart = pages.make(spec);
          const measured = work => {
            const times = [];
            for (let i = 0; i < 15; i++) {
              const start = performance.now();
              work();
              times.push(performance.now() - start);
            }
            return times.sort((a, b) => a - b)[7];
          };
          const update = measured(() => { chart.update(spec); chart.flush(); });
          chart.setRange(2000, 5000);
          const pan = measured(() => { chart.view.pan(0.01); chart.flush(); });
          const shown = chart.view.shown;
          chart.destroy();
          return { update, pan, shown };
        }""",
        _long(10_000, 6).spec(),
    )
    print(f"update {told['update']:.1f} ms, a frame of panning {told['pan']:.1f} ms")
    assert told["shown"][0] > 2000
    assert told["shown"][1] - told["shown"][0] == pytest.approx(3000, abs=1)
