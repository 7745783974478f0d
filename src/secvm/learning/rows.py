"""BinnedRows: many people's binned vectors side by side, as the offline estimator and the simulator hold them.

Row i lists its bins in ascending order, each once, with a non-zero integer value. The bias bin is not stored: every
person has it with value 1, and its index is ``n_bins``, one past the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

#: A score is a sum of int32 mantissas times values. With at most 2^22 - 1 units a person (the bias included) it stays
#: below 2^53 in absolute value, so that JavaScript's numbers hold it exactly too.
MAX_UNITS = 2**22 - 1


@dataclass(frozen=True, eq=False, repr=False)
class BinnedRows:
    """Binned vectors of ``len(rows)`` people. Secret: it does not print itself."""

    #: int64, one more than there are people; row i is [indptr[i], indptr[i + 1]).
    indptr: NDArray[np.int64]
    #: int32, bins, ascending and distinct inside a row, below ``n_bins``.
    bins: NDArray[np.int32]
    #: int32, the values; never zero.
    values: NDArray[np.int32]
    #: Bins without the bias bin.
    n_bins: int

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __repr__(self) -> str:
        return f"BinnedRows(<{len(self)} people>, n_bins={self.n_bins})"

    @cached_property
    def units(self) -> NDArray[np.int64]:
        """Number of unit packages of each person's whole update: sum of |value|, plus one for the bias."""
        return self._row_sums(np.abs(self.values.astype(np.int64)))

    @cached_property
    def squared_norms(self) -> NDArray[np.int64]:
        """Sum of squared values of each person, the bias included."""
        values = self.values.astype(np.int64)
        return self._row_sums(values * values)

    def _row_sums(self, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        totals = np.concatenate([[0], np.cumsum(entries)])
        return np.asarray(totals[self.indptr[1:]] - totals[self.indptr[:-1]] + 1, dtype=np.int64)

    def present(self) -> BinnedRows:
        """The same bins, one unit each: what an experiment with cover sees of people."""
        return BinnedRows(indptr=self.indptr, bins=self.bins, values=np.ones_like(self.values), n_bins=self.n_bins)

    def take(self, people: NDArray[np.int64]) -> BinnedRows:
        """The rows of some people, in the order given."""
        lengths = np.diff(self.indptr)[people]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        where = np.repeat(self.indptr[people] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return BinnedRows(indptr=indptr, bins=self.bins[where], values=self.values[where], n_bins=self.n_bins)
