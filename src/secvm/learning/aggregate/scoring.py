"""Test counts → accuracy, recall and precision per label, each with its Wilson interval and the marginal baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Two-sided 95 %.
Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Share:
    """A counted share and its 95 % interval (Wilson 1927: honest also near 0 and 1 and for few people)."""

    hits: int
    of: int
    #: Variance of each cell's noise, and how many cells are hits and misses: cover widens the interval.
    variance: float = 0.0
    cells: tuple[int, int] = (0, 0)

    @property
    def value(self) -> float:
        """The share; NaN when nobody was counted."""
        return self.hits / self.of if self.of else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end; everything is possible when nobody was counted."""
        if self.of == 0:
            return 0.0, 1.0
        p, n, z2 = self.value, self.of, Z95 * Z95
        centre = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = Z95 / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
        if self.variance:
            # hits - p · of has this variance from noise; the two errors are independent.
            hits, misses = self.cells
            noise = self.variance * (hits * (1 - p) ** 2 + misses * p**2)
            half = math.hypot(half, Z95 * math.sqrt(noise) / n)
            return max(0.0, centre - half), min(1.0, centre + half)
        low = 0.0 if self.hits == 0 else max(0.0, centre - half)
        high = 1.0 if self.hits == self.of else min(1.0, centre + half)
        return low, high


@dataclass(frozen=True, slots=True)
class Trained:
    """How many trained, all labels together, and the 95 % interval of it: without cover it is a count."""

    value: int
    low: int
    high: int

    @classmethod
    def of(cls, net: NDArray[np.int64], *, variance: float = 0.0) -> Trained:
        """Of counts by label without the mean of cover, which may be negative; ``variance`` is that of each."""
        value = int(net.sum())
        half = round(Z95 * math.sqrt(variance * len(net)))
        return cls(max(0, value), max(0, value - half), max(0, value + half))


@dataclass(frozen=True, slots=True)
class Score:
    """What a confusion matrix (true label x predicted label) says."""

    accuracy: Share
    #: Per label: of those who are, how many are found.
    recall: tuple[Share, ...]
    #: Per label: of those so called, how many are.
    precision: tuple[Share, ...]
    #: Per label: its share among the test people, which a guess by the marginals would reach as recall.
    baseline: tuple[Share, ...]


def score_cells(cells: NDArray[np.int64], *, variance: float = 0.0) -> Score:
    """The score of a round's test cells; ``variance`` is that of noise in each of them."""
    right = np.diag(cells).tolist()
    true, called = cells.sum(axis=1).tolist(), cells.sum(axis=0).tolist()
    n, labels = int(cells.sum()), len(right)

    def share(hits: int, of: int, of_cells: tuple[int, int]) -> Share:
        return Share(hits, of, variance, of_cells if variance else (0, 0))

    line = (1, labels - 1)
    return Score(
        accuracy=share(sum(right), n, (labels, labels**2 - labels)),
        recall=tuple(share(r, t, line) for r, t in zip(right, true, strict=True)),
        precision=tuple(share(r, c, line) for r, c in zip(right, called, strict=True)),
        baseline=tuple(share(t, n, (labels, labels**2 - labels)) for t in true),
    )
