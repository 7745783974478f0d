"""Quick hashing: features to bins, and bins to rows. Equal to ``reference.siphash24`` and ``binning.bin_features``.

Hash r of a feature is SipHash-2-4 of its UTF-8 bytes under key r, its upper 32 bits scaled to the number of bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import ArithmeticRangeError
from secvm.learning._kernels.compiling import compiled, trailing_zeros
from secvm.learning._kernels.hashing_plain import check_values
from secvm.learning._kernels.siphash import last_block, siphash24_bytes, siphash24_short, word_at
from secvm.learning.rows import MAX_UNITS, BinnedRows

_UPPER = np.uint64(32)
_SIX_BITS = np.uint64(63)
_ONE = np.uint64(1)
_EIGHT = np.uint64(8)
_SIXTEEN = np.uint64(16)
#: Features hashed at once; their blocks stay in the first cache.
_CHUNK = 512


@compiled
def _hash(data, offsets, gap, keys, n_bins, low, high, out):
    """Bins of features ``low`` to ``high``.

    Most words have fewer than 16 bytes, one block or two. A chunk of them is cut into blocks first, and hashed by a
    loop without branches, several at once; the others, and those too near the end of the data, follow one by one.
    """
    first, second, hashes = np.empty(_CHUNK, np.uint64), np.empty(_CHUNK, np.uint64), np.empty(_CHUNK, np.uint64)
    two, others = np.empty(_CHUNK, np.bool_), np.empty(_CHUNK, np.int64)
    readable = np.uint64(len(data))
    for chunk in range(low, high, _CHUNK):
        n, n_others = min(_CHUNK, high - chunk), 0
        for t in range(n):
            start = np.uint64(offsets[chunk + t])
            length = np.uint64(offsets[chunk + t + 1] - gap) - start
            if length >= _SIXTEEN or start + _SIXTEEN > readable:
                others[n_others] = chunk + t
                n_others += 1
                continue
            word, next_word = word_at(data, start), word_at(data, start + _EIGHT)
            has_two = length >= _EIGHT
            last = last_block(next_word if has_two else word, length)
            first[t] = word if has_two else last
            second[t] = last
            two[t] = has_two
        for r in range(keys.shape[0]):
            k0, k1 = keys[r, 0], keys[r, 1]
            for t in range(n):
                hashes[t] = siphash24_short(k0, k1, first[t], second[t], two[t])
            for t in range(n):
                out[chunk + t, r] = np.int32(((hashes[t] >> _UPPER) * n_bins) >> _UPPER)
            for t in range(n_others):
                i = others[t]
                hashed = siphash24_bytes(k0, k1, data, offsets[i], offsets[i + 1] - gap)
                out[i, r] = np.int32(((hashed >> _UPPER) * n_bins) >> _UPPER)


def hash_flat(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], keys: Sequence[bytes], n_bins: int, *, gap: int = 0
) -> NDArray[np.int32]:
    """The bins, features x hashes, of features ``data[offsets[i] : offsets[i + 1] - gap]`` under 16-byte keys."""
    data, offsets = np.ascontiguousarray(data, np.uint8), np.ascontiguousarray(offsets, np.int64)
    halves = np.frombuffer(b"".join(keys), "<u8").astype(np.uint64).reshape(-1, 2)
    out = np.empty((len(offsets) - 1, len(keys)), np.int32)
    _hash(data, offsets, gap, halves, np.uint64(n_bins), 0, len(out), out)
    return out


@compiled
def _bin_rows(row_offsets, bins, values, n_bins, max_units, indptr, out_bins, out_values):
    """Sum each person's values per bin; returns the first person with too many units, or -1.

    Sorting without a sort: a bit for each bin that was met, a bit for each word of 64 bits that has one. Reading the
    bits upwards gives the bins in ascending order.
    """
    sums = np.zeros(n_bins, np.int64)
    met = np.zeros((n_bins >> 6) + 1, np.uint64)
    words = np.zeros((n_bins >> 12) + 1, np.uint64)
    at = 0
    for i in range(len(row_offsets) - 1):
        for j in range(row_offsets[i], row_offsets[i + 1]):
            # One value for all (presence) needs no array.
            value = np.int64(values[j]) if len(values) > 1 else np.int64(values[0])
            if value == 0:
                continue
            for r in range(bins.shape[1]):
                b = np.uint64(bins[j, r])
                sums[b] += value
                met[b >> np.uint64(6)] |= _ONE << (b & _SIX_BITS)
                words[b >> np.uint64(12)] |= _ONE << ((b >> np.uint64(6)) & _SIX_BITS)
        units = 0
        for w in range(len(words)):
            some = words[w]
            words[w] = 0
            while some:
                word = np.uint64(w << 6) + trailing_zeros(some)
                some &= some - _ONE
                bits = met[word]
                met[word] = 0
                while bits:
                    b = (word << np.uint64(6)) + trailing_zeros(bits)
                    bits &= bits - _ONE
                    total = sums[b]
                    sums[b] = 0
                    units += abs(total)
                    out_bins[at] = b
                    out_values[at] = total  # garbage only when there are too many units
                    at += total != 0
        if units >= max_units:
            return i
        indptr[i + 1] = at
    return -1


def bin_rows(
    row_offsets: NDArray[np.int64],
    bins: NDArray[np.int32],
    values: NDArray[np.integer[Any]] | None,
    n_bins: int,
) -> BinnedRows:
    """Many people's hashed features as rows: bins ascending, values that meet in a bin added, zeros dropped.

    Person i has features ``row_offsets[i]`` to ``row_offsets[i + 1]``. ``bins`` is features x hashes, or flat for one
    hash; ``values`` has one integer per feature, or is none where every feature counts 1.
    """
    bins = np.ascontiguousarray(bins, np.int32).reshape(len(bins), 1 if bins.ndim == 1 else bins.shape[1])
    row_offsets = np.ascontiguousarray(row_offsets, np.int64)
    if values is None or len(values) == 0:
        values = np.ones(1, np.int64)
    if values.dtype not in (np.int32, np.int64):
        values = values.astype(np.int64)
    check_values(values)
    indptr = np.zeros(len(row_offsets), np.int64)
    # One place more than needed: the loop writes before it knows whether the entry stays.
    out_bins, out_values = (np.empty(bins.size + 1, np.int32) for _ in range(2))
    if _bin_rows(row_offsets, bins, values, n_bins, MAX_UNITS, indptr, out_bins, out_values) >= 0:
        raise ArithmeticRangeError(f"a person has {MAX_UNITS} units or more; sums would no longer be exact everywhere")
    # Shrunk in place: no second copy of everybody's entries.
    out_bins.resize(int(indptr[-1]), refcheck=False)
    out_values.resize(int(indptr[-1]), refcheck=False)
    return BinnedRows(indptr=indptr, bins=out_bins, values=out_values, n_bins=n_bins)
