"""Small crowds for tests of baselines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from secvm.learning.rows import BinnedRows
from secvm_lab.baselines.compare import Split


def rows_of(lists: list[list[int]], n_bins: int) -> BinnedRows:
    """One row for each list of bins."""
    indptr = np.concatenate([[0], np.cumsum([len(bins) for bins in lists])]).astype(np.int64)
    bins = np.array([b for one in lists for b in sorted(one)], dtype=np.int32)
    return BinnedRows(indptr=indptr, bins=bins, values=np.ones_like(bins), n_bins=n_bins)


def crowd(n: int, *, n_bins: int = 40, features: int = 8, seed: int = 0) -> tuple[BinnedRows, NDArray[np.int64]]:
    """People of two labels: each label likes its own half of the bins three times as much."""
    rng = np.random.default_rng([77, seed])
    labels = rng.integers(0, 2, n)
    lists = []
    for label in labels:
        weights = np.where((np.arange(n_bins) < n_bins // 2) == (label == 0), 3.0, 1.0)
        lists.append(rng.choice(n_bins, features, replace=False, p=weights / weights.sum()).tolist())
    return rows_of(lists, n_bins), labels.astype(np.int64)


def split(n: int, seed: int) -> Split:
    """A crowd that trains and one that does not."""
    rows, labels = crowd(n + 500, seed=seed)
    train, test = np.arange(n), np.arange(n, n + 500)
    return Split(rows.take(train), labels[train], rows.take(test), labels[test])
