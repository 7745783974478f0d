"""Engine: full-batch Pegasos for up to sixteen models at once, with the state bytes of ``OfflineTraining`` for each.

The models share people, bins and labels; each has its own train people, λ, class weights and loss. A round:

 1. Shortened weights of all models, one line per bin; shortened sums of everybody, all models in one pass.
 2. Verdicts. What shortened sums leave open is settled by true scores, so that every verdict is exact.
 3. Counts. The verdicts of a round are nearly those of two rounds before, so there are two sets of counts, for odd and
    for even rounds, and only people whose verdict changed are counted, up or down. Where the last round's counts or
    none at all are nearer, it starts from those.
 4. The step of Pegasos in the experiment's own integers.

Nothing here is a float that matters: the result depends neither on the number of threads nor on which models share a
pass. Test people's sums come out of the same pass (``cells``): those of a model are the people it does not train on, or
those it is told, for somebody may belong to neither.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.errors import ArithmeticRangeError, BadInputError
from secvm.estimator.engine.evaluation import Average, Averaged, confusion
from secvm.estimator.engine.lane import LANES, lanes_of
from secvm.estimator.engine.lazy import LazyScores, Target
from secvm.estimator.engine.people import Bits, LaidOutPeople
from secvm.learning._kernels import lane_steps
from secvm.learning._kernels import lanes as kernels
from secvm.learning._kernels.layout import PreparedRows, prepare
from secvm.learning.aggregate.convergence import TwoCycle
from secvm.learning.aggregate.descent import State
from secvm.learning.aggregate.tally import Tally
from secvm.learning.arithmetic import FIXED_BITS, MAX_MANTISSA, MAX_STATE, power_of_two, shift_right_half_even, to_fixed
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows
from secvm.learning.weights import Weights

#: Lines as long as these: the smallest that holds all models.
_WIDTHS = (1, 4, LANES)


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What one round cost and found."""

    number: int
    #: Per model, violators of the positive and of the negative label.
    violators: tuple[tuple[int, int], ...]
    #: Shares of everybody that were scored, counted, and scored again truly.
    scored: float
    counted: float
    settled: float


class Engine:
    """The states of up to sixteen models, and ``advance`` to go on by one round."""

    def __init__(
        self,
        people: PreparedRows | BinnedRows,
        labels: NDArray[np.int64],
        experiments: Sequence[Experiment],
        *,
        train: NDArray[np.bool_] | None = None,
        test: NDArray[np.bool_] | None = None,
        threads: int = 1,
        lazy: bool = True,
    ) -> None:
        """People once, an experiment for each model.

        Args:
            people: binned rows, or rows laid out already (which then need not be kept twice).
            labels: 0 or 1 for each person.
            train: people x models, True where a person trains a model; None: everybody trains all.
            test: people x models, True where ``cells`` predicts a person; None: everybody who does not train the model.
            lazy: score only who is in doubt; the result is the same.
        """
        prepared = prepare(people) if isinstance(people, BinnedRows) else people
        n, n_models = prepared.n_people, len(experiments)
        width = next((w for w in _WIDTHS if w >= n_models), LANES)
        threads = min(threads, os.cpu_count() or 1)
        self._people = LaidOutPeople(prepared, np.asarray(labels, np.int64), lanes=width, threads=threads)
        if any(e.n_bins != prepared.n_bins for e in experiments):
            raise BadInputError("the people were binned for another number of bins")
        if train is None:
            train = np.ones((n, n_models), np.bool_)
        if train.shape != (n, n_models):
            raise BadInputError("train must say of each person and each model whether the person trains it")
        if test is not None and test.shape != train.shape:
            raise BadInputError("test must say of each person and each model whether the person tests it")
        participants = np.array([[(column & (labels == c)).sum() for c in (0, 1)] for column in train.T], np.int64)
        self.lanes = lanes_of(experiments, participants, most_in_bin=self._people.most_in_bin())
        self._trains = _bits(train)
        self._tests = _bits(~train if test is None else test)
        self.step = 0
        self.two_cycles = [TwoCycle() for _ in experiments]
        lines = self._people.n_lines
        #: Newest first, as many as are averaged.
        self._sums = [self._people.lines(lines, np.int64) for _ in range(self.lanes[0].rule.averaging)]
        self._counts = [self._people.lines(2 * lines, np.int32) for _ in range(2)]
        self._verdicts: list[Bits] = [np.zeros(n, np.uint16) for _ in range(2)]
        #: Per lane the greatest absolute value of each sum.
        self._largest = [np.zeros(width, np.int64) for _ in self._sums]
        self._weights = self._people.lines(lines, np.int32)
        self._average = Average(self._people)
        self._scores = LazyScores(self._people, lazy=lazy)
        self._factor_lines = self._factors(width)
        self._guesses = 2.0**FIXED_BITS / self._factor_lines[3 * width :]
        #: Passes over everybody so far to count and to settle, parts of them counted as parts.
        self.count_passes = 0.0
        self.settled_passes = 0.0

    def __repr__(self) -> str:
        return f"Engine(<{len(self._trains)} people>, models={len(self.lanes)}, step={self.step})"

    def _factors(self, width: int) -> NDArray[np.int64]:
        """Lines of ups, downs, numerators and denominators; models that are not there stand still."""
        table = np.zeros((4, width), np.int64)
        table[3] = 1
        for k, lane in enumerate(self.lanes):
            if lane.quick:
                table[:, k] = lane.up, lane.down, lane.scale.numerator, lane.scale.denominator
        return table.ravel()

    @property
    def score_passes(self) -> float:
        """Passes over everybody so far to score, parts of them counted as parts."""
        return self._scores.passes

    def advance(self) -> EngineReport:
        """One round of every model."""
        before = self.score_passes, self.count_passes, self.settled_passes
        parity = self.step % 2
        now = self._trains if self.step == 0 else self._violators()
        self._count(parity, now)
        violators = self._watch(now)
        self._take_step(parity)
        after = self.score_passes, self.count_passes, self.settled_passes
        costs = (b - a for a, b in zip(before, after, strict=True))
        return EngineReport(self.step, violators, *costs)

    def _violators(self) -> Bits:
        """Who violates under the current weights; (1) and (2)."""
        people, n = self._people, len(self._trains)
        largest = self._largest[0].tolist()
        bits = np.array([_mantissa_bits(value) for value in largest], np.int64)
        # A sum of at most ``most_units`` mantissas, each rounded up by at most one, must stay below 2^31.
        greatest = [(value >> b) + 2 for value, b in zip(largest, bits.tolist(), strict=True)]
        shorter = np.array([max(0, (g * people.most_units).bit_length() - 31) for g in greatest], np.int64)

        def shorten(low: int, high: int) -> None:
            lane_steps.shorten(self._sums[0], bits, shorter, self._weights, low, high, people.lanes)

        people.over(people.n_lines, shorten)
        lowers = np.zeros(people.width, np.int64)
        for k, lane in enumerate(self.lanes):
            unit = power_of_two(int(bits[k]) - FIXED_BITS) / (lane.rule.lambda_ * self.step)
            lowers[k] = lane.lower(unit)
        target = Target(self._weights, np.ldexp(lowers.astype(np.float64), -shorter), np.where(shorter > 0, 0.5, 0.0))
        violates, left_open = self._scores.judge(target, people.signs, self._trains)
        chosen = np.flatnonzero(left_open)
        if len(chosen):
            truly = people.true_scores(self._sums[0], bits, chosen)
            kernels.settle(truly, chosen, people.signs, lowers, left_open, violates)
            self.settled_passes += len(chosen) / n
        return violates

    def _count(self, parity: int, now: Bits) -> None:
        """Counts of this round, from whichever known counts are nearest; (3)."""
        same, other = self._verdicts[parity], self._verdicts[1 - parity]
        distances = {"same": (now != same).sum(), "other": (now != other).sum(), "none": (now != 0).sum()}
        # Equal distances: in place first, for nothing need be copied.
        start = min(distances, key=lambda name: (distances[name], ("same", "none", "other").index(name)))
        counts = self._counts[parity]
        if start == "other":
            counts[:] = self._counts[1 - parity]
        elif start == "none":
            counts[:] = 0
        then = {"same": same, "other": other, "none": np.zeros_like(now)}[start]
        self.count_passes += self._people.count(counts, now, then) / max(1, len(now))
        self._verdicts[parity] = now

    def _watch(self, now: Bits) -> tuple[tuple[int, int], ...]:
        sides = np.zeros((2, self._people.width), np.int64)
        for side, label in enumerate((1, 0)):
            kernels.count_lanes(now, self._people.of_label[label], sides[side])
        for k, lane in enumerate(self.lanes):
            plus, minus = sides[:, k].reshape(2, 1, 1)
            tally = Tally(plus=plus, minus=minus, participants=np.array(lane.participants), cells=np.zeros((2, 2), int))
            self.two_cycles[k].watch(tally, self.step + 1)
        return tuple((int(sides[0, k]), int(sides[1, k])) for k in range(len(self.lanes)))

    def _take_step(self, parity: int) -> None:
        """The rule's step; (4)."""
        people, counts, older = self._people, self._counts[parity], self._sums[0]
        newer = self._sums[-1]  # the oldest falls out; with one alone the step is in place
        slow = {k: self._slow_step(k, counts) for k, lane in enumerate(self.lanes) if not lane.quick}
        found: list[NDArray[np.int64]] = []

        def step(low: int, high: int) -> None:
            largest = np.zeros(people.width, np.int64)
            lane_steps.step(
                counts,
                people.n_lines,
                older,
                newer,
                self._factor_lines,
                self._guesses,
                largest,
                low,
                high,
                people.lanes,
            )
            found.append(largest)

        people.over(people.n_lines, step)
        largest = np.max(found, axis=0)
        for k, column in slow.items():
            newer.reshape(-1, people.width)[:, k] = column
            largest[k] = np.abs(column).max()
        if int(largest.max()) >= MAX_STATE:
            raise ArithmeticRangeError("the state would leave its range")
        self._sums = [newer, *self._sums[:-1]]
        self._largest = [largest, *self._largest[:-1]]
        self.step += 1

    def _slow_step(self, model: int, counts: NDArray[np.int32]) -> NDArray[np.int64]:
        """A model's next sum where its factors are too long for the quick rounding."""
        lane, width = self.lanes[model], self._people.width
        plus, minus = counts.reshape(2, -1, width)[:, :, model].astype(np.int64)
        increment = to_fixed(lane.up * plus - lane.down * minus, lane.scale)
        return np.asarray(self._sums[0].reshape(-1, width)[:, model] + increment)

    def state(self, model: int) -> State:
        """The state of one model, as ``OfflineTraining`` has it."""
        prepared = self._people.prepared
        vectors = {}
        for i, flat in enumerate(self._sums):
            column = flat.reshape(-1, self._people.width)[:, model]
            vectors[f"sum_{i}"] = np.append(column[prepared.slots], column[-1])[None, :]
        return State(rule="pegasos", step=self.step, vectors=vectors)

    def violates(self, model: int) -> NDArray[np.bool_]:
        """Who sent an update for a model in the last round."""
        last = self._verdicts[(self.step - 1) % 2]
        return (last >> np.uint16(model) & np.uint16(1)).astype(np.bool_)

    def cells(self) -> NDArray[np.int64]:
        """Models x true label x predicted label, of each model's test people."""
        if self.step == 0:
            raise BadInputError("there is no model before the first round")
        people, used = self._people, min(len(self._sums), self.step)
        averaged = Averaged(
            tuple(self.step - i for i in range(used)), tuple(self._sums[:used]), tuple(self._largest[:used])
        )
        target = self._average.target(averaged)
        negative, left_open = self._scores.judge_beside(target, np.ones_like(people.signs), self._tests)
        return confusion(people, self._tests, negative, left_open, averaged, self.evaluation_weights, len(self.lanes))

    def evaluation_weights(self, model: int) -> Weights:
        """What a model serves."""
        return self.lanes[model].rule.evaluation_weights(self.state(model))


def _bits(table: NDArray[np.bool_]) -> Bits:
    """People x models as one uint16 for each person."""
    out = np.zeros(len(table), np.uint16)
    for k in range(table.shape[1]):
        out |= table[:, k].astype(np.uint16) << np.uint16(k)
    return out


def _mantissa_bits(largest: int) -> int:
    """What ``arithmetic.mantissas`` leaves out of integers up to this."""
    bits = max(0, largest.bit_length() - 31)
    shifted = int(shift_right_half_even(np.array([largest], np.int64), bits)[0])
    return bits + (shifted > MAX_MANTISSA)
