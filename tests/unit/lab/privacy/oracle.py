"""Somebody else's numbers: plain fractions, and decimals of four hundred digits."""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction

from secvm_lab.privacy.logarithms import Side
from secvm_lab.privacy.probability import ProbabilityBound


@contextmanager
def many_more_digits() -> Iterator[None]:
    # 1 - 1e-300 must still be told apart from one.
    with localcontext(Context(prec=400, Emin=MIN_EMIN, Emax=MAX_EMAX)):
        yield


def ln(number: Fraction) -> Decimal:
    with many_more_digits():
        return (Decimal(number.numerator) / Decimal(number.denominator)).ln()


def exp(logarithm: float) -> Decimal:
    with many_more_digits():
        return Decimal(logarithm).exp()


def off_by(bound: ProbabilityBound, true_ln: Decimal) -> Decimal:
    """How far the bound lies on its own side; negative where it is false."""
    with many_more_digits():
        return (Decimal(bound.ln) - true_ln) * int(bound.side)


def holds(bound: ProbabilityBound, truth: Fraction) -> bool:
    """Whether the bound is true of a probability."""
    if truth == 0:
        return bound.side is Side.UPPER or bound.ln == float("-inf")
    if bound.ln == float("-inf"):
        return bound.side is Side.LOWER
    return off_by(bound, ln(truth)) >= 0
