"""Small charts as SVG text: lines with bands, stacked bars. For pages that fetch nothing from anywhere.

Colours, fonts and strokes are CSS classes of the page around (``series-0``, ``band-0``, ``rule``, …), so that one
drawing serves light and dark. Every chart has a title and a description for people who cannot see it. Nothing here
knows what is drawn.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

#: The drawing's own units; the page scales it.
WIDTH, HEIGHT = 440, 260
#: What is left free around the drawing.
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 14, 42


@dataclass(frozen=True, slots=True)
class Line:
    """A series: a value at each place of the horizontal axis, NaN where there is none, and perhaps an interval."""

    name: str
    values: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    #: Which of the page's colours.
    colour: int = 0
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A horizontal line to compare with."""

    name: str
    value: float
    #: Which of the page's kinds of rule.
    kind: int = 0


@dataclass(frozen=True, slots=True)
class Bars:
    """One layer of stacked bars."""

    name: str
    values: Sequence[float]
    colour: int = 0


@dataclass(frozen=True, slots=True)
class Axes:
    """What stands around a drawing."""

    title: str
    #: What is to be seen, in a sentence or two, for people who cannot see it.
    description: str
    across: str
    up: str
    #: Labels of the horizontal axis' places; with many of them only some are written.
    places: Sequence[str]
    lowest: float = 0.0
    highest: float = 1.0
    percent: bool = False


def line_chart(axes: Axes, lines: Sequence[Line], rules: Sequence[Rule] = ()) -> str:
    """Lines over places, their intervals as bands behind them."""
    parts = [_frame(axes)]
    parts += [_band(axes, x.low, x.high, x.colour) for x in lines if x.low is not None and x.high is not None]
    for rule in rules:
        y = _y(axes, rule.value)
        parts.append(f'<line class="rule rule-{rule.kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
    for line in lines:
        dashed = " dashed" if line.dashed else ""
        for piece in _pieces(axes, line.values):
            shape = f'<polyline class="series series-{line.colour}{dashed}" points="{" ".join(piece)}"/>'
            if len(piece) == 1:
                across, up = piece[0].split(",")
                shape = f'<circle class="dot-{line.colour}" cx="{across}" cy="{up}" r="3"/>'
            parts.append(shape)
    named = [(f"key-{line.colour}" + (" dashed" if line.dashed else ""), line.name) for line in lines]
    named += [(f"key-rule-{rule.kind}", rule.name) for rule in rules]
    return _figure(axes, "".join(parts), named)


def bar_chart(axes: Axes, layers: Sequence[Bars], rules: Sequence[Rule] = ()) -> str:
    """Bars over places, the first layer at the bottom."""
    parts = [_frame(axes)]
    room = (WIDTH - LEFT - RIGHT) / max(1, len(axes.places))
    width = max(1.0, room * 0.72)
    for place in range(len(axes.places)):
        below = 0.0
        for layer in layers:
            value = layer.values[place]
            top, bottom = _y(axes, below + value), _y(axes, below)
            x = round(LEFT + room * (place + 0.5) - width / 2, 1)
            parts.append(
                f'<rect class="bar-{layer.colour}" x="{x}" y="{top}" width="{round(width, 1)}"'
                f' height="{round(bottom - top, 1)}"/>'
            )
            below += value
    for rule in rules:
        y = _y(axes, rule.value)
        parts.append(f'<line class="rule rule-{rule.kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
    named = [(f"key-bar-{layer.colour}", layer.name) for layer in layers]
    named += [(f"key-rule-{rule.kind}", rule.name) for rule in rules]
    return _figure(axes, "".join(parts), named)


def nice_top(value: float) -> float:
    """A round number at or a little above, for the top of an axis that begins at zero."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return float(next(step * size for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * size >= value * 0.999999))


def _figure(axes: Axes, inside: str, named: Sequence[tuple[str, str]]) -> str:
    legend = "".join(f'<li><span class="key {kind}"></span>{html.escape(name)}</li>' for kind, name in named)
    return (
        f"<figure><figcaption>{html.escape(axes.title)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>{html.escape(axes.title)}</title>'
        f"<desc>{html.escape(axes.description)}</desc>{inside}</svg>"
        f'<ul class="legend" aria-hidden="true">{legend}</ul></figure>'
    )


def _frame(axes: Axes) -> str:
    parts = []
    for step in range(5):
        value = axes.lowest + (axes.highest - axes.lowest) * step / 4
        y = _y(axes, value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 6}" y="{round(y + 4, 1)}" text-anchor="end">{_written(axes, value)}</text>'
        )
    every = max(1, -(-len(axes.places) // 10))
    for place, label in enumerate(axes.places):
        if place % every == 0:
            parts.append(
                f'<text class="tick" x="{_x(axes, place)}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">'
                f"{html.escape(label)}</text>"
            )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text class="axis" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{html.escape(axes.across)}</text>'
    )
    upright = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text class="axis" transform="translate(11 {upright}) rotate(-90)" text-anchor="middle">'
        f"{html.escape(axes.up)}</text>"
    )
    return "".join(parts)


def _written(axes: Axes, value: float) -> str:
    if axes.percent:
        return f"{100 * value:.0f} %"
    return f"{value:,.0f}" if axes.highest >= 10 else f"{value:g}"


def _band(axes: Axes, low: Sequence[float], high: Sequence[float], colour: int) -> str:
    there = [i for i in range(len(axes.places)) if not (math.isnan(low[i]) or math.isnan(high[i]))]
    points = [f"{_x(axes, i)},{_y(axes, high[i])}" for i in there]
    points += [f"{_x(axes, i)},{_y(axes, low[i])}" for i in reversed(there)]
    return f'<polygon class="band-{colour}" points="{" ".join(points)}"/>'


def _pieces(axes: Axes, values: Sequence[float]) -> list[list[str]]:
    """Points of a line, cut where there is no value."""
    pieces: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if math.isnan(value):
            pieces.append([])
        else:
            pieces[-1].append(f"{_x(axes, place)},{_y(axes, value)}")
    return [piece for piece in pieces if piece]


def _x(axes: Axes, place: int) -> float:
    room = (WIDTH - LEFT - RIGHT) / max(1, len(axes.places))
    return round(LEFT + room * (place + 0.5), 1)


def _y(axes: Axes, value: float) -> float:
    share = (value - axes.lowest) / (axes.highest - axes.lowest)
    return round(HEIGHT - BOTTOM - min(1.0, max(0.0, share)) * (HEIGHT - TOP - BOTTOM), 1)
