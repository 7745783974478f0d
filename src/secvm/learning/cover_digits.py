"""The first base-2^64 digits of all that the cover's sampler compares words with: what a quick twin needs of a law.

``cover_sampler`` is the sampler, and the specification. It compares words with the digits of rationals, for as
long as they are equal. A word equals a first digit with chance 2^-64; who has only first digits knows every outcome but
those, and hands the rest back. Exact integers throughout, as there.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import factorial

_BITS = 64
#: A run of ones in one word is shorter than this, or the word is handed back.
_RUNS = 64
#: Sizes are looked up as long as p^i is above 2^-4; beyond, a geometric law starts anew.
_TABLE_BITS = 4


@dataclass(frozen=True, slots=True)
class CoverDigits:
    """One law of cover, as first digits. A chance of one takes no word and has no digit."""

    #: Poisson(1) so many times, and each of their points stays with a chance.
    units: int
    stay: int | None
    #: For a proposal of k = 0, 1, …: the chance 2^(k-1) / k! to be accepted.
    accept: tuple[int | None, ...]
    #: p^n … p^1, ascending.
    powers: tuple[int, ...]


def first_digits(*, mean: Fraction, p: Fraction) -> CoverDigits:
    """The digits of so many packages on average, in clusters of geometric sizes."""
    units = -(-mean.numerator // mean.denominator)
    return CoverDigits(
        units=units,
        stay=_digit(mean.numerator, mean.denominator * units),
        accept=tuple(_digit(1 << k, 2 * factorial(k)) for k in range(_RUNS)),
        powers=power_digits(p),
    )


def _digit(numerator: int, denominator: int) -> int | None:
    return None if numerator >= denominator else (numerator << _BITS) // denominator


@lru_cache(maxsize=16)
def power_digits(p: Fraction) -> tuple[int, ...]:
    """The first base-2^64 digits of p^n … p^1, ascending. Odds within bounds keep them all apart."""
    a, b = p.numerator, p.denominator
    digits: list[int] = []
    # p^i in units of 2^-192, rounded down i times: it may be less than the truth by up to i.
    power = (a << 3 * _BITS) // b
    while not digits or power >> 3 * _BITS - _TABLE_BITS:
        i = len(digits) + 1
        digit = power >> 2 * _BITS
        if (power + i) >> 2 * _BITS != digit:
            digit = (a**i << _BITS) // b**i
        digits.append(digit)
        power = power * a // b
    return tuple(digits[::-1])
