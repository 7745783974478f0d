"""Pieces of HTML that the lab's pages share: the shell around everything, tables, cards, numbers in words."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

from secvm.pages.style import POLICY, STYLE

#: Cells of so few letters stand in one line.
_LINE, _SHORT = 12, ' class="short"'


def percent(value: float, digits: int = 1) -> str:
    """A share as people write it; a dash where there is none."""
    return "–" if math.isnan(value) else f"{100 * value:.{digits}f}\u00a0%"


def number(value: int) -> str:
    """An integer in groups of three."""
    return f"{value:,}"


def shell(title: str, body: str, *, style: str = "") -> str:
    """A whole page: one file, nothing fetched from anywhere. ``body`` is HTML already."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="referrer" content="no-referrer"><title>{html.escape(title)} · SecVM</title>'
        f"<style>{STYLE}{style}</style></head><body><main>{body}</main></body></html>\n"
    )


def cards(shown: Iterable[tuple[str, str]]) -> str:
    """A few numbers in large type, each with what it counts."""
    inside = "".join(f'<div class="card"><b>{html.escape(b)}</b><span>{html.escape(s)}</span></div>' for b, s in shown)
    return f'<div class="cards">{inside}</div>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "") -> str:
    """A table that scrolls by itself where the screen is narrow."""
    titled = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    heads = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in head)
    body = "".join(
        "<tr>"
        f'<th scope="row">{html.escape(row[0])}</th>'
        + "".join(f"<td{_SHORT if len(cell) <= _LINE else ''}>{html.escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table>{titled}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def numbers_behind(head: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "") -> str:
    """The numbers of a figure, folded away."""
    return f"<details><summary>The numbers</summary>{table(head, rows, caption=caption)}</details>"
