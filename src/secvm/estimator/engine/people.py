"""LaidOutPeople: everybody once, for all models: the layout, signs, and which models each person trains."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels import lanes as kernels
from secvm.learning._kernels.layout import MAX_REPEAT, PEOPLE, PreparedRows
from secvm.learning._kernels.sharing import PIECES_PER_THREAD, cut_range, share_out

#: Sums are made to fit people with up to so many times the median of units; who has more is scored truly every time.
_MANY = 4

Bits = NDArray[np.uint16]


class LaidOutPeople:
    """The passes of an engine over people. Secret: it does not print itself."""

    def __init__(self, prepared: PreparedRows, labels: NDArray[np.int64], *, lanes: int, threads: int) -> None:
        if len(labels) != prepared.n_people:
            raise BadInputError("there must be a label for each person")
        if len(labels) and not (0 <= labels.min() and labels.max() <= 1):
            raise BadInputError("the engine trains two labels")
        self.prepared = prepared
        self.lanes = (0,) * lanes
        self.width = lanes
        self.threads = threads
        self.n_lines = prepared.n_slots + 1
        self.labels = labels
        self.signs = np.where(labels == 1, 1, -1).astype(np.int8)
        self._sides = np.where(labels == 1, 0, 1).astype(np.int64)
        #: At least the units of each person: dummies count too, and the bias.
        self.units = _unit_bounds(prepared)
        #: Shortened sums fit 32 bits for people up to this.
        self.most_units = int(min(self.units.max(initial=1), _MANY * np.median(self.units))) if len(labels) else 1
        self._dummies = prepared.first_slots[1:] - 1

    @property
    def _layout(self) -> tuple[Any, ...]:
        p = self.prepared
        return p.groups, p.group_counts, p.starts, p.first_slots

    @property
    def _cold(self) -> tuple[Any, ...]:
        p = self.prepared
        return p.cold_indptr, p.cold_slots, p.cold_values

    def lines(self, n: int, dtype: Any) -> NDArray[Any]:
        """Zeros for n lines of this width."""
        return kernels.lines(n, self.width, dtype)

    def over(self, n: int, work: Callable[[int, int], None]) -> None:
        """``work(low, high)`` over pieces of 0 to n, by all threads."""

        def take(pieces: Iterable[tuple[int, int]]) -> None:
            for low, high in pieces:
                work(low, high)

        share_out(cut_range(n, self.threads * PIECES_PER_THREAD), take, self.threads)

    def most_in_bin(self) -> int:
        """No bin has more units than this, all people together."""
        cold = np.bincount(self.prepared.cold_slots, np.abs(self.prepared.cold_values.astype(np.int64)))
        return MAX_REPEAT * self.prepared.n_people + int(cold.max(initial=0))

    def score(self, weights: NDArray[np.int32], sums: NDArray[np.int32]) -> None:
        """Shortened sums of everybody."""

        def work(low: int, high: int) -> None:
            kernels.score_people(*self._layout, *self._cold, weights, sums, low, high, self.lanes)

        self.over(len(self.prepared.starts), work)

    def decide(
        self,
        sums: NDArray[np.int32],
        takes_part: Bits,
        shorter: NDArray[np.int64],
        lowers: NDArray[np.int64],
    ) -> tuple[Bits, Bits]:
        """Verdicts and those left open."""
        violates, left_open = np.empty_like(takes_part), np.empty_like(takes_part)

        def work(low: int, high: int) -> None:
            kernels.decide(
                sums,
                self.signs,
                takes_part,
                self.units,
                self.most_units,
                shorter,
                lowers,
                violates,
                left_open,
                low,
                high,
                self.lanes,
            )

        self.over(len(self.labels), work)
        return violates, left_open

    def true_scores(
        self, state: NDArray[np.int64], bits: NDArray[np.int64], chosen: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """True scores of chosen people under mantissas that leave ``bits`` out of the state."""
        out = np.empty((len(chosen), self.width), np.int64)

        def work(low: int, high: int) -> None:
            kernels.true_scores(*self._layout, *self._cold, state, bits, chosen, out, low, high, self.lanes)

        self.over(len(chosen), work)
        return out

    def count(self, counts: NDArray[np.int32], now: Bits, then: Bits) -> int:
        """Move counts from the verdicts ``then`` to those of ``now``; gives the number of people looked at."""
        active = np.flatnonzero(now != then)
        if not len(active):
            return 0
        units = self.lines(len(active), np.int32)
        kernels.changes(now, then, active, units, self.width)
        firsts = np.searchsorted(active, np.arange(len(self.prepared.starts) + 1) * PEOPLE).astype(np.int64)
        half = self.n_lines

        def work(blocks: Iterable[int]) -> None:
            for block in blocks:
                kernels.count_people(
                    *self._layout, block, active, firsts, units, self._sides, counts, half, self.lanes
                )

        share_out(range(len(self.prepared.first_slots) - 1), work, self.threads)
        kernels.count_cold(*self._cold, active, units, self._sides, counts, half, self.width)
        lines = counts.reshape(2, half, self.width)
        lines[:, self._dummies] = 0
        changed = units.reshape(-1, self.width)
        sides = self._sides[active]
        for side in (0, 1):
            lines[side, -1] += changed[sides == side].sum(axis=0, dtype=np.int32)
        return len(active)


def _unit_bounds(prepared: PreparedRows) -> NDArray[np.int64]:
    n = prepared.n_people
    groups = prepared.group_counts.sum(axis=1, dtype=np.int64).ravel()[:n]
    cold = np.concatenate([[0], np.cumsum(np.abs(prepared.cold_values.astype(np.int64)))])
    return np.asarray(4 * groups + np.diff(cold[prepared.cold_indptr]) + 1, dtype=np.int64)
