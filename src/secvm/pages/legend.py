"""Which names a drawing carries, and where: at the ends of the curves if all of them fit, else in rows below.

How wide a text comes out depends on the reader's fonts. Widths here are on the large side, so that nothing overlaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

#: Units of a letter at 13 units' height, on the large side of common fonts.
_SLIM, _DIGIT, _COMMON, _BROAD = 4.4, 8.3, 8.0, 12.5
#: How much wider heavy letters are.
_BOLD = 1.13
#: The sample of a line in front of its name, and what is left free behind a name.
SAMPLE, _AFTER = 34.0, 20.0
#: Between two names at the ends of curves, and how far one may stand from its curve.
_APART, _SHIFT = 16.0, 13.0


@dataclass(frozen=True, slots=True)
class Entry:
    """Something with a name."""

    name: str
    #: ``curve``, ``bar``, ``rule`` or ``shade``.
    kind: str
    #: Of a curve or bar; of a rule, which dashes.
    colour: int = 0
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """A name at the end of its curve."""

    entry: Entry
    end: float
    placed: float


def wide(text: str, *, bold: bool = False) -> float:
    """About how many units a text takes."""
    width = 0.0
    for letter in text:
        if letter in "iljtfI.,:;'|!()[]- \u00a0":
            width += _SLIM
        elif letter in "mwMW%@—−":
            width += _BROAD
        else:
            width += _DIGIT if letter.isdigit() or letter.isupper() else _COMMON
    return width * (_BOLD if bold else 1.0)


def fitted(text: str, room: float) -> str:
    """A text that is no wider than this: as much of it as there is room for, and that something is missing."""
    letters = list(text)
    while len(letters) > 1 and wide("".join(letters)) + (_COMMON if len(letters) < len(text) else 0.0) > room:
        letters.pop()
    return text if len(letters) == len(text) else "".join(letters) + "…"


def laid_out(entries: Sequence[Entry], room: float) -> list[list[tuple[float, Entry]]]:
    """Rows of a legend: where each entry begins. In columns where that takes no more rows than one after another.

    A name that is wider than a row is cut.
    """
    entries = [replace(entry, name=fitted(entry.name, room - SAMPLE)) for entry in entries]
    takes = [SAMPLE + wide(entry.name) + _AFTER for entry in entries]
    rows: list[list[tuple[float, Entry]]] = []
    x = 0.0
    for entry, width in zip(entries, takes, strict=True):
        if not rows or x + width - _AFTER > room:
            rows.append([])
            x = 0.0
        rows[-1].append((x, entry))
        x += width
    columns = max(1, int((room + _AFTER) / max(takes, default=1.0)))
    if -(-len(entries) // columns) > len(rows):
        return rows
    columns = -(-len(entries) // max(1, len(rows)))
    starts = [sum(max(takes[i::columns]) for i in range(column)) for column in range(columns)]
    return [list(zip(starts, entries[i : i + columns], strict=False)) for i in range(0, len(entries), max(1, columns))]


def beside(entries: Sequence[Entry], ends: Mapping[str, float], room: float) -> list[Named]:
    """Names at the ends of all curves and rules, moved apart; nothing if they cannot all stand there."""
    wanted = [entry for entry in entries if entry.kind != "shade"]
    if any(entry.name not in ends or wide(entry.name, bold=True) > room for entry in wanted):
        return []
    wanted = sorted(wanted, key=lambda entry: ends[entry.name])
    placed: list[float] = []
    for entry in wanted:
        placed.append(max(ends[entry.name], placed[-1] + _APART) if placed else ends[entry.name])
    # A heap of names hangs below its curves: lift it by half, from the last to the first.
    start = 0
    for stop in range(1, len(placed) + 1):
        if stop == len(placed) or placed[stop] > placed[stop - 1] + _APART:
            off = [placed[i] - ends[wanted[i].name] for i in range(start, stop)]
            lift = (max(off) + min(off)) / 2
            free = placed[start] - (placed[start - 1] + _APART) if start else lift
            placed[start:stop] = [y - min(lift, free) for y in placed[start:stop]]
            start = stop
    named = [Named(entry, ends[entry.name], y) for entry, y in zip(wanted, placed, strict=True)]
    return named if all(abs(one.placed - one.end) <= _SHIFT for one in named) else []
