"""The hash that everybody knows, for many words at once: ``HashBinning.bins_of`` of words of eight bytes.

An attacker who looks for a salt hashes a dictionary thousands of times; one word after the other would take hours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from secvm.learning._kernels.vectorised import siphash24_words
from secvm.learning.individual.binning import HashBinning

#: Words of the lab have so many bytes.
WORD_BYTES = 8


def draw_words(dice: np.random.Generator, count: int) -> tuple[str, ...]:
    """Different words of eight letters."""
    letters = dice.permuted(np.tile(np.arange(97, 123, dtype=np.uint8), (2 * count, 1)), axis=1)[:, :WORD_BYTES]
    different = dict.fromkeys(bytes(row).decode() for row in letters)
    return tuple(different)[:count]


def bins_of_words(words: Sequence[str], *, salt: bytes, bins: int) -> NDArray[np.int64]:
    """The bin of each word under one hash with this salt."""
    joined = "".join(words).encode()
    keys = np.frombuffer(HashBinning(bins, salt).keys[0], dtype="<u8").astype(np.uint64)
    hashed = siphash24_words(np.tile(keys, (len(words), 1)), np.frombuffer(joined, dtype="<u8").astype(np.uint64))
    return ((hashed >> np.uint64(32)) * np.uint64(bins) >> np.uint64(32)).astype(np.int64)
