"""The words of one part of a relay's cover, a block at a time, and the clusters that the sampler makes of them.

A part takes hundreds of thousands of words, the largest hundreds of millions: they are never all in memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from secvm.learning.cover_sampler import CellLaw, draw_clusters

#: The next so many bytes of a stream.
TakeBytes = Callable[[int], bytes]
#: Cells and sizes, both int64: the i-th cluster names the i-th cell so often.
Clusters = tuple[NDArray[np.int64], NDArray[np.int64]]

_WORD_BYTES = 8
#: Words that are asked for at once.
_BLOCK = 1 << 14


class PartWords(Iterator[int]):
    """A stream as words of 64 bits, low byte first: one by one, or all that are there as an array."""

    def __init__(self, take: TakeBytes) -> None:
        self._take = take
        self.block: NDArray[np.uint64] = np.empty(0, np.uint64)
        #: The next word's place in the block.
        self.at = 0

    def more(self) -> None:
        """Another block after the words that are left."""
        fresh = np.frombuffer(self._take(_WORD_BYTES * _BLOCK), "<u8")
        self.block = np.concatenate([self.block[self.at :], fresh])
        self.at = 0

    def __next__(self) -> int:
        if self.at == len(self.block):
            self.more()
        self.at += 1
        return int(self.block[self.at - 1])


def plain_clusters(law: CellLaw, take: TakeBytes, most: int) -> Clusters | None:
    """All clusters of a part by the sampler itself; None where they are more than ``most`` packages."""
    cells, sizes, total = array("q"), array("q"), 0
    for cell, size in draw_clusters(law, PartWords(take)):
        cells.append(cell)
        sizes.append(size)
        total += size
        if total > most:
            return None
    return np.array(cells, np.int64), np.array(sizes, np.int64)
