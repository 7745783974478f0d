"""UnitRows: clipped rows for baselines that reckon in real numbers, scaled to length 1 or not; the bias is a bin."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from secvm.learning.rows import BinnedRows
from secvm_lab.baselines.baseline import Floats


class UnitRows:
    """Rows with the bias as their last bin, every entry of a row the same: 1, or 1/‖x‖."""

    def __init__(self, rows: BinnedRows, *, normalised: bool = True) -> None:
        lengths = np.diff(rows.indptr)
        #: Bins of all people one after another, the bias at the end of each person's.
        self.bins: NDArray[np.int64] = np.insert(rows.bins.astype(np.int64), rows.indptr[1:], rows.n_bins)
        #: Bins of each person, the bias counted.
        self.lengths: NDArray[np.int64] = lengths + 1
        self.starts: NDArray[np.int64] = np.concatenate([[0], np.cumsum(self.lengths)[:-1]]).astype(np.int64)
        self.entries: Floats = 1 / np.sqrt(self.lengths) if normalised else np.ones(len(rows), dtype=np.float64)
        #: Bins in all, the bias counted.
        self.n_cells = rows.n_bins + 1
        self._owners = np.repeat(np.arange(len(rows)), self.lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def scores(self, weights: Floats) -> Floats:
        """Everybody's w · x."""
        sums = np.bincount(self._owners, weights=weights[self.bins], minlength=len(self))
        return np.asarray(sums * self.entries, dtype=np.float64)

    def combined(self, coefficients: Floats) -> Floats:
        """Σ c x over everybody."""
        each = (coefficients * self.entries)[self._owners]
        return np.bincount(self.bins, weights=each, minlength=self.n_cells).astype(np.float64)

    def dense(self, people: NDArray[np.int64]) -> Floats:
        """The rows of some people, written out."""
        out = np.zeros((len(people), self.n_cells), dtype=np.float64)
        lengths = self.lengths[people]
        rows = np.repeat(np.arange(len(people)), lengths)
        out[rows, self.bins[self.places(people)]] = np.repeat(self.entries[people], lengths)
        return out

    def places(self, people: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the bins of some people stand in ``bins``, one person after another."""
        lengths = self.lengths[people]
        first = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        found: NDArray[np.int64] = np.repeat(self.starts[people] - first, lengths) + np.arange(int(lengths.sum()))
        return found

    def own(self, people: NDArray[np.int64], cells: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of these people has the bin named for it."""
        keys = self._owners * self.n_cells + self.bins  # ascending: people in order, bins in order inside a person
        asked = people * self.n_cells + cells
        found = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        return np.asarray(keys[found] == asked)
