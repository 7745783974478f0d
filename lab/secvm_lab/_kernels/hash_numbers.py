"""Hashing of features that are numbers, as the indices of an svmlight file: of their decimal strings, unwritten.

Equal to ``Kernels.hash_strings`` of the same numbers as text. A number below 2^31 has at most ten digits, one block of
SipHash or two, and its digits come out of a few multiplications without a branch: eight numbers at once on a CPU whose
vectors are that long.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numba as nb
import numpy as np
from numpy.typing import NDArray

from secvm.learning._kernels.compiling import compiled
from secvm.learning._kernels.siphash import siphash24_short

#: Numbers hashed at once; their blocks stay in the first cache.
_CHUNK = 512
_U = np.uint64
_EIGHT_DIGITS = _U(100_000_000)
_FOUR_DIGITS = _U(10_000)
_ZEROS = _U(0x3030303030303030)


@nb.njit(inline="always")
def _eight_digits(number):
    """The eight decimal digits of a number below 10^8 as bytes, the first digit lowest: halves, quarters, digits."""
    upper = number // _FOUR_DIGITS
    halves = upper | ((number - upper * _FOUR_DIGITS) << _U(32))
    tens = ((halves * _U(10486)) >> _U(20)) & _U(0x7F0000007F)
    pairs = tens | ((halves - tens * _U(100)) << _U(16))
    tens = ((pairs * _U(103)) >> _U(10)) & _U(0x000F000F000F000F)
    return tens | ((pairs - tens * _U(10)) << _U(8))


@nb.njit(inline="always")
def _blocks(number):
    """The blocks of a number's decimal string: the first, the second, and whether there is a second."""
    upper = number // _EIGHT_DIGITS
    tens = (upper * _U(103)) >> _U(10)
    rest = _eight_digits(number - upper * _EIGHT_DIGITS) + _ZEROS
    # Ten digits with leading zeros, in eight bytes and two.
    low = (tens | ((upper - tens * _U(10)) << _U(8))) + _U(0x3030) | (rest << _U(16))
    high = rest >> _U(48)
    power, digits = _U(10), _U(1)
    for _ in range(9):
        digits += _U(number >= power)
        power *= _U(10)
    drop = (_U(10) - digits) << _U(3)
    # Two shifts to the left: one by 64 means nothing. One digit or two are all in the upper bytes.
    short = digits <= _U(2)
    shift = drop - _U(64) if short else drop
    first = high >> shift if short else (low >> shift) | ((high << _U(1)) << (_U(63) - shift))
    two = digits >= _U(8)
    second = (high >> drop if digits > _U(8) else _U(0)) | (digits << _U(56))
    return (first if two else first | (digits << _U(56))), second, two


@compiled
def _hash(numbers, keys, n_bins, low, high, out):
    first, second, hashes = np.empty(_CHUNK, np.uint64), np.empty(_CHUNK, np.uint64), np.empty(_CHUNK, np.uint64)
    two = np.empty(_CHUNK, np.bool_)
    for chunk in range(low, high, _CHUNK):
        n = min(_CHUNK, high - chunk)
        for t in range(n):
            first[t], second[t], two[t] = _blocks(np.uint64(numbers[chunk + t]))
        for r in range(keys.shape[0]):
            k0, k1 = keys[r, 0], keys[r, 1]
            for t in range(n):
                hashes[t] = siphash24_short(k0, k1, first[t], second[t], two[t])
            for t in range(n):
                out[chunk + t, r] = np.int32(((hashes[t] >> _U(32)) * n_bins) >> _U(32))


def hash_numbers(
    numbers: NDArray[np.int32], keys: Sequence[bytes], n_bins: int, *, threads: int = 1
) -> NDArray[np.int32]:
    """The bins, numbers x hashes, of numbers from 0 on as decimal strings under 16-byte keys."""
    halves = np.frombuffer(b"".join(keys), "<u8").astype(np.uint64).reshape(-1, 2)
    out = np.empty((len(numbers), len(keys)), np.int32)
    edges = np.linspace(0, len(numbers), max(threads, 1) + 1).astype(np.int64).tolist()

    def work(low: int, high: int) -> None:
        _hash(numbers, halves, np.uint64(n_bins), low, high, out)

    if threads <= 1:
        work(0, len(numbers))
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, edges[:-1], edges[1:]))
    return out
