"""Hashing for a machine without numba, a person's device above all: SipHash-2-4 over numpy columns.

Same functions and same bins as ``hashing``, some twenty times slower.

Both take features as flat bytes: one buffer of UTF-8 and the places where each feature begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import ArithmeticRangeError, BadInputError
from secvm.learning._kernels.vectorised import siphash24_blocks
from secvm.learning.rows import MAX_UNITS, BinnedRows

#: Rare in text, one byte in UTF-8, and never part of another character.
_SEPARATOR = "\0"
#: Sums of a person's values stay exact in int64 up to 2^23 features.
MAX_VALUE = 2**40


#: Bytes of features, where each begins and, past the last, where one more would; and the bytes between two of them.
Flat = tuple[NDArray[np.uint8], NDArray[np.int64], int]


def flatten(features: Sequence[str]) -> Flat:
    """One encode and one look for the separators; if some are inside features, these are encoded singly."""
    n, data = len(features), np.frombuffer(_encode(_SEPARATOR.join(features)), np.uint8)
    separators = np.flatnonzero(data == ord(_SEPARATOR))
    if n and len(separators) == n - 1:
        return data, np.concatenate([[0], separators + 1, [len(data) + 1]]), 1
    encoded = [_encode(feature) for feature in features]
    return np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([0, *map(len, encoded)], dtype=np.int64), 0


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadInputError(
            "a feature is not valid text: it has half of a surrogate pair, which UTF-8 cannot express"
        ) from None  # the original error would print the feature


def check_values(values: NDArray[np.integer[Any]]) -> None:
    """Refuse values so large that their sums might not be exact."""
    if len(values) and max(abs(int(values.min())), abs(int(values.max()))) > MAX_VALUE:
        raise ArithmeticRangeError(f"a value is beyond {MAX_VALUE}; sums would no longer be exact everywhere")


#: Features hashed at once: their four state columns stay in the second cache.
_CHUNK = 8192


def hash_flat(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], keys: Sequence[bytes], n_bins: int, *, gap: int = 0
) -> NDArray[np.int32]:
    """The bins, features x hashes, of features ``data[offsets[i] : offsets[i + 1] - gap]`` under 16-byte keys."""
    out = np.empty((len(offsets) - 1, len(keys)), np.int32)
    offsets = np.asarray(offsets, np.int64)
    starts = offsets[:-1]
    lengths = offsets[1:] - gap - starts
    n_blocks = lengths // 8 + 1
    order = np.argsort(n_blocks, kind="stable")
    edges = np.flatnonzero(np.diff(n_blocks[order], prepend=0, append=-1))
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        width = int(n_blocks[order[low]]) * 8
        step = max(1, _CHUNK * 8 // width)
        for first in range(low, high, step):
            chosen = order[first : min(first + step, high)]
            places = np.arange(width)
            inside = places < lengths[chosen, None]
            message = np.zeros((len(chosen), width), np.uint8)
            message[inside] = data[(starts[chosen, None] + places)[inside]]
            message[:, -1] = lengths[chosen] & 0xFF
            blocks = message.view("<u8").astype(np.uint64)
            for r, key in enumerate(keys):
                k0, k1 = (np.full(len(chosen), half, np.uint64) for half in np.frombuffer(key, "<u8"))
                upper = siphash24_blocks(k0, k1, blocks.T) >> np.uint64(32)
                out[chosen, r] = (upper * np.uint64(n_bins)) >> np.uint64(32)
    return out


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
    bins = np.asarray(bins, np.int32).reshape(len(bins), 1 if bins.ndim == 1 else bins.shape[1])
    counted = np.ones(len(bins), np.int64) if values is None else values.astype(np.int64)
    check_values(counted)
    n = len(row_offsets) - 1
    some = slice(row_offsets[0], row_offsets[-1])
    owners = np.repeat(np.arange(n), np.diff(row_offsets) * bins.shape[1])
    places, where = np.unique(owners * n_bins + bins[some].ravel(), return_inverse=True)
    totals, units = np.zeros(len(places), np.int64), np.zeros(n, np.int64)
    np.add.at(totals, where, np.repeat(counted[some], bins.shape[1]))
    np.add.at(units, places // n_bins, np.abs(totals))
    if units.max(initial=0) >= MAX_UNITS:
        raise ArithmeticRangeError(f"a person has {MAX_UNITS} units or more; sums would no longer be exact everywhere")
    places, totals = places[totals != 0], totals[totals != 0]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(places // n_bins, minlength=n))]).astype(np.int64)
    return BinnedRows(indptr, (places % n_bins).astype(np.int32), totals.astype(np.int32), n_bins)
