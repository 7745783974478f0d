"""A ``Figure`` as SVG text. Colours and strokes are CSS classes, so that one drawing serves light and dark.

Names stand at the ends of the curves where there is room for all of them, else in a legend below the axis; nothing is
written over a curve. A page shows one drawing on a desk and another, of the same numbers, on a phone.
``static/drawing.js`` draws the same in a browser; a test there holds the two together.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from secvm.pages.legend import SAMPLE, Entry, beside, laid_out, wide
from secvm.pages.style import DRAWING_STYLE, LEVELS, LIGHT

if TYPE_CHECKING:
    from secvm.pages.figure import Curve, Figure

#: Curves with fewer points show them.
_FEW = 25
#: Between a label and what it belongs to; at the edge; between rows of the legend; above and below the curves.
_GAP, _EDGE, _ROW, _TOP, _BOTTOM = 8.0, 2.0, 20.0, 30.0, 46.0
#: How near to the right edge a curve must end to be named there, as a share of the axis.
_NEAR = 0.97
#: How much of the room between two bars each takes, and how wide it is at most; lines of a place's name.
_FILLED, _WIDEST, _LINE = 0.72, 64.0, 16.0


@dataclass(frozen=True, slots=True)
class Size:
    """A drawing's own units, and about how many numbers its axes carry."""

    kind: str
    width: float
    height: float
    across: int
    up: int
    #: The most that names at the ends of curves may take.
    names: float


#: A whole page, half of one, a phone.
LARGE = Size("large", 920.0, 400.0, 10, 6, 220.0)
HALF = Size("half", 470.0, 300.0, 6, 5, 0.0)
SMALL = Size("small", 360.0, 280.0, 5, 5, 0.0)


@dataclass(frozen=True, slots=True)
class _Box:
    """Where the curves are, and how values become places."""

    figure: Figure
    left: float
    right: float
    bottom: float
    #: Both ends of each axis: the figure looks at all its points to tell.
    across: tuple[float, float]
    up: tuple[float, float]

    def x(self, value: float) -> float:
        """Of a value across, at the edge if it lies beyond."""
        low, high = self.across
        if self.figure.log_across:
            low, high, value = math.log10(low), math.log10(high), math.log10(max(value, 1e-300))
        share = min(1.0, max(0.0, (value - low) / (high - low)))
        return round(self.left + share * (self.right - self.left), 1)

    def y(self, value: float) -> float:
        """Of a value up, at the edge if it lies beyond."""
        low, high = self.up
        share = min(1.0, max(0.0, (value - low) / (high - low)))
        return round(self.bottom - share * (self.bottom - _TOP), 1)


def document(figure: Figure) -> str:
    """The large drawing as a file of its own."""
    return draw(figure, LARGE, alone=True) + "\n"


def draw(figure: Figure, size: Size, *, alone: bool = False) -> str:
    """One drawing; ``alone`` brings its style with it."""
    entries = list(_entries(figure))
    left = _EDGE + _GAP + max((wide(tick.label) for tick in figure.ticks_up(size.up)), default=0.0)
    lines = max((tick.label.count("\n") for tick in figure.places), default=0)
    bottom = size.height - _BOTTOM - lines * _LINE
    box = _Box(figure, left, size.width - 2 * _GAP, bottom, figure.ends_across, figure.ends_up)
    named = beside(entries, _ends(box), size.names)
    if named:
        room = max(wide(name.entry.name, bold=True) for name in named)
        box = replace(box, right=size.width - room - 2 * _GAP)
        entries = [entry for entry in entries if entry.kind == "shade"]
    parts = [_frame(box, size), *_bars(box), *_rules(box), *(_curve(box, curve) for curve in figure.curves)]
    for name in named:
        kind = f"name-{name.entry.colour}" if name.entry.kind == "curve" else "soft"
        parts.append(_text(f"label {kind}", box.right + 10, name.placed + 4.5, name.entry.name))
    height = size.height
    for row in laid_out(entries, size.width - 2 * _GAP):
        parts += [_key(x + _EDGE, height + _ROW / 2, entry) for x, entry in row]
        height += _ROW
    height += _GAP if entries else 0.0
    space = style = ""
    low, width = 0.0, size.width
    if alone:
        # A page has room around its drawings; a file brings its own.
        low, width, height = -_ROW, size.width + 2 * _ROW, height + 2 * _ROW
        space = ' xmlns="http://www.w3.org/2000/svg"'
        sheet = f'<rect class="sheet" x="{low:g}" y="{low:g}" width="{width:g}" height="{height:g}"/>'
        style = f"<style>{DRAWING_STYLE}</style>{sheet}"
    return (
        f'<svg{space} class="{size.kind}" viewBox="{low:g} {low:g} {width:g} {height:g}" role="img">'
        f"<title>{html.escape(figure.title)}</title><desc>{html.escape(figure.description)}</desc>"
        f"{style}{''.join(parts)}</svg>"
    )


def _entries(figure: Figure) -> Iterator[Entry]:
    for curve in figure.curves:
        yield Entry(curve.name, "curve", curve.colour % len(LIGHT), curve.dashed)
    for stack in figure.bars.stacks if figure.bars else ():
        yield Entry(stack.name, "bar", stack.colour % len(LIGHT))
    for place, rule in enumerate(figure.rules):
        yield Entry(rule.name, "rule", place % LEVELS)
    for name in dict.fromkeys(shade.name for shade in figure.shades):
        yield Entry(name, "shade")


def _ends(box: _Box) -> dict[str, float]:
    """How high each curve ends, of those that end at the right."""
    ends = {rule.name: box.y(rule.value) for rule in box.figure.rules if math.isfinite(rule.value)}
    for curve in box.figure.curves:
        there = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if math.isfinite(y)]
        if there and box.x(there[-1][0]) >= box.left + _NEAR * (box.right - box.left):
            ends[curve.name] = box.y(there[-1][1])
    return ends


def _frame(box: _Box, size: Size) -> str:
    """Shades, lines and numbers of the axes, and what they are called."""
    figure, bottom = box.figure, box.bottom
    parts = []
    for shade in figure.shades:
        x0, x1 = box.x(shade.low), box.x(shade.high)
        if x1 > x0:
            parts.append(
                f'<rect class="shade" x="{x0}" y="{_TOP:g}" width="{x1 - x0:.1f}" height="{bottom - _TOP:g}"/>'
            )
    for tick in figure.ticks_up(size.up):
        parts.append(_line("grid", box.left, box.y(tick.value), box.right, box.y(tick.value)))
        parts.append(_text("tick", box.left - _GAP, box.y(tick.value) + 4.5, tick.label, anchor="end"))
    parts.append(_line("base", box.left, bottom, box.right, bottom))
    marks = [box.x(mark) for mark in figure.marks_across()]
    parts += [_line("base faint", x, bottom, x, bottom + 3) for x in marks]
    free = 0.0
    for tick in figure.ticks_across(size.across):
        lines = tick.label.split("\n")
        x, half = box.x(tick.value), max(map(wide, lines)) / 2
        parts.append(_line("base", x, bottom, x, bottom + 5))
        # Half of a label must not stick out of the drawing, nor reach into the one before.
        at = min(max(x, half), size.width - half)
        if at - half >= free:
            parts += [
                _text("tick", at, bottom + 18 + row * _LINE, line, anchor="middle") for row, line in enumerate(lines)
            ]
            free = at + half + _EDGE
    parts.append(_text("axis", (box.left + box.right) / 2, size.height - _GAP, figure.across, anchor="middle"))
    # Words on their side are hard to read; above the axis there is room.
    parts.append(_text("axis", _EDGE, 16, figure.up))
    return "".join(parts)


def _rules(box: _Box) -> Iterator[str]:
    for place, rule in enumerate(box.figure.rules):
        if math.isfinite(rule.value):
            y, over = box.y(rule.value), ""
            if box.figure.bars:
                # On bars a thin line is lost.
                over = " over"
                yield _line("halo", box.left, y, box.right, y)
            yield _line(f"rule level-{place % LEVELS}{over}", box.left, y, box.right, y)


def _bars(box: _Box) -> Iterator[str]:
    """One shape for each layer, however many bars there are."""
    bars = box.figure.bars
    if bars is None:
        return
    low, high = box.across
    half = min(_FILLED * bars.apart, _WIDEST * (high - low) / (box.right - box.left)) / 2
    below = [0.0] * len(bars.x)
    for stack in bars.stacks:
        shape = []
        for place, (x, height) in enumerate(zip(bars.x, stack.values, strict=True)):
            if height > 0 and math.isfinite(height):
                above = below[place] + height
                left, right = box.x(x - half), box.x(x + half)
                shape.append(f"M{left},{box.y(above)}H{max(left + 1, right):.1f}V{box.y(below[place])}H{left}Z")
                below[place] = above
        yield f'<path class="bar-{stack.colour % len(LIGHT)}" d="{"".join(shape)}"/>'


def _curve(box: _Box, curve: Curve) -> str:
    colour, dashed = curve.colour % len(LIGHT), " dashed" if curve.dashed else ""
    parts = []
    if curve.band is not None:
        low, high = curve.band
        # An interval around nothing, of nobody who was counted, is no band.
        for piece in _pieces(low, high, curve.y):
            upper = [f"{box.x(curve.x[i])},{box.y(high[i])}" for i in piece]
            lower = [f"{box.x(curve.x[i])},{box.y(low[i])}" for i in reversed(piece)]
            parts.append(f'<polygon class="band-{colour}" points="{" ".join(upper + lower)}"/>')
            if len(piece) == 1:
                x, alone = box.x(curve.x[piece[0]]), piece[0]
                parts.append(_line(f"whisker series-{colour}", x, box.y(low[alone]), x, box.y(high[alone])))
    pieces = _pieces(curve.y)
    for piece in pieces:
        points = " ".join(f"{box.x(curve.x[i])},{box.y(curve.y[i])}" for i in piece)
        if len(piece) > 1:
            parts.append(f'<polyline class="series series-{colour}{dashed}" points="{points}"/>')
        if len(piece) == 1 or len(curve.x) < _FEW:
            parts += [
                f'<circle class="dot-{colour}" cx="{box.x(curve.x[i])}" cy="{box.y(curve.y[i])}" r="3"/>' for i in piece
            ]
    return "".join(parts)


def _pieces(*values: Sequence[float]) -> list[list[int]]:
    """Places that follow each other without a gap."""
    pieces: list[list[int]] = [[]]
    for place, here in enumerate(zip(*values, strict=True)):
        if all(math.isfinite(value) for value in here):
            pieces[-1].append(place)
        else:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _key(x: float, y: float, entry: Entry) -> str:
    end = x + SAMPLE - _GAP
    match entry.kind:
        case "shade":
            sample = f'<rect class="shade" x="{x:g}" y="{y - 6:g}" width="{end - x:g}" height="12"/>'
        case "bar":
            sample = f'<rect class="bar-{entry.colour}" x="{x + 7:g}" y="{y - 6:g}" width="12" height="12"/>'
        case "rule":
            sample = _line(f"rule level-{entry.colour}", x, y, end, y)
        case _:
            dashed = " dashed" if entry.dashed else ""
            sample = _line(f"series series-{entry.colour}{dashed}", x, y, end, y)
    return sample + _text("label", x + SAMPLE, y + 4.5, entry.name)


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(kind: str, x: float, y: float, text: str, *, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'
