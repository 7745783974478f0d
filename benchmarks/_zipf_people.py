"""People for benchmarks: distinct words, Zipf-like, leaning a little to their label; straight to bins. Synthetic."""

from __future__ import annotations

import numba as nb
import numpy as np
from numpy.typing import NDArray

from secvm.learning._kernels.dispatch import kernels
from secvm.learning.rows import BinnedRows

#: Twitter's: about 96 million distinct words.
VOCABULARY = 96_000_000


@nb.njit
def _draw(
    labels: NDArray[np.int64], words: int, vocabulary: int, n_bins: int, signal: float, rng: np.random.Generator
) -> NDArray[np.int32]:
    room = 1
    while room < 4 * words:
        room *= 2
    bins = np.empty((len(labels), words), np.int32)
    reach = np.log(vocabulary + 1.0)
    for i in range(len(labels)):
        seen = np.zeros(room, np.int64)
        side = 1.0 if labels[i] else -1.0
        found = 0
        while found < words:
            word = np.int64(np.exp(rng.random() * reach))
            mixed = np.uint64(word) * np.uint64(0x9E3779B97F4A7C15)
            place = np.int64(mixed >> np.uint64(40)) & (room - 1)
            while seen[place] not in (0, word):
                place = (place + 1) & (room - 1)
            if seen[place] == word:
                continue
            mixed ^= mixed >> np.uint64(29)
            mixed *= np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(32)
            lean = np.float64(mixed & np.uint64(1023)) / 1023 - 0.5
            if rng.random() < 0.5 + signal * lean * side:
                seen[place] = word
                bins[i, found] = np.int32(((mixed >> np.uint64(32)) * np.uint64(n_bins)) >> np.uint64(32))
                found += 1
    return bins


def draw(
    n_people: int, *, words: int, n_bins: int, signal: float, noise: float, seed: int
) -> tuple[BinnedRows, NDArray[np.int64]]:
    """Rows and labels; ``noise`` is the share of labels that are then flipped."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n_people)
    bins = _draw(labels, words, VOCABULARY, n_bins, signal, rng)
    offsets = np.arange(n_people + 1, dtype=np.int64) * words
    rows = kernels("fast").bin_rows(offsets, bins.ravel(), None, n_bins)
    flipped = rng.random(n_people) < noise
    return rows, np.where(flipped, 1 - labels, labels).astype(np.int64)
