"""Charts in a real browser draw what Python draws: the same numbers on the axes, the same shapes, the same files."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator
from dataclasses import asdict

import pytest
from playwright.sync_api import Page

from secvm.pages.drawing import HALF, LARGE, SMALL
from secvm.pages.figure import Bars, Curve, Figure, Stack
from secvm.pages.ticks import between_decades, linear_ticks, log_ticks
from secvm_lab.rigs.browser import Browser, Window
from tests.system.browser import charts

#: Two roundings to a tenth that fall on the same side.
_SAME = 0.05


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with charts.served() as url:
        yield url


@pytest.fixture(scope="module")
def held(browser: Browser, address: str) -> Iterator[Window]:
    with browser.window() as window:
        window.page.goto(address)
        charts.until(window.page, "window.pages !== undefined")
        yield window


@pytest.fixture
def page(held: Window) -> Iterator[Page]:
    yield held.page
    assert held.faults() == []


def test_numbers_of_a_common_axis_are_those_of_python_to_the_last_letter(page: Page) -> None:
    dice = random.Random(1)
    asked = [(*charts.a_range(dice), dice.randint(1, 14), dice.random() < 0.2) for _ in range(1500)]
    asked += [(0.0, 1.0, 6, False), (0.0, 100.0, 5, False), (-1e9, 1e9, 6, False), (0.0, 1e-300, 4, False)]
    told = page.evaluate("asked => asked.map(one => pages.linearTicks(...one))", asked)
    for (low, high, count, whole), found in zip(asked, told, strict=True):
        assert [asdict(tick) for tick in linear_ticks(low, high, count, whole=whole)] == found


def test_numbers_of_a_logarithmic_axis_are_those_of_python_to_the_last_letter(page: Page) -> None:
    dice = random.Random(2)
    asked = [(*charts.a_log_range(dice), dice.randint(2, 12)) for _ in range(1500)]
    asked += [(1e-7, 1.0, 7), (1.0, 1e7, 7), (1e-5, 1e5, 5), (0.5, 4.0, 6)]
    told = page.evaluate(
        "asked => asked.map(([a, b, n]) => [pages.logTicks(a, b, n), pages.betweenDecades(a, b)])", asked
    )
    for (low, high, count), (ticks, marks) in zip(asked, told, strict=True):
        assert [asdict(tick) for tick in log_ticks(low, high, count)] == ticks
        assert between_decades(low, high) == marks


def test_a_figure_has_the_same_shapes_in_the_browser_as_in_a_report(page: Page) -> None:
    dice = random.Random(3)
    figures = [charts.a_figure(dice) for _ in range(120)]
    drawn = "([specs, size]) => specs.map(spec => pages.draw(new pages.Figure(spec), size).shapes)"
    for size in (LARGE, HALF, SMALL):
        told = page.evaluate(drawn, [[figure.spec() for figure in figures], asdict(size)])
        for figure, found in zip(figures, told, strict=True):
            assert charts.apart(charts.shapes_of(figure, size), charts.shapes_from(found)) <= _SAME


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
        """([spec, size]) => {
          const { box, shapes } = pages.draw(new pages.Figure(spec), size);
          const { x, y, low, high } = spec.curves[0];
          const exact = x.map((place, i) => [box.exactX(place), box.y(y[i]), box.y(low[i]), box.y(high[i])]);
          const points = kind => shapes.find(([, shape]) => shape.class.startsWith(kind))[1].points.split(" ")
            .map(point => point.split(",").map(Number));
          return { exact, line: points("bar"), band: points("band") };
        }""",
        [figure.spec(), asdict(LARGE)],
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
    shapes = page.evaluate(
        "([spec, size]) => pages.draw(new pages.Figure(spec), size).shapes", [figure.spec(), asdict(LARGE)]
    )
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
