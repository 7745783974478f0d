"""Who is right: test people under evaluation weights, from sums that training needed anyway.

Evaluation averages the last weight vectors, and the average of scores is the score of the average, but for roundings:
the published average is rounded when each sum is divided, and again when it becomes mantissas. By how much both can
move a score is known, so three looks, each at the few that the one before left open:

 1. sums under the average in int32 lines, or bounds on them (``lazy``);
 2. the states' own int64, without any rounding;
 3. the evaluation weights themselves, as published.

Score 0 predicts label 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.learning.aggregate.descent.pegasos import AVERAGE_BITS
from secvm.learning.weights import Weights
from secvm_lab._kernels import lane_steps
from secvm_lab._kernels import lanes as kernels
from secvm_lab.engine.lazy import Target
from secvm_lab.engine.people import Bits, LaidOutPeople

#: Floats in which bounds are computed are off by far less than this share.
_SLACK = 1e-9
#: How much larger than after the last round an average may be without being written twice.
_ROOM = 2.0
#: Of an int64 as a float, divided and added up a few times.
_ROUNDED = 2.0**-46
#: True scores of the state must fit an int64.
_MAX_SCORE = 2**62


@dataclass(frozen=True, eq=False)
class Averaged:
    """The states that evaluation averages, newest first."""

    steps: tuple[int, ...]
    #: int64 lines of each, and per lane their greatest absolute value.
    states: tuple[NDArray[np.int64], ...]
    largest: tuple[NDArray[np.int64], ...]

    @property
    def greatest(self) -> NDArray[np.float64]:
        """Per lane: no entry of Σ state / step is greater."""
        return np.asarray(sum(a / t for a, t in zip(self.largest, self.steps, strict=True)) * (1 + _SLACK))

    @property
    def roundings(self) -> NDArray[np.float64]:
        """Per lane: how far publishing moves a score for each unit of a person, in units of the state."""
        # One bit more than the mantissas can leave out.
        bits = np.maximum(0, np.frexp(self.greatest * 2**AVERAGE_BITS + len(self.steps))[1] - 30)
        return np.asarray((len(self.steps) / 2 + np.ldexp(0.5, bits)) / 2**AVERAGE_BITS)


class Average:
    """Σ state / step as int32 lines; remembers how large it was, for two directions in turn nearly cancel."""

    def __init__(self, people: LaidOutPeople) -> None:
        self._people = people
        self._lines: NDArray[np.int32] = people.lines(people.n_lines, np.int32)
        #: By how many states are averaged.
        self._expected: dict[int, NDArray[np.float64]] = {}

    def target(self, averaged: Averaged) -> Target:
        """What is to be judged; the threshold is 0. It stands until the next one is asked for."""
        most, n = averaged.greatest, len(averaged.steps)
        expected = np.minimum(most, _ROOM * self._expected[n]) if n in self._expected else most
        units, largest = self._write(averaged, expected)
        if (largest > expected).any():
            units, largest = self._write(averaged, most)
        self._expected[n] = largest
        misses = (0.5 + averaged.roundings / units) * (1 + _SLACK) + _SLACK
        return Target(self._lines, misses)

    def _write(self, averaged: Averaged, greatest: NDArray[np.float64]) -> tuple[NDArray[np.float64], Any]:
        """Lines in units in which everybody's sums fit if no entry is above ``greatest``; and what the greatest is."""
        people = self._people
        # 31 bits, for rounding may add half a unit for each of a person's.
        units = np.ldexp(1.0, np.frexp((greatest + 1) * people.most_units)[1] - 30)
        # As many as a power of two, the rest with factor 0: each number of states is compiled for itself.
        missing = (1 << (len(averaged.steps) - 1).bit_length()) - len(averaged.steps)
        states = averaged.states + averaged.states[:1] * missing
        factors = np.zeros((len(states), people.width))
        factors[: len(averaged.steps)] = [1 / (t * units) for t in averaged.steps]
        found: list[NDArray[np.float64]] = []

        def work(low: int, high: int) -> None:
            largest = np.zeros(people.width)
            lane_steps.mean(states, factors.ravel(), self._lines, largest, low, high, people.lanes)
            found.append(largest)

        people.over(people.n_lines, work)
        return units, np.max(found, axis=0) * units * (1 + _SLACK)


def confusion(
    people: LaidOutPeople,
    tests: Bits,
    negative: Bits,
    left_open: Bits,
    averaged: Averaged,
    evaluation: Callable[[int], Weights],
    n_lanes: int,
) -> NDArray[np.int64]:
    """Lanes x true label x predicted label, from a first look and those it left open.

    Args:
        evaluation: a lane's evaluation weights, line by line, for the third look.
    """
    positive = tests & ~negative & ~left_open
    chosen = np.flatnonzero(left_open)
    if len(chosen):
        chosen = _second_look(people, chosen, averaged, left_open, positive)
    if len(chosen):
        _third_look(people, chosen, evaluation, n_lanes, left_open, positive)
    out = np.zeros((n_lanes, 2, 2), np.int64)
    for label in (0, 1):
        here = tests & people.of_label[label]
        for predicted, bits in ((1, positive), (0, ~positive)):
            counts = np.zeros(people.width, np.int64)
            kernels.count_lanes(bits, here, counts)
            out[:, label, predicted] = counts[:n_lanes]
    return out


def _second_look(
    people: LaidOutPeople,
    chosen: NDArray[np.int64],
    averaged: Averaged,
    left_open: Bits,
    positive: Bits,
) -> NDArray[np.int64]:
    units = people.units[chosen]
    if max(int(a.max()) for a in averaged.largest) * int(units.max()) >= _MAX_SCORE:
        return chosen
    whole = np.zeros(people.width, np.int64)
    pairs = zip(averaged.states, averaged.steps, strict=True)
    parts = [people.true_scores(state, whole, chosen) / t for state, t in pairs]
    middle = np.sum(parts, axis=0)
    miss = units[:, None] * averaged.roundings * (1 + _SLACK) + np.abs(parts).sum(axis=0) * _ROUNDED
    return _write(chosen, middle > 0, np.abs(middle) <= miss, left_open, positive)


def _third_look(
    people: LaidOutPeople,
    chosen: NDArray[np.int64],
    evaluation: Callable[[int], Weights],
    n_lanes: int,
    left_open: Bits,
    positive: Bits,
) -> None:
    lines = people.lines(people.n_lines, np.int64)
    table = lines.reshape(-1, people.width)
    wanted = np.bitwise_or.reduce(left_open[chosen])
    for lane in range(n_lanes):
        if wanted >> lane & 1:
            table[:, lane] = evaluation(lane).mantissas[0]
    scores = people.true_scores(lines, np.zeros(people.width, np.int64), chosen)
    _write(chosen, scores >= 0, np.zeros(scores.shape, np.bool_), left_open, positive)


def _write(
    chosen: NDArray[np.int64],
    up: NDArray[np.bool_],
    unsure: NDArray[np.bool_],
    left_open: Bits,
    positive: Bits,
) -> NDArray[np.int64]:
    """Write what a look found into the open bits; gives the people who still have some."""
    places = np.arange(up.shape[1], dtype=np.uint16)
    ups, still = ((table.astype(np.uint16) << places).sum(axis=1).astype(np.uint16) for table in (up, unsure))
    was = left_open[chosen]
    positive[chosen] = (positive[chosen] & ~was) | (ups & was)
    left_open[chosen] = was & still
    return np.asarray(chosen[left_open[chosen] != 0])
