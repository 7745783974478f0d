"""A page with charts and nothing else, served as live pages are, and figures by the dice."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from secvm.pages.assets import shared
from secvm.pages.figure import Bars, Curve, Figure, NamedPlace, ReferenceLine, Shade, Stack
from secvm_lab.rigs.browser import Window
from tests.serving import Answer, serving

#: What live pages are given: no script and no style but their own files.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self';"
    " form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_PAGE = b"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Charts</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="/static/look.css">
<script type="module" src="/charts.js"></script></head><body><main><h1>Charts</h1><div id="here"></div></main></body>
</html>"""
#: Everything a test asks for, by name.
_SCRIPT = b"""import { Chart } from "/static/chart.js";
import { HALF, LARGE, SMALL, draw } from "/static/drawing.js";
import { Figure } from "/static/figure.js";
import { SAMPLE, beside, fitted, laidOut, wide } from "/static/legend.js";
import { linearTicks, logTicks, betweenDecades } from "/static/ticks.js";
const here = document.getElementById("here");
const make = (spec, options) => { const chart = new Chart(here, spec, options); chart.flush(); return chart; };
const pages = { Figure, HALF, LARGE, SAMPLE, SMALL, beside, draw, fitted, laidOut, linearTicks, logTicks,
  betweenDecades, make, wide };
Object.assign(window, { pages });
"""
_OWN = {"/": (_PAGE, "text/html"), "/charts.js": (_SCRIPT, "text/javascript"), "/favicon.ico": (b"", "image/png")}


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The address of such a page."""

    def answer(path: str) -> Answer:
        name = path.removeprefix("/static/")
        content, kind = _OWN[path] if path in _OWN else (shared()[name].content, shared()[name].media_type)
        policy = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
        return 200, {"Content-Type": kind, **policy}, content

    with serving() as server:
        server.answer = answer
        yield f"{server.url}/"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served() as url:
        yield url


def open_charts(window: Window, address: str) -> Page:
    """The page, once its scripts are there."""
    window.page.goto(address)
    until(window.page, "window.pages !== undefined")
    return window.page


def until(page: Page, condition: str) -> None:
    """Look in every frame; Playwright's own waiting needs ``eval``, which the policy forbids."""
    looked = (
        "() => new Promise(done => { let left = 900; const look = () =>"
        f" ({condition}) ? done(true) : left-- ? requestAnimationFrame(look) : done(false); look(); }})"
    )
    assert page.evaluate(looked), condition


# ── figures by the dice ──────────────────────────────────────────────────────────────────────────────────────────────

_NAMES = (
    "recall",
    "precision of “north”",
    "WiMAX, 5 %",
    'a "name"',
    "<b>bold</b> & more",
    "λ = 10⁻³",
    "ÄÖ ñ ß",
    "b\nc",
)


def a_range(dice: random.Random) -> tuple[float, float]:
    """Any size, any place; often round."""
    length = 10 ** dice.uniform(-9, 9)
    low = dice.choice([0.0, length * dice.uniform(-50, 50), -length / 2])
    if dice.random() < 0.4:
        length, low = float(f"{length:.1g}"), float(f"{low:.1g}")
    return low, low + length


def a_log_range(dice: random.Random) -> tuple[float, float]:
    low, decades = dice.uniform(-12, 9), dice.uniform(0.01, 15)
    if dice.random() < 0.4:
        low, decades = float(round(low)), float(max(1, round(decades)))
    return float(f"{10**low:.6g}"), float(f"{10 ** (low + decades):.6g}")


def _values(dice: random.Random, count: int, top: float) -> list[float]:
    return [math.nan if dice.random() < 0.1 else dice.uniform(0, top) for _ in range(count)]


def a_figure(dice: random.Random) -> Figure:
    """Every kind of part in every mixture, never more points than a drawing has columns."""
    bars = dice.random() < 0.3
    log = not bars and dice.random() < 0.4
    count, top, start = dice.randint(1, 60), 10 ** dice.uniform(-3, 7), dice.randint(0, 2000)
    whole = [float(start + i) for i in range(count)]
    x = [10 ** (dice.uniform(-6, 6)) for _ in whole] if log else whole
    if dice.random() < 0.3:
        x = [place + dice.random() for place in x]
    names = dice.sample(_NAMES, len(_NAMES))
    curves = []
    for colour in range(dice.randint(0, 4)):
        y = _values(dice, count, top)
        band = dice.random() < 0.5
        low = [value - dice.uniform(0, top / 9) for value in y] if band else None
        high = [value + dice.uniform(0, top / 9) for value in y] if band else None
        curves.append(Curve(names.pop(), x, y, low, high, colour=dice.randint(0, 9) + colour, dashed=band))
    stacks = [Stack(names.pop(), _values(dice, count, top), colour=i) for i in range(dice.randint(1, 3))]
    return Figure(
        "some",
        "Some <title>",
        "What is & is not",
        "round",
        dice.choice(["share", "", "participants, all of them"]),
        curves,
        rules=[ReferenceLine(names.pop(), dice.choice([top / 3, math.nan])) for _ in range(dice.randint(0, 1))],
        shades=[Shade(start + i, start + i + dice.randint(0, 5), "night") for i in range(0, 60, 24) if not log],
        log_across=log,
        percent=dice.random() < 0.4,
        lowest=dice.choice([None, 0.0]),
        highest=dice.choice([None, top / 2]),
        bars=Bars(whole, stacks) if bars else None,
        places=[NamedPlace(place, f"p{i}\n{place:,.0f}") for i, place in enumerate(whole)]
        if dice.random() < 0.1
        else (),
    )
