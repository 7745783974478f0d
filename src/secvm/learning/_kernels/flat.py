"""Features as flat bytes: one buffer of UTF-8 and the places where each feature begins. Needs no numba.

From text this goes piece by piece: the buffers of a piece stay in the caches and are used again for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import ArithmeticRangeError, BadInputError

#: Rare in text, one byte in UTF-8, and never part of another character.
_SEPARATOR = "\0"
#: Features of a piece, or a little more: whole people.
_PIECE = 2**14
#: Sums of a person's values stay exact in int64 up to 2^23 features.
MAX_VALUE = 2**40


@dataclass(frozen=True, eq=False, repr=False)
class FlatFeatures:
    """Feature i is ``data[offsets[i] : offsets[i + 1] - gap]``. Secret: it does not print itself."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    #: Bytes between two features that belong to neither.
    gap: int = 0

    def __len__(self) -> int:
        return len(self.offsets) - 1


def flatten(features: Sequence[str]) -> Iterator[FlatFeatures]:
    """The features, in pieces."""
    for start in range(0, len(features), _PIECE):
        piece = features[start : start + _PIECE]
        yield _split(_SEPARATOR.join(piece), len(piece), piece)


def row_starts(rows: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """Where each person's features begin when all are put one after the other, and where the last one's end."""
    return np.cumsum(np.fromiter(chain((0,), map(len, rows)), np.int64, len(rows) + 1))


def flatten_rows(rows: Sequence[Sequence[str]], offsets: NDArray[np.int64]) -> Iterator[FlatFeatures]:
    """The features of all people one after the other, in pieces of whole people; ``offsets`` as in ``row_starts``."""
    start = 0
    while start < len(rows):
        end = max(start + 1, int(np.searchsorted(offsets, offsets[start] + _PIECE)))
        # A person without features must not add a separator.
        people = [row for row in rows[start:end] if len(row)]
        joined = _SEPARATOR.join([_SEPARATOR.join(row) for row in people])
        yield _split(joined, int(offsets[min(end, len(rows))] - offsets[start]), chain.from_iterable(people))
        start = end


def _split(joined: str, n: int, features: Sequence[str] | Iterator[str]) -> FlatFeatures:
    """One encode and one look for the separators; if some are inside features, these are encoded singly."""
    data = np.frombuffer(_encode(joined), np.uint8)
    separators = np.flatnonzero(data == ord(_SEPARATOR))
    if n and len(separators) == n - 1:
        offsets = np.empty(n + 1, np.int64)
        offsets[0] = 0
        np.add(separators, 1, out=offsets[1:-1])
        offsets[-1] = len(data) + 1
        return FlatFeatures(data, offsets, gap=1)
    encoded = [_encode(feature) for feature in features]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return FlatFeatures(np.frombuffer(b"".join(encoded), np.uint8), offsets)


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
