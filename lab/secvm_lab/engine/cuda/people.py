"""DevicePeople: everybody once on a device, in blocks of columns, and the two passes over them: scores and counts."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.rows import BinnedRows
from secvm_lab.engine.cuda.device import Device

Integers = NDArray[np.int64]
#: A value is its column said so often; larger ones are no counts of a person's features.
MOST_VALUE = 255
#: A person's squared norm fits 32 bits.
MOST_UNITS = 2**16 - 1
#: CuPy adds up no longer arrays.
_MOST_ENTRIES = 2**32 - 1
#: Classes of bins by frequency, the smallest of so many bins.
CLASSES, _SMALLEST_CLASS = 8, 16
#: Threads of a block in a pass, and in everything else.
PASS_THREADS, THREADS = 1024, 256
#: Pieces of work in which a pass is handed out: some for each processor, none so small that loading weights would show.
_PIECES, _LEAST_PIECE, _MOST_PIECE = 1024, 256, 8192
#: Counters of a warp while people are laid out fit shared memory.
_MOST_BLOCKS = 1024
#: With more blocks of columns than these, scores read weights where they lie.
_MANY_BLOCKS = 8
#: Far more than a norm loses as a float32.
_UP = 1 + 2.0**-20


def blocks_for(n: int) -> int:
    """Blocks of threads for so many threads."""
    return -(-n // THREADS)


class DevicePeople:
    """The rows of everybody on a device. Secret: it does not print itself."""

    def __init__(self, device: Device, indptr: Any, bins: Any, values: Any, n_bins: int) -> None:
        """From arrays on the device: int64, int32 and int32; None values: all are 1."""
        xp = device.xp
        self.device, self.n_bins = device, n_bins
        self.n_people = len(indptr) - 1
        self.n_blocks = -(-n_bins // device.columns)
        if self.n_blocks > _MOST_BLOCKS:
            told = f"{n_bins} bins are beyond this GPU, which takes up to {_MOST_BLOCKS * device.columns}"
            raise BadInputError(told, next_step='Take device="cpu".')
        self.width = -(-n_bins // self.n_blocks)
        self._shared = 4 * (self.width + 1)
        self._direct = int(self.n_blocks > _MANY_BLOCKS)
        if int(indptr[-1]) > _MOST_ENTRIES:
            raise BadInputError(f"{int(indptr[-1])} entries are beyond a GPU, which takes up to {_MOST_ENTRIES}")
        n_units = int(indptr[-1]) if values is None else int(values.sum(dtype=np.int64))
        #: Whether no bin can have more units than an int32 holds, all people together.
        self.counts_fit = n_units + self.n_people < 2**31
        n_segments = self.n_blocks * self.n_people
        # Half a group of each segment is filled up.
        device.room(2 * n_units + 8 * n_segments + 24 * n_segments)
        rows = (indptr, bins, values, self.n_people)
        groups = xp.zeros(n_segments + 1, np.int64)
        grid, warps = 4096, THREADS // 32
        device.launch(
            "count_groups", grid, THREADS, *rows, self.width, self.n_blocks, groups, shared=4 * warps * self.n_blocks
        )
        #: int64, where each segment begins, in groups of eight.
        self.starts = xp.zeros(n_segments + 1, np.int64)
        xp.cumsum(groups[:-1], out=self.starts[1:])
        del groups
        #: uint16, local columns.
        self.locals = xp.empty(8 * int(self.starts[-1]), np.uint16)
        device.launch(
            "fill_groups", grid, THREADS, *rows, n_bins, self.width, self.n_blocks, self.starts, self.locals,
            shared=4 * warps * self.n_blocks,
        )  # fmt: skip
        if values is None:
            units = indptr[1:] - indptr[:-1] + 1
        else:
            ends = xp.zeros(len(values) + 1, np.int64)
            xp.cumsum(values, out=ends[1:], dtype=np.int64)
            units = ends[indptr[1:]] - ends[indptr[:-1]] + 1
        if self.n_people and int(units.max()) > MOST_UNITS:
            told = f"a person has {int(units.max())} units, and a GPU takes up to {MOST_UNITS} of one"
            raise BadInputError(told, next_step='Take device="cpu".')
        #: int32, of each person, the bias included.
        self.units = units.astype(np.int32)
        mean = int(self.starts[-1]) / max(1, n_segments)
        #: Threads that share a person: none would have nothing to do.
        self.team = next((team for team in (32, 16, 8, 4) if mean >= 0.6 * team), 2)

    def __repr__(self) -> str:
        return f"DevicePeople(<{self.n_people} people>, n_bins={self.n_bins})"

    @classmethod
    def of_rows(cls, device: Device, rows: BinnedRows) -> DevicePeople:
        """Rows of this process, carried over."""
        check_values(rows)
        xp = device.xp
        device.room(12 * len(rows.bins))
        values = None if (rows.values == 1).all() else xp.asarray(rows.values)
        return cls(device, xp.asarray(rows.indptr), xp.asarray(rows.bins), values, rows.n_bins)

    @property
    def _layout(self) -> tuple[Any, ...]:
        return self.locals, self.starts, self.n_people, self.n_bins, self.width, self.n_blocks

    def score(self, weights: Any, jobs: Any, lists: Any, out_at: Any, out: Any) -> None:
        """Scores of the people of jobs (``jobs_for``, on the device), into ``out``."""
        self.device.launch(
            "score", len(jobs) // 4, PASS_THREADS, *self._layout, weights, jobs, lists, out_at, self.team, self._direct,
            out, shared=0 if self._direct else self._shared,
        )  # fmt: skip

    def count(self, jobs: Any, lists: Any, counts: Any) -> None:
        """Add the people of jobs to counts."""
        self.device.launch(
            "count", len(jobs) // 4, PASS_THREADS, *self._layout, jobs, lists, self.team, counts, shared=self._shared
        )

    def count_amounts(self, amounts: Any, plus: Any, minus: Any) -> None:
        """Add everybody to counts, each person by an amount."""
        self.device.launch("count_amounts", 4096, THREADS, *self._layout, amounts, plus, minus)

    @cached_property
    def frequencies(self) -> NDArray[np.int64]:
        """Units of all people together in each bin, and people."""
        xp = self.device.xp
        if not self.counts_fit:
            sides = xp.zeros((2, self.n_bins + 1), np.uint64)
            self.count_amounts(xp.ones(self.n_people, np.int64), *sides)
            whole: NDArray[np.int64] = self.device.to_host(sides[0]).astype(np.int64)
            return whole
        counts = xp.zeros(self.n_bins + 1, np.int32)
        lists = 2 * xp.arange(self.n_people, dtype=np.int32)
        self.count(xp.asarray(jobs_for(*np.array([[0], [self.n_people], [0]]))), lists, counts)
        found: NDArray[np.int64] = self.device.to_host(counts).astype(np.int64)
        return found

    @cached_property
    def classes(self) -> Any:
        """uint8, the class of each bin by its frequency, and that of the bias: the last, with the rarest bins."""
        order = np.argsort(-self.frequencies[:-1], kind="stable")
        edges = np.geomspace(_SMALLEST_CLASS, max(self.n_bins, 2 * _SMALLEST_CLASS), CLASSES)[:-1]
        classes = np.full(self.n_bins + 1, CLASSES - 1, np.uint8)
        classes[order] = np.searchsorted(edges, np.arange(self.n_bins), side="right")
        return self.device.xp.asarray(classes)

    @cached_property
    def norms(self) -> Any:
        """float32, classes x people: the Euclidean norm of each person's values in a class, rounded up."""
        xp = self.device.xp
        squares = xp.zeros((CLASSES, self.n_people), np.uint64)
        self.device.launch(
            "class_squares", 1024, PASS_THREADS, *self._layout, self.classes, CLASSES, squares, shared=self._shared
        )
        squares[-1] += np.uint64(1)
        return (xp.sqrt(squares.astype(np.float64)) * _UP).astype(np.float32) * np.float32(_UP)


def check_values(rows: BinnedRows) -> None:
    """Return if a device can hold the values of these rows."""
    if len(rows.values) and not (rows.values.min() >= 1 and rows.values.max() <= MOST_VALUE):
        told = (
            f"values go from {rows.values.min()} to {rows.values.max()}, and a GPU takes counts from 1 to {MOST_VALUE}"
        )
        raise BadInputError(told, next_step='Take device="cpu".')


def jobs_for(whose: Integers, lengths: Integers, begins: Integers) -> Integers:
    """Jobs of about the same length, flat: for each list whose it is, how long, and where it begins."""
    size = min(_MOST_PIECE, max(_LEAST_PIECE, -(-int(lengths.sum()) // _PIECES)))
    pieces = -(-lengths // size)
    which = np.repeat(np.arange(len(lengths)), pieces)
    firsts = (np.arange(len(which)) - np.repeat(np.cumsum(pieces) - pieces, pieces)) * size
    lasts = np.minimum(firsts + size, lengths[which])
    return np.stack([whose[which], firsts, lasts, begins[which]], axis=1).astype(np.int64).ravel()
