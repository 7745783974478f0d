"""LaidOutPeople: everybody once, for all models: the layout, signs, and which models each person trains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels.layout import MAX_REPEAT, PEOPLE, PIECES_PER_THREAD, PreparedRows, cut_range, share_out
from secvm_lab._kernels import lane_bounds as bounds
from secvm_lab._kernels import lanes as kernels
from secvm_lab.engine.collapsed import CollapsedRows

#: Sums are made to fit people with up to so many times the median of units; who has more is scored truly every time.
_MANY = 16
#: Classes of bins by frequency, the smallest of so many bins; from so many blocks of people.
_CLASSES = 12
_SMALLEST_CLASS = 16
_LOOKED_AT = 8
#: By how much norms are rounded up: far more than a sum of so many float64 can lose.
_UP = 2.0**-24
_ALL = 2**16 - 1
#: Pieces below this are done faster than handed out.
_WORTH_SHARING = 8
_NO_NORMS = np.zeros((1, 1), np.float32)
_NOBODY = np.zeros(0, np.int32)

Bits = NDArray[np.uint16]


class LaidOutPeople:
    """The passes of an engine over people. Secret: it does not print itself.

    Lines are those of slots, then, where people's own words are collapsed, one for each person, and last the bias.
    """

    def __init__(self, rows: PreparedRows | CollapsedRows, labels: NDArray[np.int64], *, threads: int) -> None:
        if len(labels) != rows.n_people:
            raise BadInputError("there must be a label for each person")
        if len(labels) and not (labels.min() >= 0 and labels.max() <= 1):
            raise BadInputError("the engine trains two labels")
        self.rows = rows
        self.prepared = rows.prepared if isinstance(rows, CollapsedRows) else rows
        #: How many own words each person has; empty: they are bins like others.
        self.own = rows.own if isinstance(rows, CollapsedRows) else _NOBODY
        self.set_width(1)
        self.threads = threads
        # Ended with the last reference to this object.
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.n_slots = self.prepared.n_slots
        self.n_lines = self.n_slots + len(self.own) + 1
        self.labels = labels
        self.signs = np.where(labels == 1, 1, -1).astype(np.int8)
        self._sides = np.where(labels == 1, 0, 1).astype(np.int64)
        #: For each label all bits of the people who have it.
        self.of_label = tuple(np.where(labels == c, _ALL, 0).astype(np.uint16) for c in (0, 1))
        #: At least the units of each person: dummies count too, and the bias.
        self.units = 4 * self.prepared.group_counts.sum(axis=1, dtype=np.int64).ravel()[: len(labels)] + 1
        if len(self.own):
            self.units += self.own
        in_slot = np.zeros(self.n_slots, np.int64)
        kernels.cold_units(*self._cold, self.units, in_slot)
        #: No bin has more units than this, all people together.
        self.most_in_bin = MAX_REPEAT * len(labels) + int(in_slot.max(initial=0))
        #: Shortened sums fit 32 bits for people up to this.
        self.most_units = int(min(self.units.max(initial=1), _MANY * np.median(self.units))) if len(labels) else 1
        self.everybody = np.arange(len(labels))
        self._dummies = self.prepared.first_slots[1:] - 1

    def set_width(self, width: int) -> None:
        """From now on lines have so many lanes."""
        self.width = width
        self.lanes = (0,) * width

    @property
    def n_bins(self) -> int:
        return self.rows.n_bins

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

        threads = self.threads if n >= _WORTH_SHARING else 1
        share_out(cut_range(n, threads * PIECES_PER_THREAD if threads > 1 else 1), take, threads, self._pool)

    def score(self, weights: NDArray[np.int32], sums: NDArray[np.int32]) -> None:
        """Shortened sums of everybody, without own words."""

        def work(low: int, high: int) -> None:
            kernels.score_people(*self._layout, *self._cold, weights, sums, low, high, self.lanes)

        self.over(len(self.prepared.starts), work)

    def score_some(self, weights: NDArray[np.int32], chosen: NDArray[np.int64]) -> NDArray[np.int32]:
        """Shortened sums of chosen people, in ascending order, without own words; a line each."""
        sums = self.lines(len(chosen), np.int32)
        firsts = self._firsts(chosen)

        def work(low: int, high: int) -> None:
            kernels.score_some(*self._layout, *self._cold, weights, chosen, firsts, sums, low, high, self.lanes)

        self.over(len(self.prepared.starts), work)
        return sums

    def remainders(
        self,
        target: NDArray[np.int32],
        references: tuple[NDArray[np.int32], ...],
        coefficients: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Norms of target - Σ coefficient * reference, classes x lanes, rounded up."""
        # The classes' own pieces are added up in one order, but the bound only needs to hold, not to be the same bytes.
        found: list[NDArray[np.float64]] = []

        def work(low: int, high: int) -> None:
            squares = np.zeros(self.n_classes * self.width)
            bounds.remainder_squares(
                target, references, coefficients.ravel(), self._classes, squares, low, high, self.lanes
            )
            found.append(squares)

        self.over(self.n_lines, work)
        return np.asarray(np.sqrt(np.sum(found, axis=0)) * (1 + _UP))

    def judge(
        self,
        weights: NDArray[np.int32],
        sums: tuple[NDArray[np.int32], ...],
        coefficients: NDArray[np.float64],
        remainders: NDArray[np.float64] | None,
        constants: NDArray[np.float64],
        signs: NDArray[np.int8],
        wanted: Bits,
        chosen: NDArray[np.int64],
        below: Bits,
        left_open: Bits,
    ) -> None:
        """Write verdicts of chosen people under weights; see ``lane_bounds.judge``.

        Without remainders the sums are the scores but for own words, which weights tell exactly in any case.
        """
        # The trash of dummies is the last class, and is never looked at.
        n_classes = 0 if remainders is None else self.n_classes - 1
        far = np.zeros(1) if remainders is None else remainders
        norms = self.norms if remainders is not None else _NO_NORMS

        def work(low: int, high: int) -> None:
            bounds.judge(
                sums,
                coefficients.ravel(),
                norms,
                far,
                n_classes,
                constants.ravel(),
                self.units,
                self.most_units,
                signs,
                wanted,
                chosen,
                below,
                left_open,
                weights,
                self.own,
                self.n_slots,
                low,
                high,
                self.lanes,
            )

        self.over(len(chosen), work)

    @cached_property
    def norms(self) -> NDArray[np.float32]:
        """People x classes: the Euclidean norm of a person's values in each class of bins, rounded up."""
        n = len(self.labels)
        squares, classes = np.zeros((n, self.n_classes)), self._classes

        def work(low: int, high: int) -> None:
            bounds.class_norms(*self._layout, *self._cold, classes, squares, low, high)

        self.over(len(self.prepared.starts), work)
        squares[:, -2] = 1  # the bias
        squares[:, -1] = 0  # dummies weigh nothing
        return (np.sqrt(squares) * (1 + _UP)).astype(np.float32) * np.float32(1 + 2.0**-22)

    @cached_property
    def _classes(self) -> NDArray[np.uint8]:
        """The class of each line: bins of about one frequency, the bias, and dummies."""
        counts = np.zeros(self.n_lines, np.int64)
        # Any classes will do, so a look at some people is enough.
        some = np.unique(np.linspace(0, len(self.prepared.starts) - 1, _LOOKED_AT).astype(np.int64))
        bounds.slot_units(*self._layout, some, counts)
        counts[self._dummies] = -1
        counts[self.n_slots :] = -1
        order = np.argsort(-counts, kind="stable")
        edges = np.geomspace(_SMALLEST_CLASS, self.n_lines, self.n_classes - 2)
        classes = np.empty(self.n_lines, np.uint8)
        classes[order] = np.searchsorted(edges, np.arange(self.n_lines), side="right").clip(max=self.n_classes - 3)
        classes[self._dummies] = self.n_classes - 1
        classes[self.n_slots : -1] = self.n_classes - 1  # own words are never guessed
        classes[-1] = self.n_classes - 2
        return classes

    @property
    def n_classes(self) -> int:
        return _CLASSES + 2

    def _firsts(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(chosen, np.arange(len(self.prepared.starts) + 1) * PEOPLE).astype(np.int64)

    def true_scores(
        self, state: NDArray[np.int64], bits: NDArray[np.int64], chosen: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """True scores of chosen people under mantissas that leave ``bits`` out of the state."""
        out = self.lines(len(chosen), np.int64)

        def work(low: int, high: int) -> None:
            kernels.true_scores(*self._layout, *self._cold, state, bits, chosen, out, low, high, self.lanes)
            if len(self.own):
                kernels.add_own_scores(self.own, self.n_slots, state, bits, chosen, out, low, high, self.lanes)

        self.over(len(chosen), work)
        return out.reshape(-1, self.width)

    def count(self, counts: NDArray[np.int32], now: Bits, then: Bits) -> int:
        """Move counts from the verdicts ``then`` to those of ``now``; gives the number of people looked at."""
        everybody = np.flatnonzero(now != then)
        for side in (0, 1):
            active = everybody[self._sides[everybody] == side]
            if len(active):
                self._count_side(counts, now, then, active, side)
        counts.reshape(2, self.n_lines, self.width)[:, self._dummies] = 0
        return len(everybody)

    def _count_side(
        self, counts: NDArray[np.int32], now: Bits, then: Bits, active: NDArray[np.int64], side: int
    ) -> None:
        units = self.lines(len(active), np.int32)
        kernels.changes(now, then, active, units, self.width)
        firsts, half = self._firsts(active), self.n_lines

        def work(blocks: Iterable[int]) -> None:
            for block in blocks:
                kernels.count_people(*self._layout, block, active, firsts, units, counts, side * half, self.lanes)

        share_out(range(len(self.prepared.first_slots) - 1), work, self.threads, self._pool)
        kernels.count_cold(*self._cold, active, units, side, counts, half, self.width)
        if len(self.own):
            kernels.count_own(self.own, self.n_slots + side * half, active, units, counts, self.width)
        bias = units.reshape(-1, self.width).sum(axis=0, dtype=np.int32)
        counts.reshape(2, half, self.width)[side, -1] += bias

    def by_bin(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """One lane's line numbers as a vector over bins and the bias."""
        of_bins = column[self.prepared.slots]
        if isinstance(self.rows, CollapsedRows):
            return self.rows.expand(of_bins, column[self.n_slots : -1], int(column[-1]))
        return np.append(of_bins, column[-1])


def take_lanes(flat: NDArray[Any], sources: Sequence[int], before: int, width: int) -> NDArray[Any]:
    """Lines of ``width`` lanes out of lines of ``before``: lane k is what lane ``sources[k]`` was."""
    out = kernels.lines(len(flat) // before, width, flat.dtype)
    out.reshape(-1, width)[:, : len(sources)] = flat.reshape(-1, before)[:, list(sources)]
    return out


def take_bits(bits: Bits, sources: Sequence[int]) -> Bits:
    """Bits of lanes that were others."""
    out = np.zeros_like(bits)
    for lane, source in enumerate(sources):
        out |= (bits >> np.uint16(source) & np.uint16(1)) << np.uint16(lane)
    return out


def bits_of(table: NDArray[np.bool_]) -> Bits:
    """People x lanes as one uint16 for each person."""
    out = np.zeros(len(table), np.uint16)
    for lane in range(table.shape[1]):
        out |= table[:, lane].astype(np.uint16) << np.uint16(lane)
    return out
