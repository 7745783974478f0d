"""A crowd: many people at once, as a table of bins, for worlds whose devices send plain packages.

A crowd counts what its people send under given weights by the same integers as a device (``individual.update``):
scores are sums of whole weights, and a person with label y violates exactly if y · score < 1. For worlds alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm_lab.attacks.counting.covered import Counts


@dataclass(frozen=True, slots=True, repr=False)
class Crowd:
    """People and their labels. Secret: it does not print itself."""

    #: ``[bin, person]``, 1 where the person has the bin.
    has: NDArray[np.int8]
    labels: NDArray[np.int8]

    @property
    def size(self) -> int:
        return len(self.labels)

    @property
    def shares(self) -> NDArray[np.float64]:
        """Which share of people has each bin."""
        found: NDArray[np.float64] = self.has.mean(axis=1)
        return found

    def bins_of(self, person: int) -> tuple[int, ...]:
        """The bins of one of them."""
        return tuple(int(b) for b in np.flatnonzero(self.has[:, person]))

    def overlaps(self, bins: tuple[int, ...]) -> Counts:
        """How many of these bins each person has."""
        found: Counts = self.has[list(bins)].sum(axis=0, dtype=np.int64)
        return found

    def scores(self, weights: NDArray[np.int64]) -> Counts:
        """The score of each person; the last weight is the bias's."""
        found: Counts = (weights[:-1] @ self.has.astype(np.int64)) + weights[-1]
        return found

    def counted(self, sending: NDArray[np.bool_]) -> Counts:
        """What those who send add to the cells: ``[model, bin, sign]``, sign 0 for minus."""
        found = np.zeros((1, len(self.has) + 1, 2), dtype=np.int64)
        for sign in (0, 1):
            those = np.flatnonzero(sending & (self.labels == sign))
            found[0, :-1, sign] = self.has[:, those].sum(axis=1, dtype=np.int64)
            found[0, -1, sign] = len(those)
        return found

    def violators(self, scores: Counts) -> NDArray[np.bool_]:
        """Who sends, given everybody's score."""
        found: NDArray[np.bool_] = (2 * self.labels.astype(np.int64) - 1) * scores < 1
        return found


def draw_crowd(dice: np.random.Generator, *, people: int, bins: int, features: int, exponent: float = 1.0) -> Crowd:
    """People with so many different bins, popular ones more often (Zipf's law), and labels by a coin."""
    popularity = np.arange(1, bins + 1) ** -exponent
    has = np.zeros((people, bins), dtype=np.int8)
    for begin in range(0, people, 1000):
        part = has[begin : begin + 1000]
        # The first of exponential clocks: different bins, by weight.
        clocks = dice.exponential(size=part.shape) / popularity
        np.put_along_axis(part, np.argpartition(clocks, features - 1, axis=1)[:, :features], 1, axis=1)
    return Crowd(np.ascontiguousarray(has.T), dice.integers(2, size=people, dtype=np.int8))
