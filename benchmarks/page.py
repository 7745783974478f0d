"""Measure the operator's page in chromium: bytes until it is seen, an update and panning with 10,000 rounds behind it.

A dashboard process of its own reads a made-up coordinator (``rigs.long_history``) and serves chromium over loopback.

- ``first_paint_bytes``: everything that came over the network until something was painted, and until the page was
  loaded, whichever is more; of the overview and of the experiment's page the larger. Limit: 100 kB.
- ``update_ms``: from the arrival of an event about a new round in the page of one plot, with all rounds in it, to the
  painted frame, which waits for the screen's turns too. Limit: 50 ms; the 95th of a hundred stands beside it. On an
  experiment's page all plots that are in sight are drawn, here with all rounds too: ``page_update_first_ms`` until the
  first of them is painted, ``page_update_all_ms`` the last.
- ``pan_fps``: frames a second while a plot with all rounds in it, zoomed by two, is dragged to and fro;
  ``pan_fps_worst_tenth`` is the pace that nine frames in ten keep. Limit: 30. What an empty page reaches in the same
  chromium stands beside it: no page has more than the screen's 60.
- ``update_cpu_ms``, ``page_update_cpu_ms`` and ``pan_cpu_ms_per_frame`` are the main thread's computing alone, whoever
  else uses the machine; the first two hold everything that the page did until the round was seen.
- ``peak_rss_mb`` is the dashboard's; the page's own is ``page_heap_mb``.

    ./secvm bench page [--rounds 10000] [--updates 24] [--figure recall]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from benchmarks._measuring import memory_mb
from benchmarks._page_meter import FRAMES, PARSING, STOP_FRAMES, UPDATES
from benchmarks._page_server import PATIENCE_S, Listener, cpu_ms, dashboard
from secvm.errors import BadInputError
from secvm_lab.rigs.browser import Browser, Window
from secvm_lab.rigs.histories.long_history import LongHistory

BYTES_LIMIT, UPDATE_LIMIT_MS, FPS_LIMIT = 100_000, 50.0, 30.0
#: Nothing says any more that rounds are being loaded.
_LOADED = "() => [...document.querySelectorAll('main [role=status]')].every((one) => !one.checkVisibility())"
#: Every so often a person's hand moves a little further.
_HAND_MS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--rounds", type=int, default=10_000, help="rounds behind the experiment")
    parser.add_argument("--updates", type=int, default=24, help="further rounds that are told while the page is open")
    parser.add_argument("--figure", default="recall", help="the plot that is dragged")
    parser.add_argument("--drag-s", type=float, default=3.0, help="seconds of dragging, at least 2")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """One dashboard, one chromium, all of it."""
    if arguments.rounds < 2 or arguments.updates < 1:
        raise BadInputError("the page is measured with two rounds or more, and one update or more")
    started = time.monotonic()
    history = LongHistory(rounds=arguments.rounds, further=2 * (arguments.updates + 2))
    digest = history.document.digest
    with (
        history.served() as (_, coordinator),
        dashboard(coordinator, history.now) as (url, process),
        Browser() as browser,
    ):
        experiment = f"{url}/experiment/{digest}"
        seen = {name: _first_sight(browser, page) for name, page in (("overview", f"{url}/"), ("page", experiment))}
        with browser.window() as window:
            window.context.add_init_script(UPDATES)
            _open(window, experiment)
            _show_all(window)
            page_updates, told = _updates(window, history, url, process, arguments.updates)
            heap = window.page.evaluate("performance.memory.usedJSHeapSize") / 2**20
            parsing = window.page.evaluate(PARSING, f"/api/experiments/{digest}/rounds")
        with browser.window() as window:
            window.context.add_init_script(UPDATES)
            _open(window, f"{experiment}/{arguments.figure}")
            _show_all(window)
            updates, _ = _updates(window, history, url, process, arguments.updates)
            cpu = _page_cpu_ms(window)
            frames = _drag(window, arguments.drag_s)
            cpu = (_page_cpu_ms(window) - cpu) / len(frames)
            faults = window.faults()
        with browser.window() as window:
            empty = _idle_frames(window, arguments.drag_s)
        peak = memory_mb(pid=process)
        chromium = browser.version
    first_paint = max(one["load"] for one in seen.values())
    painted = [one["last"] for one in updates]
    return {
        "first_paint_bytes": first_paint,
        "first_paint_ok": first_paint < BYTES_LIMIT,
        **{f"{name}_{moment}_bytes": size for name, one in seen.items() for moment, size in one.items()},
        "update_ms": round(statistics.median(painted), 1),
        "update_ms_p95": round(_share(painted, 0.95), 1),
        "update_ok": statistics.median(painted) <= UPDATE_LIMIT_MS,
        "update_cpu_ms": round(statistics.median(one["cpu"] for one in updates), 1),
        "updates": len(updates),
        "page_update_first_ms": round(statistics.median(one["first"] for one in page_updates), 1),
        "page_update_all_ms": round(statistics.median(one["last"] for one in page_updates), 1),
        "page_update_cpu_ms": round(statistics.median(one["cpu"] for one in page_updates), 1),
        "pan_fps": round(1000 / statistics.mean(frames), 1),
        "pan_fps_median": round(1000 / statistics.median(frames), 1),
        "pan_fps_worst_tenth": round(1000 / _share(frames, 0.9), 1),
        "pan_ok": 1000 / statistics.mean(frames) >= FPS_LIMIT,
        "pan_frames": len(frames),
        "pan_cpu_ms_per_frame": round(cpu, 1),
        "peer": "requestAnimationFrame on an empty page; JSON.parse of all rounds",
        "empty_fps": round(1000 / statistics.mean(empty), 1),
        "empty_fps_worst_tenth": round(1000 / _share(empty, 0.9), 1),
        "parse_all_rounds_ms": round(parsing["ms"], 1),
        "all_rounds_bytes": parsing["bytes"],
        "status_bytes": len(history.file(history.status_path) or b""),
        **told,
        "page_heap_mb": round(heap, 1),
        "rounds": arguments.rounds,
        "faults": faults,
        "chromium": chromium,
        "seconds": round(time.monotonic() - started, 1),
        "peak_rss_mb": round(peak, 1),
    }


def _share(values: Sequence[float], share: float) -> float:
    """The value that this share of all does not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _open(window: Window, url: str) -> None:
    window.page.goto(url)
    window.page.wait_for_selector("main[data-view]:not([aria-busy=true])", timeout=1000 * PATIENCE_S)


def _page_cpu_ms(window: Window) -> float:
    """What the page's main thread has computed: unlike frames, it does not depend on who else uses the machine."""
    window.devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    told = window.devtools.send("Performance.getMetrics")["metrics"]
    return 1000 * float(next(one["value"] for one in told if one["name"] == "TaskDuration"))


def _show_all(window: Window) -> None:
    """Every round in every plot; a long history begins with the newest ones. The first plot comes into sight."""
    choice = window.page.locator("[data-last='0']")
    if choice.count() and choice.first.is_visible():
        choice.first.click()
        window.page.wait_for_selector("[data-last='0'][aria-pressed=true]", timeout=1000 * PATIENCE_S)
        window.page.wait_for_function(_LOADED, timeout=1000 * PATIENCE_S)
    window.page.locator("[data-figure]:visible").first.scroll_into_view_if_needed()


def _first_sight(browser: Browser, url: str) -> dict[str, int]:
    """Bytes of a first visit, with nothing kept: until something is painted, all is loaded, all is shown."""
    with browser.window() as window:
        _open(window, url)
        paint, load = window.transferred("firstContentfulPaint"), window.transferred("load")
        return {"paint": paint, "load": max(paint, load), "shown": window.transferred()}


def _updates(
    window: Window, history: LongHistory, url: str, process: int, count: int
) -> tuple[list[dict[str, Any]], dict[str, object]]:
    """Tell further rounds, one by one, and wait for each to be seen."""
    with Listener(url) as listener:
        # The first one pays for what all share.
        _tell(window, history)
        window.page.evaluate("window.__meter.updates.length = 0")
        listener.heard.clear()
        cpu, delays, page_cpu = cpu_ms(process), [], []
        for _ in range(count):
            began, before = time.monotonic(), _page_cpu_ms(window)
            _tell(window, history)
            page_cpu.append(_page_cpu_ms(window) - before)
            delays.append(1000 * (listener.moment_of(history.told + 1) - began))
        cpu = (cpu_ms(process) - cpu) / count
        # What was told now and then without a new round is not counted as an update's.
        sizes = [size for kind, size, _, _ in listener.heard if kind == "rounds"]
    seen = [one for one in window.page.evaluate("window.__meter.updates") if one["last"] is not None]
    return [{**one, "cpu": cpu} for one, cpu in zip(seen, page_cpu, strict=False)], {
        "update_bytes": round(statistics.median(sizes)),
        "server_told_ms": round(statistics.median(delays), 1),
        "server_cpu_ms_per_update": round(cpu, 1),
    }


def _tell(window: Window, history: LongHistory) -> None:
    window.page.evaluate("window.__meter.newest = null")
    number = history.tell_next()
    window.page.wait_for_function(
        "(number) => window.__meter.newest?.number === number && window.__meter.newest.last !== null"
        " && performance.now() - window.__meter.newest.began > window.__meter.late",
        arg=number + 1,
        timeout=1000 * PATIENCE_S,
        # Seldom: asking with every frame would be most of what the page has to do.
        polling=100,
    )


def _drag(window: Window, seconds: float) -> list[float]:
    """Zoom in and drag the plot to and fro; the lengths of the frames meanwhile, in ms."""
    plot = window.page.locator("[data-figure] svg").first
    plot.locator("xpath=ancestor-or-self::*[@tabindex='0'][1]").press("+")
    window.page.wait_for_function("() => location.search.includes('from=')", timeout=1000 * PATIENCE_S)
    box, before = plot.bounding_box(), window.page.url
    assert box is not None
    middle, wide = box["y"] + box["height"] / 2, box["width"] / 3
    mouse = window.page.mouse
    mouse.move(box["x"] + box["width"] / 2, middle)
    mouse.down()
    window.page.evaluate(FRAMES)
    deadline, place, way = time.monotonic() + max(2.0, seconds), 0.0, 4.0
    while time.monotonic() < deadline:
        place += way
        way = -way if abs(place) > wide else way
        mouse.move(box["x"] + box["width"] / 2 + place, middle)
        window.page.wait_for_timeout(_HAND_MS)
    lengths = _lengths(window.page.evaluate(STOP_FRAMES))
    mouse.up()
    # The address follows when the hand rests.
    window.page.wait_for_function("(before) => location.href !== before", arg=before, timeout=1000 * PATIENCE_S)
    return lengths


def _idle_frames(window: Window, seconds: float) -> list[float]:
    window.page.evaluate(FRAMES)
    window.page.wait_for_timeout(1000 * max(2.0, seconds))
    return _lengths(window.page.evaluate(STOP_FRAMES))


def _lengths(moments: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise(moments)]
