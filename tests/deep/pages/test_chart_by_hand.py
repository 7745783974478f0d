"""A chart under somebody's hands: keys, pointer, wheel, files, and what a screen reader is told."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from secvm.pages.figure import Bars, Curve, Figure, Shade, Stack
from secvm_lab.rigs.browser import PHONE, Browser, Window
from tests.system.browser import charts
from tests.system.browser.charts import address

__all__ = ["address"]


@pytest.fixture
def page(window: Window, address: str) -> Iterator[Page]:
    yield charts.open_charts(window, address)
    assert window.faults() == []


def _figure(rounds: int = 100, name: str = "recall") -> Figure:
    x = range(1, rounds + 1)
    y = [math.nan if i == 7 else i / (2 * rounds) for i in x]
    return Figure(
        "recall",
        "Recall <b>of</b> north",
        "Rises & rises.",
        "round",
        "share",
        [Curve(name, x, y, [v - 0.01 for v in y], [v + 0.01 for v in y])],
        shades=[Shade(3, 5, "night")],
        percent=True,
        bars=Bars(x, [Stack("devices", [0.1] * rounds, 1)]),
    )


def _make(page: Page, figure: Figure, options: str = "{}") -> None:
    page.evaluate(
        f"spec => {{ window.told = []; window.chart = pages.make(spec, {options}); }}",
        figure.spec(),
    )


_TELLS = "{ onRange: (...range) => told.push(range), link: (from, to) => `/plot?from=${from}&to=${to}` }"


def test_keys_move_the_readout_from_round_to_round(page: Page) -> None:
    _make(page, _figure())
    plot, readout = page.get_by_role("application"), page.locator(".readout")
    plot.focus()
    plot.press("ArrowRight")
    expect(readout).to_have_text("round 1: recall 0.5\u00a0% [-0.5\u00a0% to 1.5\u00a0%]; devices 10.0\u00a0%")
    plot.press("Shift+ArrowRight")
    expect(readout).to_contain_text("round 11: recall 5.5\u00a0%")
    plot.press("End")
    expect(readout).to_contain_text("round 100:")
    plot.press("ArrowRight")
    expect(readout).to_contain_text("round 100:")
    plot.press("Home")
    for _ in range(3):
        plot.press("ArrowRight")
    expect(readout).to_contain_text("round 4, night: recall 2.0\u00a0%")
    for _ in range(3):
        plot.press("ArrowRight")
    expect(readout).to_contain_text("round 7: recall –;")
    assert readout.get_attribute("aria-live") == "polite"
    plot.press("Escape")
    expect(readout).to_have_text("")


def test_keys_zoom_and_the_cursor_takes_the_stretch_along(page: Page) -> None:
    _make(page, _figure(), _TELLS)
    plot = page.get_by_role("application")
    plot.focus()
    plot.press("End")
    plot.press("+")
    charts.until(page, "told.some(([from, to, settled]) => from === 51 && to === 100 && settled)")
    expect(page.get_by_role("link", name="link to this plot")).to_have_attribute("href", "/plot?from=51&to=100")
    plot.press("Home")
    charts.until(page, "told.at(-1)[0] === 1 && told.at(-1)[1] === 50 && told.at(-1)[2]")
    plot.press("PageDown")
    charts.until(page, "told.at(-1)[0] === 26")
    plot.press("0")
    charts.until(page, "told.at(-1)[0] === null && told.at(-1)[1] === null")
    expect(page.get_by_role("button", name="show all")).to_be_disabled()


def test_a_pointer_reads_the_wheel_zooms_and_dragging_pans(page: Page) -> None:
    _make(page, _figure(), _TELLS)
    plot, readout = page.get_by_role("application"), page.locator(".readout")
    frame = plot.bounding_box()
    assert frame is not None
    middle = (frame["x"] + frame["width"] / 2, frame["y"] + 150)
    page.mouse.move(*middle)
    expect(readout).to_contain_text("round 4")
    before = int(readout.inner_text().split()[1].rstrip(":,"))
    page.keyboard.down("Control")
    page.mouse.wheel(0, -240)
    page.keyboard.up("Control")
    charts.until(page, "chart.view.range !== null && told.at(-1)[2]")
    low, high = page.evaluate("chart.view.shown")
    assert 45 <= high - low <= 51
    # What is under the pointer stays there.
    page.mouse.move(middle[0] + 1, middle[1])
    assert abs(int(readout.inner_text().split()[1].rstrip(":,")) - before) <= 1
    page.mouse.down()
    page.mouse.move(middle[0] - 100, middle[1], steps=4)
    page.mouse.up()
    charts.until(page, f"chart.view.shown[0] > {low}")
    after = page.evaluate("chart.view.shown")
    assert after[1] - after[0] == pytest.approx(high - low, abs=1)
    # Without Ctrl the wheel is the page's.
    page.mouse.wheel(0, 300)
    assert page.evaluate("chart.view.shown") == after


def test_two_fingers_zoom_one_pans_and_a_tap_reads(browser: Browser, address: str) -> None:
    with browser.window(size=PHONE, has_touch=True, is_mobile=True) as window:
        page = charts.open_charts(window, address)
        _make(page, _figure(), _TELLS)
        frame = page.get_by_role("application").bounding_box()
        assert frame is not None
        x, y = frame["x"] + frame["width"] / 2, frame["y"] + 120

        def touch(kind: str, *places: float) -> None:
            points = [{"x": place, "y": y, "id": i} for i, place in enumerate(places)]
            window.devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        touch("touchStart", x)
        touch("touchEnd")
        expect(page.locator(".readout")).to_contain_text("round 4")
        touch("touchStart", x - 20, x + 20)
        for far in (30, 40, 60):
            touch("touchMove", x - far, x + far)
        touch("touchEnd")
        charts.until(page, "chart.view.range !== null && told.at(-1)[2]")
        low, high = page.evaluate("chart.view.shown")
        assert 25 <= high - low <= 50
        touch("touchStart", x)
        for far in (20, 40, 60):
            touch("touchMove", x + far)
        touch("touchEnd")
        charts.until(page, f"chart.view.shown[0] < {low} && told.at(-1)[2]")
        assert window.faults() == []


def test_a_stretch_is_set_and_outlives_new_numbers_and_its_end_is_followed_once_somebody_went_there(page: Page) -> None:
    _make(page, _figure())
    page.evaluate("chart.setRange(20, 40)")
    assert page.evaluate("chart.view.shown") == [20, 40]
    page.evaluate("spec => chart.update(spec)", _figure(120).spec())
    assert page.evaluate("chart.view.shown") == [20, 40]
    page.evaluate("chart.view.pan(99); chart.moved();")
    assert page.evaluate("chart.view.shown") == [100, 120]
    page.evaluate("spec => { chart.update(spec); chart.flush(); }", _figure(121).spec())
    assert page.evaluate("chart.view.shown") == [101, 121]
    page.evaluate("chart.setRange(null, null)")
    assert page.evaluate("chart.view.shown") == [None, None]
    page.evaluate("chart.setRange(-5, 1e9)")
    assert page.evaluate("chart.view.shown") == [None, None]


def test_the_files_of_a_plot_are_its_numbers_and_its_picture(page: Page) -> None:
    _make(page, _figure())
    with page.expect_download() as numbers:
        page.get_by_role("button", name="download the numbers as CSV").click()
    assert numbers.value.suggested_filename == "recall.csv"
    assert numbers.value.path().read_text("utf-8") == _figure().csv()
    with page.expect_download() as picture:
        page.get_by_role("button", name="download the picture as PNG").click()
    assert picture.value.suggested_filename == "recall.png"
    assert picture.value.path().read_bytes()[:4] == b"\x89PNG"


def test_the_numbers_are_folded_away_and_follow_what_is_shown(page: Page) -> None:
    _make(page, _figure())
    page.get_by_text("The numbers").click()
    table = page.get_by_role("table")
    expect(table.locator("caption")).to_contain_text("One row in 3 of 100")
    expect(table.get_by_role("rowheader").last).to_have_text("100")
    page.evaluate("chart.setRange(5, 9)")
    expect(table.get_by_role("rowheader")).to_have_text(["5", "6", "7", "8", "9"])
    expect(table.get_by_role("row").nth(3).get_by_role("cell").first).to_have_text("–")


def test_what_a_spec_says_is_text_and_never_markup(page: Page) -> None:
    _make(page, _figure(name='<img src="/x">'))
    page.get_by_text("The numbers").click()
    page.get_by_role("application").press("End")
    expect(page.locator("figcaption")).to_have_text("Recall <b>of</b> north")
    expect(page.locator(".readout")).to_contain_text('<img src="/x"> 50.0')
    assert page.locator("#here img, figcaption b").count() == 0


def test_a_chart_is_as_wide_as_its_place_and_leaves_nothing_behind(page: Page) -> None:
    _make(page, _figure())
    assert page.evaluate("chart.drawing.width") > 800
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    charts.until(page, "chart.drawing.width < 380")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
    page.evaluate("chart.destroy()")
    assert page.locator("#here").inner_html() == ""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nobody_stumbles_over_a_chart(browser: Browser, address: str, *, dark: bool) -> None:
    with browser.window(dark=dark) as window:
        charts.open_charts(window, address)
        _make(window.page, _figure(), _TELLS)
        window.page.get_by_text("The numbers").click()
        window.page.get_by_role("application").press("End")
        expect(window.page.locator(".readout")).to_contain_text("round 100")
        assert window.accessibility() == []
        assert window.faults() == []
