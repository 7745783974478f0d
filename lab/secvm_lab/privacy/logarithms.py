"""Logarithms of factorials, binomials and tails to some forty digits, and their way back to floats, outwards.

A float's logarithm of 6.3e7! is right to seven digits after the point, and a bound multiplies such errors by the number
of bins. So everything is computed in decimals of ``DIGITS`` digits, whose ``ln`` and ``exp`` are correctly rounded, and
becomes a float only at the end, towards the side that keeps a bound true.

Sizes go up to ``MAX_SIZE``. The largest logarithm is then below 1e22, so that an absolute error of 1e-30 (``SLACK``) is
generous by many digits; ``outward`` adds it before it rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, localcontext
from enum import IntEnum
from fractions import Fraction
from functools import lru_cache

from secvm.errors import BadInputError

#: Significant digits of the computation.
DIGITS = 70
#: Largest number of features, bins or packages.
MAX_SIZE = 10**18
#: Absolute error that every logarithm of this module stays below.
SLACK = Decimal("1e-30")
#: From here on twelve terms of Stirling's series are right to 1e-59.
_STIRLING_FROM = 300
#: B_2j / (2j (2j - 1)), the coefficients of Stirling's series; the error is below the first one left out.
_STIRLING = tuple(
    Fraction(bernoulli) / (2 * j * (2 * j - 1))
    for j, bernoulli in enumerate(
        ("1/6", "-1/30", "1/42", "-1/30", "5/66", "-691/2730", "7/6", "-3617/510", "43867/798", "-174611/330",
         "854513/138", "-236364091/2730"),
        start=1,
    )
)  # fmt: skip
_TWO_PI = Decimal("6.28318530717958647692528676655900576839433879875021164194988918461563281257241799725606965068")
#: Terms of a tail that are summed one by one; what remains is bounded by a geometric series.
_MAX_TERMS = 200_000
#: A term this small against the sum no longer counts.
_NEGLIGIBLE = Decimal("1e-40")


class Side(IntEnum):
    """On which side of the true number a bound lies."""

    LOWER = -1
    UPPER = 1


@contextmanager
def many_digits() -> Iterator[None]:
    """Within this block decimals have ``DIGITS`` digits, whatever the caller has set, and do not underflow."""
    with localcontext(Context(prec=DIGITS, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX)):
        yield


def outward(value: Decimal, side: Side, slack: Decimal = SLACK) -> float:
    """The nearest float not on the wrong side of a decimal that is itself known up to ``slack``."""
    with many_digits():
        pushed = value + int(side) * slack
        found = float(pushed)
        if math.isinf(found):
            return found
        short = Decimal(found) < pushed if side is Side.UPPER else Decimal(found) > pushed
    return math.nextafter(found, int(side) * math.inf) if short else found


def as_decimal(number: Fraction | int) -> Decimal:
    """A rational in the digits of the block around."""
    return Decimal(number.numerator) / Decimal(number.denominator)


def check_size(number: int, name: str, *, at_least: int = 1) -> int:
    """The number, if it is one that these computations were made for."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise BadInputError(f"{name} must be a whole number")
    if not at_least <= number <= MAX_SIZE:
        raise BadInputError(f"{name} must lie between {at_least} and 10^18, not {number}")
    return number


@lru_cache(maxsize=4096)
def ln_factorial(x: Fraction | int) -> Decimal:
    """Logarithm of x!, which is ln Γ(x + 1), for a rational x ≥ 0."""
    with many_digits():
        if x.denominator == 1 and x < _STIRLING_FROM:
            return Decimal(math.factorial(int(x))).ln()
        point, below = as_decimal(x), Decimal(1)
        while point < _STIRLING_FROM:
            point += 1
            below *= point
        square, series, power = point * point, Decimal(0), point
        for coefficient in _STIRLING:
            series += as_decimal(coefficient) / power
            power *= square
        return (point + Decimal("0.5")) * point.ln() - point + _TWO_PI.ln() / 2 + series - below.ln()


def ln_binomial(n: int, k: int) -> Decimal:
    """Logarithm of n over k, for 0 ≤ k ≤ n."""
    with many_digits():
        return ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)


def ln_falling(n: int, j: int) -> Decimal:
    """Logarithm of n (n - 1) … (n - j + 1), for 0 ≤ j ≤ n."""
    with many_digits():
        return ln_factorial(n) - ln_factorial(n - j)


def ln_ratio_power(over: int, under: int, power: int) -> Decimal | None:
    """Logarithm of (over / under)^power; None where that is zero."""
    with many_digits():
        if over == 0:
            return Decimal(0) if power == 0 else None
        # The difference of two logarithms of nearly equal numbers loses only what DIGITS has to spare.
        return power * (Decimal(over).ln() - Decimal(under).ln())


def ln_load_range(m: int, n: int, fewest: int, most: int) -> tuple[Decimal, Decimal] | None:
    """Logarithm of P(fewest ≤ Bin(m, 1/n) ≤ most) from below and from above; None where it is zero.

    The terms are summed from the largest one outwards. Their ratios shrink on both ways, so that what is left after the
    last one is less than a geometric series.
    """
    most = min(most, m)
    if n == 1:
        return (Decimal(0), Decimal(0)) if fewest <= m <= most else None
    if fewest > most:
        return None
    peak = min(max(fewest, (m + 1) // n), most)
    with many_digits():
        stay = ln_ratio_power(n - 1, n, m - peak)
        assert stay is not None
        ln_peak = ln_binomial(m, peak) - peak * Decimal(n).ln() + stay
        down, down_rest = _sum_ratios(Decimal(peak * (n - 1)), Decimal(m - peak + 1), 1 - n, 1, peak - fewest)
        up, up_rest = _sum_ratios(Decimal(m - peak), Decimal((peak + 1) * (n - 1)), -1, n - 1, most - peak)
        total = 1 + down + up
        return ln_peak + total.ln(), min(ln_peak + (total + down_rest + up_rest).ln(), Decimal(0))


def _sum_ratios(over: Decimal, under: Decimal, over_step: int, under_step: int, count: int) -> tuple[Decimal, Decimal]:
    """Sum of products of falling ratios, the first of them over/under, and a bound on what was left out."""
    term, total = Decimal(1), Decimal(0)
    for done in range(count):
        ratio = over / under
        if ratio <= 0:
            return total, Decimal(0)
        # What is left: at most this geometric series, and at most so many terms like the last one.
        rest = term * (count - done) * min(ratio, Decimal(1))
        if ratio < 1:
            rest = min(rest, term * ratio / (1 - ratio))
            if rest < _NEGLIGIBLE * (1 + total) or done >= _MAX_TERMS:
                return total, rest
        elif done >= _MAX_TERMS:
            return total, rest
        term *= ratio
        total += term
        over += over_step
        under += under_step
    return total, Decimal(0)
