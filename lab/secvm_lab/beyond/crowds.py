"""A round of many people at once: the counts of devices one by one, to the bit, and no package is ever made."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels.reference import dice_counter
from secvm.learning.aggregate.tally import Tally
from secvm.learning.individual.dice import Purpose, dice_keys
from secvm.learning.rows import BinnedRows
from secvm_lab._kernels.network import count_packages, score_people
from secvm_lab.beyond.network import Question, Shape

MAX_SQUARED_NORM = 1 << 30


@dataclass(frozen=True, slots=True)
class Seen:
    """What the lab sees of a round, and no coordinator does."""

    #: People who sent for any output.
    violators: int
    #: Entries that were not zero; and those beyond their bound, which are sent too seldom.
    entries: int
    clipped: int
    #: People with a clipped entry.
    people_clipped: int


class Crowd:
    """People who train a network, with their dice. Secret: it does not print itself."""

    def __init__(self, question: Question, rows: BinnedRows, labels: NDArray[np.int64], *, seed: bytes) -> None:
        _check_room(rows)
        self._question = question
        self._rows = rows
        self._labels = labels.astype(np.int64)
        self.participants = np.bincount(labels, minlength=question.shape.n_labels).astype(np.int64)
        self._keys = dice_keys(seed, np.arange(len(rows), dtype=np.int64), Purpose.COIN)

    def __len__(self) -> int:
        return len(self._rows)

    def tally(self, weights: NDArray[np.int32], round_number: int, *, threads: int = 1) -> tuple[Tally, Seen]:
        """What everybody sends in a round, counted."""
        shape, rows = self._question.shape, self._rows
        counters = [dice_counter(round_number, model) for model in range(shape.hidden + shape.outputs)]
        fixed = (np.array(self._question.bounds.each), self._keys, np.array(counters, dtype=np.uint64))

        def work(low: int, high: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            counts = np.zeros((2, shape.n_parameters), dtype=np.int64)
            seen = np.zeros(4, dtype=np.int64)
            people = (rows.indptr, rows.bins, rows.values, self._labels)
            count_packages(
                *people,
                weights,
                _ends(shape),
                shape.hidden,
                shape.outputs,
                *fixed,
                low,
                high,
                counts[0],
                counts[1],
                seen,
            )
            return counts, seen

        cuts = np.linspace(0, len(rows), max(1, threads) + 1).astype(np.int64).tolist()
        with ThreadPoolExecutor(max(1, threads)) as pool:
            parts = list(pool.map(work, cuts[:-1], cuts[1:]))
        counts = np.sum([part[0] for part in parts], axis=0)
        seen = np.sum([part[1] for part in parts], axis=0).tolist()
        tally = Tally(
            plus=counts[:1],
            minus=counts[1:],
            participants=self.participants,
            cells=np.zeros((shape.n_labels, shape.n_labels), dtype=np.int64),
        )
        return tally, Seen(*seen)


def predict(shape: Shape, weights: NDArray[np.int32], rows: BinnedRows) -> NDArray[np.int64]:
    """The label that wins, of each person."""
    return shape.models.predict(scores(shape, weights, rows))


def scores(shape: Shape, weights: NDArray[np.int32], rows: BinnedRows) -> NDArray[np.int64]:
    """People x outputs, in units of 2^-32."""
    _check_room(rows)
    out = np.empty((len(rows), shape.outputs), dtype=np.int64)
    table = (rows.indptr, rows.bins, rows.values, weights, _ends(shape))
    score_people(*table, shape.hidden, shape.outputs, 0, len(rows), out)
    return out


def _check_room(rows: BinnedRows) -> None:
    """The quick twin holds 2^32 ‖x‖² in 64 bits; the readable one has no such limit."""
    if len(rows) and int(rows.squared_norms.max()) >= MAX_SQUARED_NORM:
        raise BadInputError("a person's values are too large for the quick network: their squares sum to 2^30 or more")


def _ends(shape: Shape) -> NDArray[np.int64]:
    return np.array(shape.ends, dtype=np.int64)
