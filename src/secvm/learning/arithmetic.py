"""The one arithmetic: how a ratio becomes an integer, how integers become mantissas. Everybody rounds here.

Four operations, all exact, all the same on any CPU and in any language (docs/protocol.md §3):

 1. ``to_fixed``     numerators times a rational, in units of 2^-32, rounded half to even;
 2. ``divide_fixed`` a fixed-point vector over a small integer, with a few more bits, rounded half to even;
 3. ``mantissas``    int64 or float64 to int32 times a power of two, the smallest one that fits, rounded half to even;
 4. ``ceil_ratio``   thresholds: the smallest integer not below a rational.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import ArithmeticRangeError, BadInputError

#: Fraction bits of the descent state.
FIXED_BITS = 32
#: Largest absolute value of a published mantissa.
MAX_MANTISSA = 2**31 - 1
#: State entries stay below this, so that one more addition cannot wrap.
MAX_STATE = 2**61
#: Thresholds are clipped here: scores stay below 2^53, so beyond it the verdict no longer changes.
MAX_THRESHOLD = 2**60
#: Numbers as text: a fraction or a decimal. Its length is bounded: 1e-999999999 would keep a device busy for hours.
_NUMBER = re.compile(r"[+-]?(?=[0-9.])[0-9]{0,80}(/[0-9]{1,80}|(\.[0-9]{0,80})?([eE][+-]?[0-9]{1,3})?)", re.ASCII)


def exact(number: Fraction | float | str) -> Fraction:
    """A parameter as the rational a person meant: the float 0.1 is 1/10, as its shortest decimal says."""
    if isinstance(number, Fraction):
        return number
    # float(…) first: numpy's float64 is a float with a repr of its own.
    text = repr(float(number)) if isinstance(number, float) else str(number)
    try:
        if _NUMBER.fullmatch(text):
            return Fraction(text)
    except (ValueError, ZeroDivisionError):
        pass
    raise BadInputError(f"{text[:80]} is not a number")


def _largest(values: NDArray[np.int64]) -> int:
    return max(int(values.max()), -int(values.min())) if values.size else 0


@cache
def _quick() -> Any:
    """The compiled roundings, or None where numba is not installed; both give the same integers."""
    if find_spec("numba") is None:
        return None
    from secvm.learning._kernels import rounding  # noqa: PLC0415  (late: a device has no numba)

    return rounding


def _scaled(values: NDArray[np.int64], p: int, q: int, bits: int, quick: Any) -> NDArray[np.int64]:
    """round_half_even(values * p * 2^bits / q) for |values * p| < 2^62 and 0 < q < 2^62."""
    if quick is not None and _largest(values) * p < q << 50:
        flat = np.ascontiguousarray(values).ravel()
        out = np.empty_like(flat)
        quick.scaled(flat, p, q, bits, out)
        return out.reshape(values.shape)
    products = values * p
    whole = products // q
    # Remainders by multiplying back: numpy divides by one integer quickly, and takes remainders slowly.
    remainder = products - whole * q
    return (whole << bits) + _round_remainder(remainder, q, bits)


def _round_remainder(remainder: NDArray[np.int64], divisor: int, bits: int) -> NDArray[np.int64]:
    """round_half_even(remainder * 2^bits / divisor) for 0 <= remainder < divisor < 2^62."""
    if divisor < 1 << (62 - bits):
        shifted = remainder << bits
        quotient = shifted // divisor
        remainder = shifted - quotient * divisor
    else:  # long division, bit by bit: remainder * 2^bits has no room
        quotient = np.zeros_like(remainder)
        for _ in range(bits):
            remainder = remainder << 1
            carry = remainder >= divisor
            quotient = (quotient << 1) | carry
            remainder = remainder - np.where(carry, divisor, 0)
    # Compared as 2r > divisor; r < 2^62, so the doubling cannot wrap.
    up = (2 * remainder > divisor) | ((2 * remainder == divisor) & (quotient & 1 == 1))
    return np.asarray(quotient + up, dtype=np.int64)


def to_fixed(numerators: NDArray[np.int64], scale: Fraction) -> NDArray[np.int64]:
    """round_half_even(2^32 * numerators * scale), elementwise and exact."""
    p, q = scale.numerator, scale.denominator
    largest = _largest(numerators) * p
    if (largest << FIXED_BITS) // q >= MAX_STATE:
        msg = "a step would leave the range of the state"
        raise ArithmeticRangeError(msg)
    if numerators.dtype == np.int64 and largest < 1 << 62 and p < 1 << 62 and q < 1 << 62:
        return _scaled(numerators, p, q, FIXED_BITS, _quick())
    # Rare: class weights with long denominators. Python's integers have no range to leave.
    rounded = [round(Fraction((int(n) * p) << FIXED_BITS, q)) for n in numerators.ravel()]
    return np.array(rounded, dtype=np.int64).reshape(numerators.shape)


def divide_fixed(values: NDArray[np.int64], divisor: int, *, extra_bits: int) -> NDArray[np.int64]:
    """round_half_even(values * 2^extra_bits / divisor), elementwise and exact; |values| < 2^62, extra_bits >= 1."""
    assert extra_bits >= 1  # else a tie would have to look at the whole part to find the even neighbour
    if (_largest(values) << extra_bits) // divisor >= MAX_STATE:
        msg = "an average would leave the range of the state"
        raise ArithmeticRangeError(msg)
    return _scaled(values, 1, divisor, extra_bits, _quick())


def shift_right_half_even(values: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """round_half_even(values / 2^bits); bits below 63."""
    if bits == 0:
        return values
    quick = _quick()
    if quick is not None:
        flat = np.ascontiguousarray(values).ravel()
        out = np.empty_like(flat)
        quick.shifted_right(flat, bits, out)
        return out.reshape(values.shape)
    whole = values >> bits
    rest = values - (whole << bits)
    half = 1 << (bits - 1)
    return np.asarray(whole + ((rest > half) | ((rest == half) & (whole & 1 == 1))), dtype=np.int64)


def mantissas(values: NDArray[Any]) -> tuple[NDArray[np.int32], int]:
    """(M, e) with M = round_half_even(values * 2^-e) in int32 and the smallest e that fits all of them.

    ``values`` are int64 or float64. Integers keep e >= 0; floats may take a negative e and so use all 31 bits. All
    zeros give e = 0.
    """
    if values.dtype == np.float64:
        return _float_mantissas(values)
    e = max(0, _largest(values).bit_length() - 31)
    shifted = shift_right_half_even(values, e)
    if _largest(shifted) > MAX_MANTISSA:  # rounding up reached 2^31
        e += 1
        shifted = shift_right_half_even(values, e)
    return shifted.astype(np.int32), e


def _float_mantissas(values: NDArray[Any]) -> tuple[NDArray[np.int32], int]:
    largest = float(np.abs(values).max()) if values.size else 0.0
    if not np.isfinite(largest):
        msg = "a weight is not a finite number"
        raise ArithmeticRangeError(msg)
    if largest == 0.0:
        return np.zeros(values.shape, dtype=np.int32), 0
    # largest = m * 2^exponent with m in [1/2, 1); scaling by powers of two is exact, and rint rounds half to even.
    e = int(np.frexp(largest)[1]) - 31
    if not -900 < e < 900:  # scaling stays far from subnormals
        msg = "a weight is too large or too small to be published"
        raise ArithmeticRangeError(msg)
    rounded = np.rint(np.ldexp(values, -e))
    if float(np.abs(rounded).max()) > MAX_MANTISSA:
        e += 1
        rounded = np.rint(np.ldexp(values, -e))
    return rounded.astype(np.int32), e


def power_of_two(exponent: int) -> Fraction:
    """2^exponent as a rational."""
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def clip_threshold(threshold: int) -> int:
    """A threshold inside the range in which it can decide anything."""
    return max(-MAX_THRESHOLD, min(MAX_THRESHOLD, threshold))


def ceil_ratio(numerator: int, denominator: int) -> int:
    """The smallest integer not below numerator / denominator (denominator > 0)."""
    return -(-numerator // denominator)


def sum_in_order(values: NDArray[np.float64]) -> float:
    """The sum from left to right. ``np.sum`` adds in an order that depends on the CPU; ``accumulate`` may not."""
    return float(np.add.accumulate(values)[-1]) if values.size else 0.0


def common_integers(weights: Iterable[Fraction]) -> tuple[int, ...]:
    """Rationals as the smallest integers in the same proportion."""
    listed = list(weights)
    denominator = math.lcm(*(w.denominator for w in listed))
    integers = [int(w * denominator) for w in listed]
    divisor = math.gcd(*integers) or 1
    return tuple(i // divisor for i in integers)
