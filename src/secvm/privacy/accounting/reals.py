"""Exponentials, logarithms, sums and transforms of which every machine and every language finds the same double.

A statement about a person and the ledger of a device must not depend on who computes them. ε is the end of a search and
the AUC an area, so a last bit more or less can show, and the exponential of a C library, that of numpy's vectors and
that of a browser differ in the last bit; a sum and a Fourier transform depend on their order. Here is nothing but sums,
differences, products, quotients, square roots and powers of two, which IEEE 754 rounds correctly, in one written order.
Functions are wrong by two units of the last place at most, sums and transforms by a few for each halving: the
accountant's margins are far more. ``extension/src/privacy/accounting/reals.ts`` takes the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol, overload

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: ln 2 as a number of 33 bits, whose products with exponents are exact, and the rest.
_LN_2, _LN_2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_PER_LN_2 = 1.4426950408889634
_HALF = 0.70710678118654752
#: 1/n!, and 1/(2n + 1).
_INVERSE_FACTORIALS = tuple(1.0 / math.factorial(n) for n in range(19))
_INVERSE_ODD = tuple(1.0 / (2 * n + 1) for n in range(12))
#: So many are added up from left to right.
_FEW = 512
#: Beyond, a double is 0.
_NOTHING = -800.0
_TWO_PI, _HALF_LN_TWO_PI, _TWO_PER_ROOT_PI = 6.283185307179586, 0.9189385332046727, 1.1283791670955126
#: From here on Stirling's series is good to 1e-14 of 1.
_STIRLING = 16.0
_STIRLING_TERMS = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


class _Function(Protocol):
    @overload
    def __call__(self, x: float, /) -> float: ...
    @overload
    def __call__(self, x: Floats, /) -> Floats: ...


def _of_one_or_many(function: Callable[[Floats], Floats]) -> _Function:
    def either(x: float | Floats, /) -> float | Floats:
        return function(x) if isinstance(x, np.ndarray) else float(function(np.array([x], dtype=np.float64))[0])

    return either  # type: ignore[return-value]


def _series(x: Floats, coefficients: tuple[float, ...]) -> Floats:
    """Σ c x^n, the last coefficient first."""
    value: Floats = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value *= x
        value += coefficient
    return value


@_of_one_or_many
def exp(x: Floats) -> Floats:
    """e^x, for x up to 700."""
    x = np.maximum(x, _NOTHING)
    doublings = np.rint(x * _PER_LN_2)
    rest = x - doublings * _LN_2 - doublings * _LN_2_REST
    return np.ldexp(_series(rest, _INVERSE_FACTORIALS[:14]), doublings.astype(np.int32))


@_of_one_or_many
def expm1(x: Floats) -> Floats:
    """e^x - 1, with no digits lost near 0."""
    near = np.clip(x, -0.5, 0.5)
    small = near + near * near * _series(near, _INVERSE_FACTORIALS[2:17])
    return np.where(np.abs(x) <= 0.5, small, exp(x) - 1.0)


@_of_one_or_many
def log(x: Floats) -> Floats:
    """The natural logarithm of numbers above 0."""
    if x.size and not x.min() > 0:
        raise ValueError("only numbers above 0 have a logarithm")
    significand, exponents = np.frexp(x)
    low = significand < _HALF
    significand = np.where(low, 2.0 * significand, significand)
    doublings = exponents - low.astype(np.float64)
    return doublings * _LN_2 + (_twice_artanh((significand - 1.0) / (significand + 1.0)) + doublings * _LN_2_REST)


@_of_one_or_many
def log1p(x: Floats) -> Floats:
    """Ln (1 + x) for x above -1, with no digits lost near 0."""
    near = np.clip(x, -0.25, 0.4)
    return np.where(near == x, _twice_artanh(near / (2.0 + near)), log(1.0 + x))


def _twice_artanh(x: Floats) -> Floats:
    # ln ((1 + x) / (1 - x)), for |x| up to 0.172.
    square = x * x
    return 2.0 * x + 2.0 * x * square * _series(square, _INVERSE_ODD[1:])


def log_gamma(x: float) -> float:
    """Ln Γ(x) for x above 0, good to 1e-13 of the larger of 1 and itself."""
    product = 1.0
    while x < _STIRLING:
        product *= x
        x += 1.0
    power, series = 1.0 / x, 0.0
    for term in _STIRLING_TERMS:
        series += term * power
        power = power / x / x
    return (x - 0.5) * log(x) - x + _HALF_LN_TWO_PI + series - log(product)


def erf(x: float) -> float:
    """The error function of a number that is not negative."""
    if x > 6.0:
        return 1.0
    total, term, odd = x, x, 1.0
    while term > 1e-17 * total:
        odd += 2.0
        term *= 2.0 * x * x / odd
        total += term
    return min(1.0, _TWO_PER_ROOT_PI * exp(-x * x) * total)


def total(values: Floats) -> float:
    """The sum: while there are many, the second half is added to the first, and then from left to right."""
    while len(values) > _FEW:
        half = 1 << (len(values) - 1).bit_length() - 1
        folded = values[:half].copy()
        folded[: len(values) - half] += values[half:]
        values = folded
    return float(np.cumsum(values)[-1]) if len(values) else 0.0


def dot(a: Floats, b: Floats) -> float:
    """Σ a b."""
    return total(a * b)


@lru_cache(maxsize=32)
def _circle(size: int) -> tuple[Floats, Floats]:
    """Cosine and sine of the first half of so many equal parts of a turn."""
    if size < 8:
        quarters = {2: ([1.0], [0.0]), 4: ([1.0, 0.0], [0.0, 1.0])}[size]
        return np.array(quarters[0]), np.array(quarters[1])
    angles = np.arange(size // 8 + 1) / size * _TWO_PI
    square = -angles * angles
    cosine, sine = _series(square, _INVERSE_FACTORIALS[0::2]), angles * _series(square, _INVERSE_FACTORIALS[1::2])
    quarter = np.concatenate([cosine, sine[-2:0:-1]])
    falling = np.concatenate([sine, cosine[-2:0:-1]])
    return np.concatenate([quarter, -falling]), np.concatenate([falling, quarter])


def hartley(values: Floats) -> Floats:
    """Σ v[j] (cos + sin)(2π j k / n) for all k, of n = 2^m values; twice it is n times the values.

    Transforms of every second value make those of all. Column j of a table holds that of values j, j + columns, …; once
    there are more rows than columns they change places, so that the loops within stay long.
    """
    size, rows = len(values), 1
    table: Floats = values.reshape(1, size)
    while rows < size:
        cosine, sine = _circle(2 * rows)
        columns, wide = size // rows // 2, rows * rows <= size
        if not wide and rows * rows <= 4 * size:
            table = np.ascontiguousarray(table.T)
        axis = 0 if wide else 1
        even, odd = (table[:, :columns], table[:, columns:]) if wide else (table[:columns], table[columns:])
        mirrored = np.roll(np.flip(odd, axis), 1, axis)
        shape = (-1, 1) if wide else (1, -1)
        turned = cosine.reshape(shape) * odd + sine.reshape(shape) * mirrored
        table = np.concatenate([even + turned, even - turned], axis=axis)
        rows *= 2
    return table.reshape(size)
