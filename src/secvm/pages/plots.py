"""A figure on a page: drawn for a desk and for a phone, its caption, and its numbers folded away below it."""

from __future__ import annotations

import html
import math

from secvm.pages.drawing import HALF, LARGE, SMALL, draw
from secvm.pages.figure import Figure
from secvm.pages.parts import numbers_behind

#: Longer tables behind a figure show a selection; the file beside the page has every row.
_SHOWN = 40


def plot(figure: Figure, *, caption: str = "", behind: str = "", half: bool = False) -> str:
    """The figure. ``behind`` is HTML already; ``half`` is for two of them side by side, in a ``pair``."""
    told = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    return (
        f'<figure class="plot" id="figure-{figure.name}"><p class="title">{html.escape(figure.title)}</p>'
        f"{draw(figure, HALF if half else LARGE)}{draw(figure, SMALL)}{told}{behind}</figure>"
    )


def numbers_of(figure: Figure) -> str:
    """The numbers of a figure that is also written as a file, folded away."""
    header, rows = figure.rows()
    every = max(1, math.ceil(len(rows) / _SHOWN))
    note = f"All numbers are in {figure.name}.csv."
    if every > 1:
        note = f"One row in {every} of {len(rows):,}; {note[0].lower()}{note[1:]}"
    # Counted from the end, so that the last one is there.
    shown = [[_cell(value) for value in row] for row in rows[::-1][::every][::-1]]
    return numbers_behind(header, shown, caption=note)


def _cell(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    if value.is_integer():
        return f"{value:,.0f}"
    # Shares with the same digits stand in a column.
    return f"{value:.4f}" if 0.001 <= abs(value) < 1 else f"{value:.4g}"
