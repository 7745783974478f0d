"""The layout the quick kernels read: two bytes for a non-zero, in blocks that fit the first caches.

1. Bins are renumbered by how many people have them, most first, and cut into blocks: 4,096 bins, then 8,192 each,
   wider where people have few entries. People are cut into blocks of 1,024.
2. Within a block of people and a block of bins each person has a segment: the local numbers of its bins, as uint16. A
   value of 2 or 3 is its bin said two or three times, so that there are no values to read.
3. Segments are filled up to whole groups of four with the block's dummy bin, whose weight is 0 and whose count nobody
   reads; a group is one 64-bit load.
4. What does not fit that form is *cold*: values below 1 or above 3, and bins so rare that a segment would hold next to
   nothing. Cold entries are (slot, value) pairs, person after person.

A *slot* is a place in the renumbered weights: the bins of block 0, its dummy, the bins of block 1, its dummy, ...,
then the bins without a block.

``share_out`` lets threads take pieces of work one by one. What a piece writes is its own, so their number never shows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.learning._kernels.compiling import compiled
from secvm.learning.rows import BinnedRows

#: People in a block: their int64 sums under 16 models (128 KiB) stay in the second cache.
PEOPLE = 1024
#: Bins of the first block: int32 weights take half of a first cache of 32 KiB.
FIRST_WIDTH = 4096
#: Bins of the others: they are rarer, so longer segments are worth more than the nearer cache.
WIDTH = 8192
#: A local number is below 2^16 - 2, the dummy's below 2^16 - 1: no group of four is all ones.
MAX_WIDTH = 2**16 - 2
#: A block grows until people have this many entries in it on average: a segment costs a mispredicted branch.
LONG_SEGMENT = 24
#: Below this average, at the greatest width, bins stay without a block.
SHORT_SEGMENT = 6
#: Three repeats take 6 bytes, a cold entry takes 8.
MAX_REPEAT = 3
#: The code of a bin without a block.
_NO_BLOCK = np.uint32(2**32 - 1)


@dataclass(frozen=True, eq=False, repr=False)
class PreparedRows:
    """Binned rows in the blocked layout. Secret: it does not print itself."""

    n_people: int
    n_bins: int
    #: int32, the slot of each bin.
    slots: NDArray[np.int32]
    #: int32, the bin of each slot; -1 for a dummy.
    bin_of_slot: NDArray[np.int32]
    #: int64, first slot of each block, and one past the last block's dummy.
    first_slots: NDArray[np.int64]
    #: uint64, groups of four local numbers; block of people by block of people, then block of bins, then person.
    groups: NDArray[np.uint64]
    #: uint16, groups of each segment: people's blocks x bins' blocks x people of the block.
    group_counts: NDArray[np.uint16]
    #: int64, first group of each pair of blocks.
    starts: NDArray[np.int64]
    #: The cold entries, as CSR over slots.
    cold_indptr: NDArray[np.int64]
    cold_slots: NDArray[np.int32]
    cold_values: NDArray[np.int32]

    def __repr__(self) -> str:
        return f"PreparedRows(<{self.n_people} people>, n_bins={self.n_bins})"

    @property
    def n_slots(self) -> int:
        return len(self.bin_of_slot)

    @property
    def nbytes(self) -> int:
        """All that the layout stores."""
        return self.entry_bytes + self.slots.nbytes + self.bin_of_slot.nbytes + self.first_slots.nbytes

    @property
    def entry_bytes(self) -> int:
        """What it stores because of entries: everything but the renumbering of the bins."""
        blocked = self.groups.nbytes + self.group_counts.nbytes + self.starts.nbytes
        return blocked + self.cold_indptr.nbytes + self.cold_slots.nbytes + self.cold_values.nbytes


@compiled
def _count_entries(bins, values, frequencies):
    """Entries of each bin that may go into a block."""
    for j in range(len(bins)):
        frequencies[bins[j]] += 0 < values[j] <= MAX_REPEAT


@compiled
def _count_segments(indptr, bins, values, codes, group_counts, cold_indptr):
    """Groups of each segment, and cold entries up to each person."""
    units = np.zeros(group_counts.shape[1], np.int64)
    cold = 0
    for i in range(len(indptr) - 1):
        units[:] = 0
        for j in range(indptr[i], indptr[i + 1]):
            code = codes[bins[j]]
            if code == _NO_BLOCK or not 0 < values[j] <= MAX_REPEAT:
                cold += 1
            else:
                units[code >> np.uint32(16)] += values[j]
        for block in range(len(units)):
            group_counts[i // PEOPLE, block, i % PEOPLE] = (units[block] + 3) >> 2
        cold_indptr[i + 1] = cold


@compiled
def _fill(indptr, bins, values, codes, slots, widths, starts, locals_, cold_slots, cold_values):
    """Write the segments, each filled up to a multiple of four with its block's dummy, and the cold entries."""
    cursors = np.zeros(len(widths), np.int64)
    cold = 0
    for i in range(len(indptr) - 1):
        if i % PEOPLE == 0:
            # A loop: an assignment of slices compiles a second longer, for the sentence it would say of unequal shapes.
            for block in range(len(widths)):
                cursors[block] = 4 * starts[i // PEOPLE, block]
        for j in range(indptr[i], indptr[i + 1]):
            code = codes[bins[j]]
            if code == _NO_BLOCK or not 0 < values[j] <= MAX_REPEAT:
                cold_slots[cold] = slots[bins[j]]
                cold_values[cold] = values[j]
                cold += 1
            else:
                block = code >> np.uint32(16)
                for _ in range(values[j]):
                    locals_[cursors[block]] = code & np.uint32(0xFFFF)
                    cursors[block] += 1
        for block in range(len(widths)):
            while cursors[block] & 3:
                locals_[cursors[block]] = widths[block]
                cursors[block] += 1


def _block_widths(sorted_frequencies: NDArray[np.int64], n_people: int) -> list[int]:
    """Widths of the blocks, from the bins' frequencies in descending order."""
    entries = np.concatenate([[0], np.cumsum(sorted_frequencies)])
    widths: list[int] = []
    n_bins, start = len(sorted_frequencies), 0
    while start < n_bins and entries[start] < entries[-1]:
        width = WIDTH if widths else FIRST_WIDTH
        while True:
            end = min(start + width, n_bins)
            segment = (entries[end] - entries[start]) / n_people
            if segment >= LONG_SEGMENT or width == MAX_WIDTH or end == n_bins:
                break
            width = min(2 * width, MAX_WIDTH)
        # One block is always worth it: it replaces the cold list, rather than standing beside it.
        if widths and segment < SHORT_SEGMENT:
            break
        widths.append(end - start)
        start = end
    return widths


@dataclass(frozen=True, eq=False)
class BinOrder:
    """Which bins share a block, and where every bin has its slot. Any order is right; a good one is quick."""

    slots: NDArray[np.int32]
    bin_of_slot: NDArray[np.int32]
    first_slots: NDArray[np.int64]
    #: int64, bins of each block.
    widths: NDArray[np.int64]
    #: uint32, block and local number of each bin.
    codes: NDArray[np.uint32]


def order_bins(frequencies: NDArray[np.int64], n_people: int) -> BinOrder:
    """The order for rows in which so many people have these numbers of entries per bin."""
    n_bins = len(frequencies)
    order = np.argsort(-frequencies, kind="stable").astype(np.int32)
    widths = np.asarray(_block_widths(frequencies[order], n_people), np.int64)
    first_ranks = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    first_slots = first_ranks + np.arange(len(first_ranks))
    bin_of_slot = np.full(n_bins + len(widths), -1, np.int32)
    codes = np.full(n_bins, _NO_BLOCK, np.uint32)
    for block, width in enumerate(widths.tolist()):
        # Ascending within a block: the order there is free, and going to and from bins then stays near in memory.
        members = np.sort(order[first_ranks[block] : first_ranks[block + 1]])
        bin_of_slot[first_slots[block] : first_slots[block] + width] = members
        codes[members] = (block << 16) + np.arange(width, dtype=np.uint32)
    bin_of_slot[first_slots[-1] :] = order[first_ranks[-1] :]
    slots = np.empty(n_bins, np.int32)
    real = np.flatnonzero(bin_of_slot >= 0)
    slots[bin_of_slot[real]] = real
    return BinOrder(slots=slots, bin_of_slot=bin_of_slot, first_slots=first_slots, widths=widths, codes=codes)


def count_bins(rows: BinnedRows) -> NDArray[np.int64]:
    """Entries of each bin that may go into a block: what ``order_bins`` wants to know."""
    frequencies = np.zeros(rows.n_bins, np.int64)
    _count_entries(rows.bins, rows.values, frequencies)
    return frequencies


class Segments:
    """The segments that some people will have in an order; ``fill`` writes them."""

    def __init__(self, order: BinOrder, rows: BinnedRows) -> None:
        """Count them."""
        self._order = order
        self._indptr = np.ascontiguousarray(rows.indptr, np.int64)
        self._bins = np.ascontiguousarray(rows.bins, np.int32)
        self._values = np.ascontiguousarray(rows.values, np.int32)
        self.group_counts = np.zeros((-(-len(rows) // PEOPLE), len(order.widths), PEOPLE), np.uint16)
        self.cold_indptr = np.zeros(len(rows) + 1, np.int64)
        _count_segments(self._indptr, self._bins, self._values, order.codes, self.group_counts, self.cold_indptr)
        in_pair = self.group_counts.sum(axis=2, dtype=np.int64)
        #: First group of each pair of blocks, from these people's first.
        self.starts = (np.cumsum(in_pair) - in_pair.ravel()).reshape(in_pair.shape)
        self.n_groups = int(in_pair.sum())
        self.n_cold = int(self.cold_indptr[-1])

    def fill(self, groups: NDArray[np.uint64], cold_slots: NDArray[np.int32], cold_values: NDArray[np.int32]) -> None:
        """Write the groups and the cold entries."""
        order, locals_ = self._order, groups.view(np.uint16)
        rows = (self._indptr, self._bins, self._values)
        _fill(*rows, order.codes, order.slots, order.widths, self.starts, locals_, cold_slots, cold_values)


def prepare(rows: BinnedRows) -> PreparedRows:
    """Lay the rows out for many passes; about as long as a few passes, in little more memory than the result."""
    order = order_bins(count_bins(rows), len(rows))
    segments = Segments(order, rows)
    groups = np.empty(segments.n_groups, np.uint64)
    cold_slots, cold_values = np.empty(segments.n_cold, np.int32), np.empty(segments.n_cold, np.int32)
    segments.fill(groups, cold_slots, cold_values)
    return PreparedRows(
        n_people=len(rows),
        n_bins=rows.n_bins,
        slots=order.slots,
        bin_of_slot=order.bin_of_slot,
        first_slots=order.first_slots,
        groups=groups,
        group_counts=segments.group_counts,
        starts=segments.starts,
        cold_indptr=segments.cold_indptr,
        cold_slots=cold_slots,
        cold_values=cold_values,
    )


#: Pieces of work per thread when the pieces can be chosen: a slow thread then holds up the rest less.
PIECES_PER_THREAD = 4


def share_out(
    pieces: Iterable[Any],
    work: Callable[[Iterable[Any]], None],
    threads: int,
    pool: ThreadPoolExecutor | None = None,
) -> None:
    """Let ``threads`` workers take pieces from one iterator until none is left.

    Who shares out often brings a pool of as many threads; else they are started and ended here.
    """
    if threads <= 1:
        work(pieces)
        return
    lock, iterator = threading.Lock(), iter(pieces)

    def take() -> Iterable[Any]:
        while True:
            with lock:
                try:
                    piece = next(iterator)
                except StopIteration:
                    return
            yield piece

    with nullcontext(pool) if pool is not None else ThreadPoolExecutor(threads) as workers:
        for future in [workers.submit(work, take()) for _ in range(threads)]:
            future.result()


def cut_range(n: int, pieces: int) -> list[tuple[int, int]]:
    """0 to n cut into at most so many ranges of nearly one size, none of them empty."""
    pieces = max(1, min(pieces, n))
    return [(a, b) for a, b in pairwise(n * k // pieces for k in range(pieces + 1)) if b > a]
