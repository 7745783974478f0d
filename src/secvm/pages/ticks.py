"""Where an axis carries numbers, and how they are written.

Places are integers times a power of ten, so that labels are exact and no two of them read alike. Every place lies
inside the axis. Powers of ten are found by digits, not by logarithms, so that ``static/ticks.js`` has the same ones to
the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
#: Larger numbers are written in millions, much larger ones as powers of ten.
_MILLION, _BILLION = 10**6, 10**9
#: An axis shorter than this share of its values' size cannot be told from a point.
_NARROW = 1e-9
#: With so many decades a logarithmic axis carries whole powers alone.
_DECADES = 2.5
#: With less than so many it carries numbers as a common axis does.
_SHORT = 0.75
#: With more than so many there are no marks between.
_FINE = 6


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis and what is written there."""

    value: float
    label: str


def span(values: Iterable[float], *, from_zero: bool = True, pad: float = 0.05) -> tuple[float, float]:
    """A range that holds every finite value with a little room, and zero where that is near anyway."""
    there = [value for value in values if math.isfinite(value)]
    if not there:
        return 0.0, 1.0
    low, high = min(there), max(there)
    if high - low <= _NARROW * max(abs(low), abs(high)):
        room = max(abs(low), abs(high)) / 10 or 0.5
        return low - room, high + room
    room = pad * (high - low)
    # Numbers that are never negative begin at zero unless their differences would vanish.
    bottom = 0.0 if from_zero and 0 <= low < (high - low) / 2 else low - room
    # A share that reaches 1 needs no room above: there is nothing.
    top = high if high == 1 and bottom >= 0 else high + room
    return bottom, top


def linear_ticks(low: float, high: float, count: int = 6, *, whole: bool = False) -> list[Tick]:
    """About ``count`` round numbers from ``low`` to ``high``; of things that are counted, ``whole`` ones."""
    factor, exponent = _step(high - low, count)
    if whole and exponent < 0:
        factor, exponent = 1, 0
    step = factor * _ten(exponent)
    first, last = math.ceil(low / step - _NARROW), math.floor(high / step + _NARROW)
    exact = [Decimal(place * factor).scaleb(exponent) for place in range(first, last + 1)]
    labels = _written(exact)
    return [Tick(min(high, max(low, float(value))), label) for value, label in zip(exact, labels, strict=True)]


def log_ticks(low: float, high: float, count: int = 7) -> list[Tick]:
    """Powers of ten from ``low`` to ``high``; over few decades also their doubles and fives."""
    decades, exponents = _decades(low, high)
    factors = (1,) if decades >= _DECADES else (1, 2, 5)
    every = max(1, math.ceil(decades / count))
    exact = [Decimal(f).scaleb(e) for e in exponents if e % every == 0 for f in factors]
    exact = [value for value in exact if low <= float(value) <= high]
    if len(exact) <= 1 or decades < _SHORT:
        return linear_ticks(low, high, count)
    plain = exact[0] >= Decimal("0.001") and exact[-1] < _MILLION
    labels = [f"{value:,f}" if plain else _power(value) for value in exact]
    return [Tick(float(value), label) for value, label in zip(exact, labels, strict=True)]


def scientific(value: float) -> str:
    """A number as a power of ten, with what stands before it."""
    return _power(Decimal(repr(value)))


def between_decades(low: float, high: float) -> list[float]:
    """Twice to nine times each power of ten: small marks that show the scale is logarithmic. None over many decades."""
    decades, exponents = _decades(low, high)
    if decades < 1 or decades > _FINE:
        return []
    marks = [float(Decimal(f).scaleb(e)) for e in exponents for f in range(2, 10)]
    return [mark for mark in marks if low <= mark <= high]


def _ten(exponent: int) -> float:
    return float(f"1e{exponent}")


def _parts(value: float) -> tuple[int, float]:
    """A positive number's power of ten, and what stands before it."""
    exponent = Decimal(repr(value)).adjusted()
    return exponent, float(Decimal(repr(value)).scaleb(-exponent))


def _decades(low: float, high: float) -> tuple[float, range]:
    """How many there are from ``low`` to ``high``, and the powers of ten around them."""
    (first, before), (last, after) = _parts(low), _parts(high)
    return last - first + (math.log10(after) - math.log10(before)), range(first, last + 2)


def _step(length: float, count: int) -> tuple[int, int]:
    raw = length / max(1, count)
    exponent, _ = _parts(raw)
    factor = next((f for f in (1, 2, 5) if f * _ten(exponent) >= raw * (1 - _NARROW)), None)
    return (1, exponent + 1) if factor is None else (factor, exponent)


def _written(values: list[Decimal]) -> list[str]:
    """All in one unit, with as many digits as they need to differ."""
    top = max((abs(value) for value in values), default=Decimal(0))
    finest = min((int(value.normalize().as_tuple().exponent) for value in values if value), default=0)
    if top >= _BILLION or (top and top < Decimal("0.001")):
        return [_power(value) for value in values]
    shift, unit = (6, "\u00a0M") if top >= _MILLION else (0, "")
    digits = max(0, shift - finest)
    scaled = [value.scaleb(-shift) for value in values]
    return [f"{value:,.{digits}f}{unit if value else ''}".replace("-", "\u2212") for value in scaled]


def _power(value: Decimal) -> str:
    if not value:
        return "0"
    sign, digits, exponent = value.normalize().as_tuple()
    size = len(digits) + int(exponent) - 1
    factor = "".join(map(str, digits))
    factor = factor[0] + ("." + factor[1:] if len(factor) > 1 else "")
    minus = "\u2212" if sign else ""
    power = "10" + str(size).translate(_RAISED)
    return minus + (power if factor == "1" else f"{factor}·{power}")
