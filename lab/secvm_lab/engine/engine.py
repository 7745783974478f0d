"""Engine: full-batch Pegasos for up to sixteen models at once, with the state bytes of ``OfflineTraining`` for each.

The models share people, bins and labels; each has its own train people, λ, class weights and loss. Models that are
bound to agree for a while may share a lane until they part (``company``). A round:

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
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from secvm.errors import ArithmeticRangeError, BadInputError
from secvm.learning._kernels.layout import PreparedRows, prepare
from secvm.learning.aggregate.convergence import TwoCycle
from secvm.learning.aggregate.descent import Pegasos, State
from secvm.learning.aggregate.tally import Tally
from secvm.learning.arithmetic import FIXED_BITS, MAX_MANTISSA, MAX_STATE, power_of_two, shift_right_half_even, to_fixed
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows
from secvm.learning.weights import Weights
from secvm_lab._kernels import lane_steps
from secvm_lab._kernels import lanes as kernels
from secvm_lab.engine.collapsed import CollapsedRows
from secvm_lab.engine.company import PUT_OFF, Company
from secvm_lab.engine.evaluation import Average, Averaged, confusion
from secvm_lab.engine.lane import LANES, Lane, lanes_of
from secvm_lab.engine.lazy import LazyScores, Question, Target, open_people
from secvm_lab.engine.people import Bits, LaidOutPeople, bits_of, take_bits, take_lanes

#: Lines as long as these: the smallest that holds all lanes.
WIDTHS = (1, 4, LANES)
#: Bytes for each line and lane besides sums: counts of two rounds and both signs, weights, an average, references.
_LANE_BYTES = 4 * (2 * 2 + 1 + 1 + 4)


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What one round cost and found."""

    number: int
    #: Per model, violators of the positive and of the negative label; none for a model that was put off.
    violators: tuple[tuple[int, int], ...]
    #: Lanes that all models together took.
    lanes: int
    #: Shares of everybody that were scored, counted, and scored again truly.
    scored: float
    counted: float
    settled: float


def lane_bytes(n_lines: int, averaging: int) -> int:
    """Memory that one more lane takes, people's own share left out."""
    return n_lines * (8 * averaging + _LANE_BYTES)


class Engine:
    """The states of up to sixteen models, and ``advance`` to go on by one round."""

    def __init__(
        self,
        people: PreparedRows | BinnedRows | CollapsedRows | LaidOutPeople,
        labels: NDArray[np.int64],
        experiments: Sequence[Experiment],
        *,
        train: NDArray[np.bool_] | None = None,
        test: NDArray[np.bool_] | None = None,
        threads: int = 1,
        lazy: bool = True,
        share: bool = False,
        room: int = LANES,
    ) -> None:
        """People once, an experiment for each model.

        Args:
            people: binned rows, or rows laid out already (which then need not be kept twice).
            labels: 0 or 1 for each person.
            train: people x models, True where a person trains a model; None: everybody trains all.
            test: people x models, True where ``cells`` predicts a person; None: everybody who does not train the model.
            lazy: score only who is in doubt; the result is the same.
            share: let models travel on one lane while they agree; the result is the same.
            room: lanes there can be. With ``share`` there may be more models; those that find no room when they part
                are ``put_off``.
        """
        self._people = lay_out(people, labels, threads)
        if any(e.n_bins != self._people.n_bins for e in experiments):
            raise BadInputError("the people were binned for another number of bins")
        n, n_models = len(labels), len(experiments)
        if train is None:
            train = np.ones((n, n_models), np.bool_)
        if train.shape != (n, n_models):
            raise BadInputError("train must say of each person and each model whether the person trains it")
        if test is None:
            test = ~train
        if test.shape != train.shape:
            raise BadInputError("test must say of each person and each model whether the person tests it")
        participants = np.array([[(column & (labels == c)).sum() for c in (0, 1)] for column in train.T], np.int64)
        #: One for each model.
        self.lanes = lanes_of(experiments, participants, most_in_bin=self._people.most_in_bin)
        self._company = Company(origins(self.lanes, train, test) if share else range(n_models))
        if not 1 <= self._company.n_lanes <= room <= LANES:
            raise BadInputError(f"an engine takes 1 to {min(room, LANES)} models at a time")
        self._room = room
        self._people.set_width(width_for(self._company.n_lanes))
        leaders = self._company.leaders
        self._trains, self._tests = bits_of(train[:, leaders]), bits_of(test[:, leaders])
        self.step = 0
        self.two_cycles = [TwoCycle() for _ in experiments]
        lines, width = self._people.n_lines, self._people.width
        #: Newest first, as many as any model averages.
        averaged = max(lane.rule.averaging for lane in self.lanes)
        self._sums = [self._people.lines(lines, np.int64) for _ in range(averaged)]
        self._counts = [self._people.lines(2 * lines, np.int32) for _ in range(2)]
        self._verdicts: list[Bits] = [np.zeros(n, np.uint16) for _ in range(2)]
        #: Per lane the greatest absolute value of each sum.
        self._largest = [np.zeros(width, np.int64) for _ in self._sums]
        self._weights = self._people.lines(lines, np.int32)
        self._average = Average(self._people)
        self._scores = LazyScores(self._people, lazy=lazy)
        self._set_factors()
        #: Passes over everybody so far to count and to settle, parts of them counted as parts.
        self.count_passes = 0.0
        self.settled_passes = 0.0

    def __repr__(self) -> str:
        return f"Engine(<{len(self._trains)} people>, models={len(self.lanes)}, step={self.step})"

    def _set_factors(self) -> None:
        """Lines of ups, downs, numerators and denominators; lanes that are not there stand still."""
        width = self._people.width
        table = np.zeros((4, width), np.int64)
        table[3] = 1
        for k, model in enumerate(self._company.leaders):
            lane = self.lanes[model]
            if lane.quick:
                table[:, k] = lane.up, lane.down, lane.scale.numerator, lane.scale.denominator
        self._factor_lines = table.ravel()
        self._guesses = 2.0**FIXED_BITS / table[3]

    @property
    def put_off(self) -> list[int]:
        """Models that have no lane any more; they are to be trained another time."""
        return [model for model, lane in enumerate(self._company.lane_of) if lane == PUT_OFF]

    def shared_rounds(self, model: int) -> int:
        """Rounds that a model did not need a lane of its own for."""
        return self._company.shared_rounds[model]

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
        self._company.count_round()
        after = self.score_passes, self.count_passes, self.settled_passes
        costs = (b - a for a, b in zip(before, after, strict=True))
        return EngineReport(self.step, violators, self._company.n_lanes, *costs)

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
        lowers = [0] * len(self.lanes)
        for model in self._company.active:
            lane = self.lanes[model]
            bits_out = int(bits[self._company.lane_of[model]])
            lowers[model] = lane.lower(power_of_two(bits_out - FIXED_BITS) / (lane.rule.lambda_ * self.step))
        rung_of, table, meant = self._company.rungs(lowers)
        table = np.pad(table, ((0, 0), (0, people.width - table.shape[1])))
        questions = [
            Question(np.ldexp(row.astype(np.float64), -shorter), self._trains & np.uint16(here))
            for row, here in zip(table, meant, strict=True)
        ]
        target = Target(self._weights, np.where(shorter > 0, 0.5, 0.0))
        answers = self._scores.judge(target, people.signs, questions)
        chosen = open_people(answers)
        if len(chosen):
            truly = people.true_scores(self._sums[0], bits, chosen)
            for answer, row in zip(answers, table, strict=True):
                kernels.settle(truly, chosen, people.signs, row, answer.left_open, answer.below)
            self.settled_passes += len(chosen) / n
        lanes_before = self._company.n_lanes
        sources, now = self._company.part([answer.below for answer in answers], rung_of, self._room)
        if len(sources) > lanes_before:
            self._fork(sources)
        return now

    def _fork(self, sources: list[int]) -> None:
        """Some lanes go on as two: each lane has what its source had."""
        people, before = self._people, self._people.width
        people.set_width(width_for(len(sources)))
        self._trains, self._tests = take_bits(self._trains, sources), take_bits(self._tests, sources)
        self._verdicts = [take_bits(bits, sources) for bits in self._verdicts]
        for arrays in (self._sums, self._counts, self._largest):
            for i, flat in enumerate(arrays):
                arrays[i] = take_lanes(flat, sources, before, people.width)
        self._weights = people.lines(people.n_lines, np.int32)
        self._average = Average(people)
        self._scores.take_lanes(sources, before)
        self._set_factors()

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
        found = [(0, 0)] * len(self.lanes)
        for model in self._company.active:
            here, participants = self._company.lane_of[model], np.array(self.lanes[model].participants)
            plus, minus = sides[:, here].reshape(2, 1, 1)
            tally = Tally(plus=plus, minus=minus, participants=participants, cells=np.zeros((2, 2), int))
            self.two_cycles[model].watch(tally, self.step + 1)
            found[model] = int(sides[0, here]), int(sides[1, here])
        return tuple(found)

    def _take_step(self, parity: int) -> None:
        """The rule's step; (4)."""
        people, counts, older = self._people, self._counts[parity], self._sums[0]
        newer = self._sums[-1]  # the oldest falls out; with one alone the step is in place
        leaders = enumerate(self._company.leaders)
        slow = {k: self._slow_step(k, model, counts) for k, model in leaders if not self.lanes[model].quick}
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

    def _slow_step(self, k: int, model: int, counts: NDArray[np.int32]) -> NDArray[np.int64]:
        """A lane's next sum where its factors are too long for the quick rounding."""
        lane, width = self.lanes[model], self._people.width
        plus, minus = counts.reshape(2, -1, width)[:, :, k].astype(np.int64)
        increment = to_fixed(lane.up * plus - lane.down * minus, lane.scale)
        return np.asarray(self._sums[0].reshape(-1, width)[:, k] + increment)

    def _lane_of(self, model: int) -> int:
        lane = self._company.lane_of[model]
        if lane == PUT_OFF:
            raise BadInputError("this model was put off, for there was no lane left when it parted from others")
        return lane

    def state(self, model: int) -> State:
        """The state of one model, as ``OfflineTraining`` has it."""
        lane, width = self._lane_of(model), self._people.width
        columns = (flat.reshape(-1, width)[:, lane] for flat in self._sums[: self.lanes[model].rule.averaging])
        vectors = {f"sum_{i}": self._people.by_bin(column)[None, :] for i, column in enumerate(columns)}
        return State(rule=Pegasos.name, step=self.step, vectors=vectors)

    def violates(self, model: int) -> NDArray[np.bool_]:
        """Who sent an update for a model in the last round."""
        last = self._verdicts[(self.step - 1) % 2]
        return (last >> np.uint16(self._lane_of(model)) & np.uint16(1)).astype(np.bool_)

    def cells(self) -> NDArray[np.int64]:
        """Models x true label x predicted label, of each model's test people; zeros for models that were put off."""
        if self.step == 0:
            raise BadInputError("there is no model before the first round")
        out = np.zeros((len(self.lanes), 2, 2), np.int64)
        by_length: dict[int, list[int]] = {}
        for model in self._company.active:
            by_length.setdefault(min(self.lanes[model].rule.averaging, self.step), []).append(model)
        for used, models in by_length.items():
            lanes = [self._company.lane_of[model] for model in models]
            out[models] = self._cells(used, set(lanes))[lanes]
        return out

    def _cells(self, used: int, lanes: set[int]) -> NDArray[np.int64]:
        """Of some lanes, under the average of so many states; lanes x 2 x 2."""
        people, n_lanes = self._people, self._company.n_lanes
        averaged = Averaged(
            tuple(self.step - i for i in range(used)), tuple(self._sums[:used]), tuple(self._largest[:used])
        )
        tests = self._tests & np.uint16(sum(1 << lane for lane in lanes))
        question = Question(np.zeros(people.width), tests)
        answer = self._scores.judge_beside(self._average.target(averaged), np.ones_like(people.signs), question)

        def evaluation(lane: int) -> Weights:
            columns = (flat.reshape(-1, people.width)[:, lane] for flat in averaged.states)
            vectors = {f"sum_{i}": column[None, :] for i, column in enumerate(columns)}
            rule = replace(self.lanes[self._company.leaders[lane]].rule, averaging=used)
            return rule.evaluation_weights(State(rule=Pegasos.name, step=self.step, vectors=vectors))

        return confusion(people, tests, answer.below, answer.left_open, averaged, evaluation, n_lanes)

    def evaluation_weights(self, model: int) -> Weights:
        """What a model serves."""
        return self.lanes[model].rule.evaluation_weights(self.state(model))


def lay_out(
    people: PreparedRows | BinnedRows | CollapsedRows | LaidOutPeople, labels: NDArray[np.int64], threads: int
) -> LaidOutPeople:
    """People with their labels, ready for engines, one at a time."""
    if isinstance(people, LaidOutPeople):
        return people
    prepared = prepare(people) if isinstance(people, BinnedRows) else people
    return LaidOutPeople(prepared, np.asarray(labels, np.int64), threads=min(threads, os.cpu_count() or 1))


def width_for(n_lanes: int) -> int:
    """How long lines are for so many lanes."""
    return next(width for width in WIDTHS if width >= min(n_lanes, LANES))


def origins(lanes: Sequence[Lane], train: NDArray[np.bool_], test: NDArray[np.bool_]) -> list[Hashable]:
    """What models must have in common to begin on one lane."""
    people = [(np.packbits(a).tobytes(), np.packbits(b).tobytes()) for a, b in zip(train.T, test.T, strict=True)]
    return [(lane.way, *sets) for lane, sets in zip(lanes, people, strict=True)]


def _mantissa_bits(largest: int) -> int:
    """What ``arithmetic.mantissas`` leaves out of integers up to this."""
    bits = max(0, largest.bit_length() - 31)
    shifted = int(shift_right_half_even(np.array([largest], np.int64), bits)[0])
    return bits + (shifted > MAX_MANTISSA)
