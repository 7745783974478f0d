"""Figures as values: curves, their bands, what they are compared with; told apart from how they are drawn.

A figure becomes an SVG (``drawing``), a PNG (``png``, the extra ``plots``) or the numbers behind it, from the same
ticks and colours. A value that is not finite is a gap.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from secvm.errors import BadInputError
from secvm.pages.drawing import document
from secvm.pages.png import picture
from secvm.pages.ticks import Tick, between_decades, linear_ticks, log_ticks, span


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
class Rule:
    """A level to compare with."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Shade:
    """A stretch of the horizontal axis, a night for example. Stretches of one name are named once."""

    low: float
    high: float
    name: str


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
    curves: Sequence[Curve]
    rules: Sequence[Rule] = ()
    shades: Sequence[Shade] = ()
    log_across: bool = False
    #: Shares are written as percentages on the axis. The numbers stay shares.
    percent: bool = False
    #: The vertical axis, where its ends are not left to the values.
    lowest: float | None = None
    highest: float | None = None

    def __post_init__(self) -> None:
        for part in ("curves", "rules", "shades"):
            object.__setattr__(self, part, tuple(getattr(self, part)))
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", self.name):
            raise BadInputError(f"{self.name!r} cannot be a figure's name: letters, digits, dots and dashes can")
        named = Counter([*(curve.name for curve in self.curves), *(rule.name for rule in self.rules)])
        if any(times > 1 for times in named.values()):
            raise BadInputError(f"two curves of the figure {self.name!r} have one name")
        if self.log_across and any(x <= 0 for curve in self.curves for x in curve.x):
            raise BadInputError(f"the figure {self.name!r} has a logarithmic axis and points that are not positive")

    @property
    def ends_across(self) -> tuple[float, float]:
        """The horizontal axis: exactly as long as the curves, one point takes some room."""
        places = [x for curve in self.curves for x in curve.x]
        if not places:
            return (1.0, 10.0) if self.log_across else (0.0, 1.0)
        low, high = min(places), max(places)
        if self.log_across and high < low * 1.0001:
            return low / 2, high * 2
        return (low, high) if high - low > 1e-9 * max(abs(low), abs(high)) else span(places)

    @property
    def ends_up(self) -> tuple[float, float]:
        """The vertical axis."""
        low, high = span(self._levels())
        low, high = self.lowest if self.lowest is not None else low, self.highest if self.highest is not None else high
        return (low, high) if low < high else (low, low + 1.0)

    def ticks_across(self, count: int = 8) -> list[Tick]:
        """Places of the horizontal axis that carry a number."""
        return (log_ticks if self.log_across else linear_ticks)(*self.ends_across, count)

    def marks_across(self) -> list[float]:
        """Places of a logarithmic axis that carry a small mark and no number."""
        return between_decades(*self.ends_across) if self.log_across else []

    def ticks_up(self, count: int = 6) -> list[Tick]:
        """Places of the vertical axis that carry a number."""
        low, high = self.ends_up
        if not self.percent:
            return linear_ticks(low, high, count)
        ticks = linear_ticks(100 * low, 100 * high, count)
        return [Tick(min(high, max(low, tick.value / 100)), f"{tick.label}\u00a0%") for tick in ticks]

    def _levels(self) -> Iterator[float]:
        for curve in self.curves:
            yield from curve.y
            for edge in curve.band or ():
                yield from edge
        yield from (rule.value for rule in self.rules)

    def rows(self) -> tuple[list[str], list[list[float | None]]]:
        """Names of columns, and a row for every place: of each curve its value and its band, then the rules."""
        header, columns, places = [self.across], [], set[tuple[float, int]]()
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
        header += [rule.name for rule in self.rules]
        rules = [rule.value for rule in self.rules]
        return header, [[key[0], *(column.get(key) for column in columns), *rules] for key in sorted(places)]

    def csv(self) -> str:
        """The numbers, one row for every place of the horizontal axis; what is not there is empty."""
        header, rows = self.rows()
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([_exact(value) for value in row] for row in rows)
        return buffer.getvalue()

    def svg(self) -> str:
        """A drawing that stands alone, light or dark as its reader likes."""
        return document(self)

    def png(self) -> bytes:
        """A picture, drawn with matplotlib.

        Raises
        ------
        BadInputError
            Without the extra ``plots``.
        """
        return picture(self)


def _exact(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return ""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
