"""The blocked layout of people who come in chunks: nobody holds all their rows at once.

The order of the bins is given beforehand, from a sample of people, say: scores and counts do not depend on it. With the
order of all of them the result is what ``layout.prepare`` makes, byte for byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels.layout import PEOPLE, BinOrder, PreparedRows, Segments
from secvm.learning.rows import BinnedRows

#: When an array is full it grows by what the people so far foretell for all, and by this much more.
_SLACK = 1.02


class _Growing:
    """An array that is written from the left. Pages that nobody has written to cost no memory."""

    def __init__(self, dtype: Any) -> None:
        self._items = np.empty(0, dtype)
        self._used = 0

    def take(self, n: int, share: float) -> NDArray[Any]:
        """The next ``n`` items, to be written; with them a ``share`` of all is there."""
        used = self._used + n
        if used > len(self._items):
            bigger = np.empty(max(used, int(used / share * _SLACK)), self._items.dtype)
            bigger[: self._used] = self._items[: self._used]
            self._items = bigger
        part = self._items[self._used : used]
        self._used = used
        return part

    def finish(self) -> NDArray[Any]:
        # A view would keep the slack's addresses, which cost nothing, but nbytes should be true.
        self._items.resize(self._used, refcheck=False)
        return self._items


class LayoutBuilder:
    """Takes ``n_people`` people's rows, chunk after chunk."""

    def __init__(self, order: BinOrder, n_people: int) -> None:
        """Room for so many people; their entries find theirs as they come."""
        self._order = order
        self._n_people = n_people
        self._done = 0
        self._n_groups = 0
        self._groups = _Growing(np.uint64)
        self._cold_slots, self._cold_values = _Growing(np.int32), _Growing(np.int32)
        shape = (-(-n_people // PEOPLE), len(order.widths))
        self._group_counts = np.zeros((*shape, PEOPLE), np.uint16)
        self._starts = np.zeros(shape, np.int64)
        self._cold_indptr = np.zeros(n_people + 1, np.int64)

    def add(self, rows: BinnedRows) -> None:
        """The next people. Whole blocks of ``PEOPLE``, except for the last."""
        low, high = self._done, self._done + len(rows)
        if low % PEOPLE or high > self._n_people:
            raise BadInputError(f"a layout grows by whole blocks of {PEOPLE} people, up to the number it was made for")
        if not len(rows):
            return
        segments = Segments(self._order, rows)
        share = high / self._n_people
        segments.fill(
            self._groups.take(segments.n_groups, share),
            self._cold_slots.take(segments.n_cold, share),
            self._cold_values.take(segments.n_cold, share),
        )
        blocks = slice(low // PEOPLE, -(-high // PEOPLE))
        self._group_counts[blocks] = segments.group_counts
        self._starts[blocks] = segments.starts + self._n_groups
        self._cold_indptr[low + 1 : high + 1] = segments.cold_indptr[1:] + self._cold_indptr[low]
        self._n_groups += segments.n_groups
        self._done = high

    def finish(self) -> PreparedRows:
        """The layout of all of them."""
        if self._done != self._n_people:
            raise BadInputError(f"the layout was made for {self._n_people} people, and {self._done} came")
        return PreparedRows(
            n_people=self._n_people,
            n_bins=len(self._order.slots),
            slots=self._order.slots,
            bin_of_slot=self._order.bin_of_slot,
            first_slots=self._order.first_slots,
            groups=self._groups.finish(),
            group_counts=self._group_counts,
            starts=self._starts,
            cold_indptr=self._cold_indptr,
            cold_slots=self._cold_slots.finish(),
            cold_values=self._cold_values.finish(),
        )
