"""A bound on a probability, kept as a natural logarithm: 1e-427 is not zero.

Rules it keeps:

 1. A bound lies on one side of the true probability, and says which. Every operation rounds to that side, so that what
    was true before it is true after it. Two sides are never mixed.
 2. An upper bound above one is true and says nothing (``vacuous``). A printed formula that gives one is shown as it is.
 3. No NaN, no infinity but the logarithm of zero. What makes no sense is refused with one sentence.

An upper bound turns into a lower one by ``complement`` and back: if p ≤ b then 1 - p ≥ 1 - b.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import Any

from secvm.errors import BadInputError
from secvm_lab.privacy.logarithms import SLACK, Side, as_decimal, many_digits, outward

#: Relative error, with room to spare, of one operation on decimals of seventy digits.
_RELATIVE = Decimal("1e-60")
#: Smaller than this against one, a number is handled by its series.
_SMALL = Decimal("1e-20")
#: Below this distance of two logarithms the smaller summand is far under the last digit of any float but zero.
_FAR = -2000.0


@dataclass(frozen=True, slots=True, order=True)
class ProbabilityBound:
    """A probability that the true one does not pass, on the side that it names. Ordered by size."""

    #: Natural logarithm; -inf for zero.
    ln: float
    side: Side = Side.UPPER

    def __post_init__(self) -> None:
        if math.isnan(self.ln) or self.ln == math.inf:
            raise BadInputError("the logarithm of a probability must be a number below infinity")
        if self.side is Side.LOWER and self.ln > 0:
            raise BadInputError("no probability is above one, so no lower bound is")

    # ── where bounds come from ───────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def of(cls, probability: Fraction | float, side: Side = Side.UPPER) -> ProbabilityBound:
        """A probability that is known as a number from 0 to 1."""
        if isinstance(probability, bool) or not 0 <= probability <= 1:  # NaN is not within either
            raise BadInputError("a probability must lie between 0 and 1")
        if probability == 0:
            return cls(-math.inf, side)
        with many_digits():
            logarithm = as_decimal(Fraction(probability)).ln()
            # A quotient just below one has lost digits of its distance from one: an absolute error, not a relative one.
            return cls(min(outward(logarithm, side, abs(logarithm) * _RELATIVE + _RELATIVE), 0.0), side)

    @classmethod
    def of_ln(cls, logarithm: Decimal | None, side: Side = Side.UPPER, slack: Decimal = SLACK) -> ProbabilityBound:
        """From the logarithm of a formula's value, known up to ``slack``; None is the logarithm of zero."""
        if logarithm is None:
            return cls(-math.inf, side)
        found = outward(logarithm, side, slack)
        # What the slack alone has pushed above one is one.
        return cls(min(found, 0.0) if side is Side.LOWER or logarithm <= slack else found, side)

    # ── what can be done with them ───────────────────────────────────────────────────────────────────────────────────

    def __mul__(self, other: ProbabilityBound) -> ProbabilityBound:
        """Both of two independent events, or one and then the other."""
        self._same_side(other)
        if -math.inf in (self.ln, other.ln):
            return ProbabilityBound(-math.inf, self.side)
        return self._from_exact(Fraction(self.ln) + Fraction(other.ln))

    def __pow__(self, times: int) -> ProbabilityBound:
        """So many independent events of this kind, all of them."""
        _check_whole(times, "a probability is raised to")
        if times == 0:
            return ProbabilityBound(0.0, self.side)
        return self if self.ln == -math.inf else self._from_exact(Fraction(self.ln) * times)

    def __or__(self, other: ProbabilityBound) -> ProbabilityBound:
        """At least one of two events: the union bound, which is their sum. Upper bounds only."""
        self._same_side(other)
        if self.side is Side.LOWER:
            raise BadInputError("the sum of two probabilities bounds their union from above only")
        less, more = sorted((self.ln, other.ln))
        if less == -math.inf:
            return ProbabilityBound(more)
        if less - more < _FAR:
            return ProbabilityBound(math.nextafter(more, math.inf))
        with many_digits():
            sum_ = Decimal(more) + (1 + (Decimal(less) - Decimal(more)).exp()).ln()
            return ProbabilityBound(outward(sum_, Side.UPPER, (1 + abs(sum_)) * _RELATIVE))

    def times(self, count: int) -> ProbabilityBound:
        """At least one of so many events of this kind: the union bound. Upper bounds only."""
        if self.side is Side.LOWER:
            raise BadInputError("the sum of two probabilities bounds their union from above only")
        _check_whole(count, "events are counted by")
        if count == 0 or self.ln == -math.inf:
            return ProbabilityBound(-math.inf)
        with many_digits():
            sum_ = Decimal(self.ln) + Decimal(count).ln()
            return ProbabilityBound(outward(sum_, Side.UPPER, (1 + abs(sum_)) * _RELATIVE if count > 1 else Decimal(0)))

    def complement(self) -> ProbabilityBound:
        """The event does not happen: a bound on the other side. Small probabilities do not vanish in it."""
        side = self.side.other
        if self.ln >= 0:
            return ProbabilityBound(-math.inf, side)
        if self.ln == -math.inf:
            return ProbabilityBound(0.0, side)
        with many_digits():
            logarithm, slack = _ln_one_minus_exp(Decimal(self.ln))
            return ProbabilityBound(min(outward(logarithm, side, slack), 0.0), side)

    def capped(self) -> ProbabilityBound:
        """The same, and one where it was above one."""
        return ProbabilityBound(min(self.ln, 0.0), self.side)

    # ── what they say ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def vacuous(self) -> bool:
        """Whether it says no more than what is true of every probability."""
        return self.ln >= 0 if self.side is Side.UPPER else self.ln == -math.inf

    @property
    def log10(self) -> float:
        """The decimal logarithm, rounded to the bound's side; -inf for zero."""
        if self.ln in (-math.inf, 0.0):
            return self.ln
        with many_digits():
            quotient = Decimal(self.ln) / Decimal(10).ln()
            return outward(quotient, self.side, abs(quotient) * _RELATIVE)

    def to_float(self) -> float:
        """As a float on the bound's side: an upper bound that is not zero does not become zero."""
        if self.ln in (-math.inf, 0.0):
            return math.exp(self.ln)
        if self.ln > 709:
            raise BadInputError("the bound is too large for a float, and says nothing")
        with many_digits():
            if self.ln < -800:  # far below the smallest float
                return 5e-324 if self.side is Side.UPPER else 0.0
            value = Decimal(self.ln).exp()
            return max(outward(value, self.side, value * _RELATIVE), 0.0)

    def __str__(self) -> str:
        return self.text()

    def text(self, digits: int = 3) -> str:
        """For people, such as 4.84e-427: rounded to the nearest, so compare bounds and not their texts."""
        if self.ln == -math.inf:
            return "0"
        with many_digits():
            value = Decimal(self.ln).exp()
            if Decimal("1e-3") <= value < 10**6:
                return f"{float(value):.{digits}g}"
            mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
            return f"{mantissa}e{int(exponent):+03d}"

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _same_side(self, other: Any) -> None:
        if not isinstance(other, ProbabilityBound):
            raise BadInputError("a bound goes together with bounds only: make one with ProbabilityBound.of")
        if self.side is not other.side:
            raise BadInputError("an upper and a lower bound do not go together")

    def _from_exact(self, logarithm: Fraction) -> ProbabilityBound:
        """Round a logarithm that is known exactly."""
        try:
            found = float(logarithm)
        except OverflowError:
            if logarithm > 0:
                raise BadInputError("the bound is too large for a float, and says nothing") from None
            # Smaller than any logarithm of a float: the largest one that is still true.
            return ProbabilityBound(-math.inf if self.side is Side.LOWER else -1.7976931348623157e308, self.side)
        short = found < logarithm if self.side is Side.UPPER else found > logarithm
        return ProbabilityBound(math.nextafter(found, int(self.side) * math.inf) if short else found, self.side)


@dataclass(frozen=True, slots=True)
class Bracket:
    """A probability between two bounds; where both agree to all digits, it is known exactly."""

    low: ProbabilityBound
    high: ProbabilityBound

    def __post_init__(self) -> None:
        if (self.low.side, self.high.side) != (Side.LOWER, Side.UPPER) or self.low.ln > self.high.ln:
            raise BadInputError("a bracket is a lower bound and an upper one that is not below it")

    @classmethod
    def exactly(cls, probability: Fraction | int) -> Bracket:
        """Around a rational number."""
        return cls(ProbabilityBound.of(probability, Side.LOWER), ProbabilityBound.of(probability))


def _check_whole(number: int, what: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise BadInputError(f"{what} a whole number")
    if number < 0:
        raise BadInputError(f"{what} a whole number that is not negative")


def union(bounds: Iterable[ProbabilityBound]) -> ProbabilityBound:
    """At least one of many events; of none, never."""
    return reduce(lambda one, other: one | other, bounds, ProbabilityBound(-math.inf))


def _ln_one_minus_exp(x: Decimal) -> tuple[Decimal, Decimal]:
    """ln(1 - e^x) for x < 0, and how wrong it may be."""
    if -x < _SMALL:
        # 1 - e^x lies between -x (1 + x/2) and -x
        found = (-x).ln()
        return found, abs(found) * _RELATIVE - x
    if x < -(10**7):  # e^x is below 10^(-4 million), and smaller than any float
        return Decimal(0), Decimal("1e-1000")
    small = x.exp()
    if small < _SMALL:
        return -small, small * (small + _RELATIVE)
    found = (1 - small).ln()
    # 1 - e^x has lost up to twenty digits.
    return found, abs(found) * _RELATIVE + Decimal("1e-48")
