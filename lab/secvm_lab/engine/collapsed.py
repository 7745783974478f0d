"""People whose own words are counted together: unhashed rows by the tens of millions of words.

Most words of a crowd are used by one person alone. Such a word, with value 1, gets the same update in each round as the
person's other own words: the person's verdict. So all of them have one weight, and one counter for each person stands
for them; it counts once in a tally and as many times as the person has own words in a score. That is the same
arithmetic on the same integers, and ``expand`` gives every word its weight back.

Whether a word is somebody's own is asked of the people who are there. A half of a crowd has its own words.

    owners = Owners(n_bins)
    for indptr, bins, values in chunks: owners.see(bins, values)            # first look
    collapser = Collapser(owners, n_people, sample)
    for indptr, bins, values in chunks: collapser.add(indptr, bins, values)   # second look
    rows = collapser.finish()

    rows = collapse(binned_rows)                                             # where all rows are at hand
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels.layout import PEOPLE, PreparedRows, count_bins, order_bins
from secvm.learning.rows import BinnedRows
from secvm_lab._kernels import collapsing
from secvm_lab._kernels.layout_stream import LayoutBuilder

_NO_VALUES = np.zeros(0, np.int32)
_NO_BINS = np.zeros(0, np.int32)

#: Indptr, bins, and values where they are not all 1.
Chunk = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32] | None]


@dataclass(frozen=True, eq=False, repr=False)
class CollapsedRows:
    """The words that people share, laid out, and a number for all the rest. Secret: it does not print itself."""

    #: The kept bins by their new numbers.
    prepared: PreparedRows
    #: Bins there are, most of them nobody's or one person's.
    n_bins: int
    #: int32, the bin of each new number, ascending.
    kept: NDArray[np.int32]
    #: int32, how many own bins each person has.
    own: NDArray[np.int32]
    #: int32, these, person after person; None: they were not written down, and states cannot be expanded.
    own_bins: NDArray[np.int32] | None

    def __repr__(self) -> str:
        return f"CollapsedRows(<{self.n_people} people>, n_bins={self.n_bins}, kept={len(self.kept)})"

    @property
    def n_people(self) -> int:
        return self.prepared.n_people

    def expand(self, of_kept: NDArray[np.int64], of_own: NDArray[np.int64], bias: int) -> NDArray[np.int64]:
        """A vector over all bins and the bias from those of kept bins and of people's counters."""
        if self.own_bins is None:
            raise BadInputError("the people's own words were not written down, so a state cannot be expanded")
        out = np.zeros(self.n_bins + 1, np.int64)
        out[self.kept] = of_kept
        out[self.own_bins] = np.repeat(of_own, self.own)
        out[-1] = bias
        return out


class Owners:
    """Which bins somebody has, and which more than one person; one bit each."""

    def __init__(self, n_bins: int) -> None:
        if not 1 <= n_bins < 2**31:
            raise BadInputError("bins are numbered by 31 bits")
        self.n_bins = n_bins
        self.somebody = collapsing.words_for(n_bins)
        self.shared = collapsing.words_for(n_bins)

    def see(self, bins: NDArray[np.int32], values: NDArray[np.int32] | None = None) -> None:
        """The bins of some people, each person's different; without values all are 1."""
        if len(bins) and not (bins.min() >= 0 and bins.max() < self.n_bins):
            raise BadInputError("a bin is outside the number of bins")
        collapsing.mark(bins, _NO_VALUES if values is None else values, self.somebody, self.shared)


class Collapser:
    """Takes the same people a second time, chunk after chunk of any length."""

    def __init__(self, owners: Owners, n_people: int, sample: Chunk, *, write_own: bool = True) -> None:
        """Room for so many people.

        Args:
            sample: some of them, who tell frequent bins from rare ones.
            write_own: whether to write down which words are whose, for ``expand``.
        """
        self._owners = owners
        self._firsts = np.empty(len(owners.shared), np.int32)
        self._n_kept = int(collapsing.directory(owners.shared, self._firsts))
        self._write_own = write_own
        self._n_people = n_people
        some, _, _ = self._cut(*sample)
        # At least one bin: a crowd of strangers shares none.
        frequencies = np.zeros(max(1, self._n_kept), np.int64)
        frequencies[: some.n_bins] += count_bins(some)
        self._builder = LayoutBuilder(order_bins(frequencies, max(1, len(some))), n_people)
        self._waiting: list[BinnedRows] = []
        self._own: list[NDArray[np.int32]] = []
        self._own_bins: list[NDArray[np.int32]] = []

    def _cut(
        self, indptr: NDArray[np.int64], bins: NDArray[np.int32], values: NDArray[np.int32] | None = None
    ) -> tuple[BinnedRows, NDArray[np.int32], NDArray[np.int32]]:
        new_indptr, own = np.empty(len(indptr), np.int64), np.empty(len(indptr) - 1, np.int32)
        new_bins, new_values = np.empty(len(bins), np.int32), np.empty(len(bins), np.int32)
        own_bins = np.empty(len(bins) if self._write_own else 0, np.int32)
        given = (indptr, bins, _NO_VALUES if values is None else values)
        found = (new_indptr, new_bins, new_values, own, own_bins)
        n, n_own = collapsing.cut(*given, self._owners.shared, self._firsts, *found)
        rows = BinnedRows(new_indptr, new_bins[:n], new_values[:n], max(1, self._n_kept))
        return rows, own, own_bins[:n_own].copy() if self._write_own else _NO_BINS

    def add(self, indptr: NDArray[np.int64], bins: NDArray[np.int32], values: NDArray[np.int32] | None = None) -> None:
        """The next people."""
        rows, own, own_bins = self._cut(indptr, bins, values)
        self._waiting.append(rows)
        self._own.append(own)
        self._own_bins.append(own_bins)
        if sum(len(part) for part in self._waiting) >= PEOPLE:
            self._lay_out(whole=False)

    def _lay_out(self, *, whole: bool) -> None:
        """Hand people to the layout, which takes blocks; the rest waits unless these are the last."""
        rows = _join(self._waiting)
        ready = len(rows) if whole else len(rows) // PEOPLE * PEOPLE
        self._builder.add(_part(rows, 0, ready))
        self._waiting = [_part(rows, ready, len(rows))] if ready < len(rows) else []

    def finish(self) -> CollapsedRows:
        """All of them."""
        if self._waiting:
            self._lay_out(whole=True)
        kept = np.zeros(max(1, self._n_kept), np.int32)
        collapsing.list_bins(self._owners.shared, kept)
        return CollapsedRows(
            prepared=self._builder.finish(),
            n_bins=self._owners.n_bins,
            kept=kept,
            own=np.concatenate([_NO_BINS, *self._own]),
            own_bins=np.concatenate([_NO_BINS, *self._own_bins]) if self._write_own else None,
        )


def collapse(rows: BinnedRows) -> CollapsedRows:
    """Rows with each person's own words counted together."""
    owners = Owners(rows.n_bins)
    owners.see(rows.bins, rows.values)
    collapser = Collapser(owners, len(rows), (rows.indptr, rows.bins, rows.values))
    for low in range(0, len(rows), PEOPLE):
        some = _part(rows, low, min(low + PEOPLE, len(rows)))
        collapser.add(some.indptr, some.bins, some.values)
    return collapser.finish()


def _part(rows: BinnedRows, low: int, high: int) -> BinnedRows:
    """Some rows that follow each other."""
    first, last = rows.indptr[low], rows.indptr[high]
    return BinnedRows(rows.indptr[low : high + 1] - first, rows.bins[first:last], rows.values[first:last], rows.n_bins)


def _join(parts: list[BinnedRows]) -> BinnedRows:
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    bins, values = (np.concatenate([getattr(part, name) for part in parts]) for name in ("bins", "values"))
    return BinnedRows(indptr, bins, values, parts[0].n_bins)
