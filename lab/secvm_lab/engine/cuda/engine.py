"""CudaEngine: full-batch Pegasos for many models at once on a GPU, with the bytes of ``OfflineTraining`` for each.

What ``engine.Engine`` does for sixteen models on processors, for as many as the GPU's memory holds. Data goes to the
device once and stays; a round brings back a few numbers of each model. A round:

 1. Weights of all models, and verdicts of everybody: ``scores``.
 2. Counts, from whichever of the last two rounds' is nearest, by people whose verdict changed; or from none.
 3. The step of Pegasos in the experiment's own integers.

Integers decide everything: bytes depend neither on the order in which a GPU adds nor on which models go together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import ArithmeticRangeError, BadInputError
from secvm.learning.aggregate.convergence import TwoCycle
from secvm.learning.aggregate.descent import Pegasos, State
from secvm.learning.aggregate.descent.pegasos import AVERAGE_BITS
from secvm.learning.aggregate.tally import Tally
from secvm.learning.arithmetic import FIXED_BITS, MAX_MANTISSA, MAX_STATE, power_of_two, shift_right_half_even
from secvm.learning.experiment import Experiment
from secvm_lab.engine.cuda.people import THREADS, DevicePeople, blocks_for, jobs_for
from secvm_lab.engine.cuda.scores import TESTS, TRAINS, LazyScores
from secvm_lab.engine.lane import lanes_of

#: A direction's denominator stays below this: its quotients then have 32 more bits in an int64.
_MAX_DENOMINATOR = 2**30
#: Rows of blocks that a launch can have.
MOST_MODELS = 2**16 - 1


class CudaEngine:
    """The states of some models, and ``advance`` to go on by one round. Secret: it does not print itself."""

    def __init__(
        self,
        people: DevicePeople,
        labels: NDArray[np.int64],
        experiments: Sequence[Experiment],
        *,
        train: NDArray[np.bool_] | None = None,
        test: NDArray[np.bool_] | None = None,
    ) -> None:
        """People once, an experiment for each model; all average the same number of vectors.

        ``train`` and ``test`` are people x models, as ``engine.Engine`` has them.
        """
        n, n_models = people.n_people, len(experiments)
        train = np.ones((n, n_models), np.bool_) if train is None else train
        test = ~train if test is None else test
        if len(labels) != n or not train.shape == test.shape == (n, n_models):
            raise BadInputError("train and test must say of each person and each model whether the person does")
        if n and not (labels.min() >= 0 and labels.max() <= 1):
            raise BadInputError("the engine trains two labels")
        if n_models > MOST_MODELS:
            raise BadInputError(f"a GPU takes up to {MOST_MODELS} models at a time")
        if any(e.n_bins != people.n_bins for e in experiments):
            raise BadInputError("the people were binned for another number of bins")
        participants = np.array([[(column & (labels == c)).sum() for c in (0, 1)] for column in train.T], np.int64)
        self.lanes = lanes_of(experiments, participants, most_in_bin=int(people.frequencies.max()))
        if any(not lane.quick or lane.scale.denominator >= _MAX_DENOMINATOR for lane in self.lanes):
            told = "class weights with so many digits, or a bin with so many units, are beyond a GPU"
            raise BadInputError(told, next_step='Take device="cpu".')
        if len({lane.rule.averaging for lane in self.lanes}) > 1:
            raise BadInputError("models that go together on a GPU average the same number of weight vectors")
        device, lines = people.device, people.n_bins + 1
        xp = device.xp
        averaging = self.lanes[0].rule.averaging
        device.room(n_models * self.bytes_for(n, people.n_bins, averaging))
        self._people, self._device, self._n_models = people, device, n_models
        self._labels = xp.asarray(labels.astype(np.uint8))
        self._signs = xp.asarray(np.where(labels == 1, 1, -1).astype(np.int8))
        self._roles = xp.asarray((TRAINS * train + TESTS * test).astype(np.uint8).T.copy())
        self._scores = LazyScores(people, n_models, self._roles, self._signs)
        self.step = 0
        self.two_cycles = [TwoCycle() for _ in experiments]
        #: Newest first, models x lines.
        self._sums = [xp.zeros((n_models, lines), np.int64) for _ in range(averaging)]
        self._largest = [np.zeros(n_models, np.int64) for _ in self._sums]
        #: Of odd and of even rounds: counts of plus and of minus, and verdicts.
        self._counts = [xp.zeros((n_models, 2, lines), np.int32) for _ in range(2)]
        self._verdicts = [xp.zeros((n_models, n), np.uint8) for _ in range(2)]
        self._below = xp.zeros((n_models, n), np.uint8)
        self._lists = xp.empty(2 * n_models * n, np.int32)
        self._weights = xp.empty((n_models, lines), np.int32)
        factors = [(lane.up, lane.down, lane.scale.numerator, lane.scale.denominator) for lane in self.lanes]
        self._factors = xp.asarray(np.array(factors, np.int64))
        #: Passes over everybody so far to count, of each model, parts counted as parts.
        self.count_passes = np.zeros(n_models)

    def __repr__(self) -> str:
        return f"CudaEngine(<{self._people.n_people} people>, models={self._n_models}, step={self.step})"

    @staticmethod
    def bytes_for(n_people: int, n_bins: int, averaging: int) -> int:
        """Memory that a model takes."""
        own = n_people * (8 + 4) + (n_bins + 1) * (8 * (averaging + 1) + 4 * (2 * 2 + 1))
        return own + LazyScores.bytes_for(n_people, n_bins)

    @property
    def score_passes(self) -> NDArray[np.float64]:
        """Passes over everybody so far to score, of each model, parts counted as parts."""
        return self._scores.passes

    def advance(self) -> None:
        """One round of every model."""
        if self.step == 0:
            self._below[...] = self._roles & TRAINS
        else:
            bits = self._mantissas(self._sums[0], self._largest[0])
            self._scores.judge(self._weights, self._lowers(bits), self._below)
        self._count()
        self._take_step()

    def _lowers(self, bits: list[int]) -> list[int]:
        """Below this signed score a person violates, of each model; most models share theirs."""
        known: dict[tuple[object, ...], int] = {}
        keys = [(b, lane.rule.lambda_, lane.experiment.loss) for lane, b in zip(self.lanes, bits, strict=True)]
        for key, lane in zip(keys, self.lanes, strict=True):
            if key not in known:
                known[key] = lane.lower(power_of_two(key[0] - FIXED_BITS) / (lane.rule.lambda_ * self.step))
        return [known[key] for key in keys]

    def _mantissas(self, values: Any, largest: NDArray[np.int64]) -> list[int]:
        """Write int32 weights; how many bits of each model's were left out."""
        bits = [_mantissa_bits(value) for value in largest.tolist()]
        lines = self._people.n_bins + 1
        given = self._device.xp.asarray(np.array(bits, np.int32))
        grid = (blocks_for(lines), self._n_models)
        self._device.launch("mantissas", grid, THREADS, values, lines, given, self._weights)
        return bits

    def _count(self) -> None:
        """Counts of this round, by people whose verdict changed; (2)."""
        people, device, n, n_models = self._people, self._device, self._people.n_people, self._n_models
        xp = device.xp
        parity = self.step % 2
        now, same, other, counts = self._below, self._verdicts[parity], self._verdicts[1 - parity], self._counts[parity]
        found = xp.zeros((n_models, 4), np.uint64)
        grid = (min(64, blocks_for(n)), n_models)
        device.launch("compare", grid, THREADS, now, same, other, self._labels, n, found)
        of_same, of_other, minus, plus = device.to_host(found).astype(np.int64).T
        # Equal distances: in place first, for nothing need be copied.
        starts = np.argmin(np.stack([of_same, plus + minus, of_other]), axis=0)
        starts = np.array([0, 2, 1], np.int32)[starts]
        for start, source in ((1, self._counts[1 - parity]), (2, None)):
            models = np.flatnonzero(starts == start)
            if len(models):
                counts[models] = 0 if source is None else source[models]
        lengths = xp.zeros(2 * n_models, np.int64)
        grid = (blocks_for(n), n_models)
        device.launch(
            "changes", grid, THREADS, now, same, other, xp.asarray(starts), self._labels, n, self._lists, lengths
        )
        slots, changed = np.arange(2 * n_models), device.to_host(lengths)
        jobs = jobs_for(slots, changed, slots * n)
        if len(jobs):
            people.count(xp.asarray(jobs), self._lists, counts)
        self.count_passes += changed.reshape(-1, 2).sum(axis=1) / max(1, n)
        self._verdicts[parity], self._below = now, same
        self._watch(plus, minus)

    def _watch(self, plus: NDArray[np.int64], minus: NDArray[np.int64]) -> None:
        for k, lane in enumerate(self.lanes):
            tally = Tally(
                plus=plus[k].reshape(1, 1),
                minus=minus[k].reshape(1, 1),
                participants=np.array(lane.participants),
                cells=np.zeros((2, 2), int),
            )
            self.two_cycles[k].watch(tally, self.step + 1)

    def _take_step(self) -> None:
        """The rule's step; (3)."""
        lines, newer = self._people.n_bins + 1, self._sums[-1]  # the oldest falls out; one alone is written in place
        grid = (blocks_for(lines), self._n_models)
        self._device.launch(
            "step", grid, THREADS, self._counts[self.step % 2], lines, self._factors, self._sums[0], newer
        )
        largest = self._most(newer)
        if int(largest.max()) >= MAX_STATE:
            raise ArithmeticRangeError("the state would leave its range")
        self._sums = [newer, *self._sums[:-1]]
        self._largest = [largest, *self._largest[:-1]]
        self.step += 1

    def _most(self, values: Any) -> NDArray[np.int64]:
        lines = self._people.n_bins + 1
        most = self._device.xp.zeros(self._n_models, np.uint64)
        self._device.launch("absolute_most", (min(64, blocks_for(lines)), self._n_models), THREADS, values, lines, most)
        found: NDArray[np.int64] = self._device.to_host(most).astype(np.int64)
        return found

    def cells(self) -> NDArray[np.int64]:
        """Models x true label x predicted label, of each model's test people, under the evaluation weights."""
        if self.step == 0:
            raise BadInputError("there is no model before the first round")
        device, n, n_models, lines = self._device, self._people.n_people, self._n_models, self._people.n_bins + 1
        total = device.xp.zeros((n_models, lines), np.int64)
        used = min(len(self._sums), self.step)
        grid = (blocks_for(lines), n_models)
        for i in range(used):
            if int(self._largest[i].max()) << AVERAGE_BITS >= MAX_STATE * (self.step - i):
                raise ArithmeticRangeError("an average would leave the range of the state")
            device.launch("add_divided", grid, THREADS, self._sums[i], lines, self.step - i, AVERAGE_BITS, total)
        largest = self._most(total)
        if int(largest.max()) >= MAX_STATE:
            raise ArithmeticRangeError("an average would leave the range of the state")
        self._mantissas(total, largest)
        self._scores.judge_beside(self._weights, self._below)
        found = device.xp.zeros((n_models, 2, 2), np.uint64)
        grid = (min(64, blocks_for(n)), n_models)
        device.launch("confusion", grid, THREADS, self._below, self._roles, TESTS, self._labels, n, found)
        cells: NDArray[np.int64] = device.to_host(found).astype(np.int64)
        return cells

    def state(self, model: int) -> State:
        """The state of one model, as ``OfflineTraining`` has it."""
        vectors = {f"sum_{i}": self._device.to_host(sums[model])[None, :].copy() for i, sums in enumerate(self._sums)}
        return State(rule=Pegasos.name, step=self.step, vectors=vectors)

    def violates(self, model: int) -> NDArray[np.bool_]:
        """Who sent an update for a model in the last round."""
        found: NDArray[np.bool_] = self._device.to_host(self._verdicts[(self.step - 1) % 2][model]).astype(np.bool_)
        return found


def _mantissa_bits(largest: int) -> int:
    """What ``arithmetic.mantissas`` leaves out of integers up to this."""
    bits = max(0, largest.bit_length() - 31)
    shifted = int(shift_right_half_even(np.array([largest], np.int64), bits)[0])
    return bits + (shifted > MAX_MANTISSA)
