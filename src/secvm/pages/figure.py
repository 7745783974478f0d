"""Figures as values: curves, their bands, bars, and what they are compared with, apart from how they are drawn.

Pages and reports draw a figure in the browser out of its ``spec`` (``static/drawing.js``); ``pictures`` makes a file of
it with matplotlib (the extra ``plots``); ``csv`` has the numbers behind it. A value that is not finite is a gap.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import pairwise
from typing import Any

from secvm.errors import BadInputError

#: What begins like this is reckoned by spreadsheets when they open a file.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Curve:
    """A line through points, and perhaps a band around it."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    #: Which of the page's colours.
    colour: int = 0
    dashed: bool = False

    def __post_init__(self) -> None:
        for part in ("x", "y", "low", "high"):
            given = getattr(self, part)
            object.__setattr__(self, part, None if given is None else tuple(float(value) for value in given))
        lengths = {len(part) for part in (self.x, self.y, self.low, self.high) if part is not None}
        if len(lengths) != 1 or (self.low is None) != (self.high is None):
            raise BadInputError(f"the parts of the curve {self.name!r} do not belong together")
        if not all(math.isfinite(value) for value in self.x):
            raise BadInputError(f"the curve {self.name!r} has a point at no place")

    @property
    def band(self) -> tuple[Sequence[float], Sequence[float]] | None:
        """Both edges, where there are any."""
        return None if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True, slots=True)
class Stack:
    """One layer of stacked bars: its height at every place of theirs."""

    name: str
    values: Sequence[float]
    #: Which of the page's colours.
    colour: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(float(value) for value in self.values))


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars over places, the first layer at the bottom."""

    x: Sequence[float]
    stacks: Sequence[Stack]

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", tuple(float(value) for value in self.x))
        object.__setattr__(self, "stacks", tuple(self.stacks))
        if any(len(stack.values) != len(self.x) for stack in self.stacks):
            raise BadInputError("the layers of the bars do not belong together")
        if any(value < 0 for stack in self.stacks for value in stack.values):
            raise BadInputError("a bar has a height below zero")
        if not all(math.isfinite(value) for value in self.x) or len(set(self.x)) != len(self.x):
            raise BadInputError("every bar needs a place of its own")

    @property
    def apart(self) -> float:
        """Between two neighbours."""
        return min((right - left for left, right in pairwise(sorted(self.x))), default=1.0)


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """A level to compare with."""

    name: str
    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", float(self.value))


@dataclass(frozen=True, slots=True)
class Shade:
    """A stretch of the horizontal axis, a night for example. Stretches of one name are named once."""

    low: float
    high: float
    name: str


@dataclass(frozen=True, slots=True)
class NamedPlace:
    """A value of the horizontal axis with a name, in lines if need be."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Figure:
    """What is to be seen, and how its axes are called."""

    #: Of its files; unique on its page.
    name: str
    title: str
    #: What is to be seen, in a sentence or two, for people who cannot see it.
    description: str
    across: str
    up: str
    curves: Sequence[Curve] = ()
    rules: Sequence[ReferenceLine] = ()
    shades: Sequence[Shade] = ()
    log_across: bool = False
    #: Shares are written as percentages on the axis. The numbers stay shares.
    percent: bool = False
    #: The vertical axis, where its ends are not left to the values.
    lowest: float | None = None
    highest: float | None = None
    bars: Bars | None = None
    #: Places of the horizontal axis, where numbers would say less than names.
    places: Sequence[NamedPlace] = ()

    def __post_init__(self) -> None:
        for part in ("curves", "rules", "shades", "places"):
            object.__setattr__(self, part, tuple(getattr(self, part)))
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", self.name):
            raise BadInputError(f"{self.name!r} cannot be a figure's name: letters, digits, dots and dashes can")
        stacks = self.bars.stacks if self.bars else ()
        parts: list[Curve | Stack | ReferenceLine] = [*self.curves, *stacks, *self.rules]
        named = Counter(part.name for part in parts)
        if any(times > 1 for times in named.values()):
            raise BadInputError(f"two curves of the figure {self.name!r} have one name")
        if self.log_across and self.bars:
            raise BadInputError(f"the figure {self.name!r} has bars on a logarithmic axis")
        if self.log_across and any(x <= 0 for curve in self.curves for x in curve.x):
            raise BadInputError(f"the figure {self.name!r} has a logarithmic axis and points that are not positive")

    def rows(self) -> tuple[list[str], list[list[float | None]]]:
        """Names of columns, and a row for every place: of each curve its value and its band, bars, then the rules."""
        header, columns, places = [self.across], list[dict[tuple[float, int], float]](), set[tuple[float, int]]()
        for curve in self.curves:
            seen: Counter[float] = Counter()
            keys = []
            for x in curve.x:
                # A curve may stand twice at one place: then there are two rows.
                keys.append((x, seen[x]))
                seen[x] += 1
            places.update(keys)
            low, high = curve.band or ((), ())
            for name, part in ((curve.name, curve.y), (f"{curve.name} low", low), (f"{curve.name} high", high)):
                if part or name == curve.name:
                    header.append(name)
                    columns.append(dict(zip(keys, part, strict=True)))
        if self.bars:
            keys = [(x, 0) for x in self.bars.x]
            places.update(keys)
            header += [stack.name for stack in self.bars.stacks]
            columns += [dict(zip(keys, stack.values, strict=True)) for stack in self.bars.stacks]
        header += [rule.name for rule in self.rules]
        rules = [rule.value for rule in self.rules]
        return header, [[key[0], *(column.get(key) for column in columns), *rules] for key in sorted(places)]

    def csv(self) -> str:
        """The numbers, one row for every place of the horizontal axis; what is not there is empty."""
        header, rows = self.rows()
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow([_harmless(name) for name in header])
        writer.writerows([_exact(value) for value in row] for row in rows)
        return buffer.getvalue()

    def spec(self) -> dict[str, object]:
        """The figure as JSON, for pages that draw it themselves; what is not a number is null."""
        content: dict[str, object] = _plain(self)
        return content


def _plain(part: Any) -> Any:
    if is_dataclass(part):
        return {field.name: _plain(getattr(part, field.name)) for field in fields(part)}
    if isinstance(part, Sequence) and not isinstance(part, str):
        return [_plain(item) for item in part]
    return None if isinstance(part, float) and not math.isfinite(part) else part


def _exact(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return ""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _harmless(name: str) -> str:
    """A name as a spreadsheet takes it for text: a label is a stranger's, and might begin as a formula does."""
    return f"'{name}" if name[:1] in _FORMULAS else name
