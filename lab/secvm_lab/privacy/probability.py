"""A bound on a probability, kept as a natural logarithm: 1e-427 is not zero.

Rules it keeps:

 1. A bound lies on one side of the true probability, and says which. Every operation rounds to that side, so that what
    was true before it is true after it. Two sides are never mixed.
 2. An upper bound above one is true and says nothing (``vacuous``). A printed formula that gives one is shown as it is.
 3. No NaN, no infinity but the logarithm of zero. What makes no sense is refused with one sentence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from secvm.errors import BadInputError
from secvm_lab.privacy.logarithms import SLACK, Side, as_decimal, many_digits, outward

#: Relative error, with room to spare, of one operation on decimals of seventy digits.
_RELATIVE = Decimal("1e-60")


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
    def of_ln(cls, logarithm: Decimal | None, side: Side = Side.UPPER) -> ProbabilityBound:
        """From the logarithm of a formula's value, known up to ``SLACK``; None is the logarithm of zero."""
        if logarithm is None:
            return cls(-math.inf, side)
        found = outward(logarithm, side)
        # What the slack alone has pushed above one is one.
        return cls(min(found, 0.0) if side is Side.LOWER or logarithm <= SLACK else found, side)

    # ── what can be done with them ───────────────────────────────────────────────────────────────────────────────────

    def __pow__(self, times: int) -> ProbabilityBound:
        """So many independent events of this kind, not fewer than none, all of them."""
        if times == 0:
            return ProbabilityBound(0.0, self.side)
        return self if self.ln == -math.inf else self._from_exact(Fraction(self.ln) * times)

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
