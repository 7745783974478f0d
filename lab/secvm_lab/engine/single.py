"""One model trained alone: by rows as they come, or by an engine of one lane, whichever reads people least.

SingleTraining: ``OfflineTraining`` of one model by swift, for people who are all there every time.

Swift needs few rounds, so that laying people out would take longer than the rounds themselves. Rows are read as they
are, and seldom:

 1. Verdicts change little from round to round: only people whose verdict changed are counted, up or down.
 2. Scores of everybody are known under the weights of a few earlier rounds. New weights are a combination of those and
    a remainder r, and a score the same combination, give or take ‖x‖ ‖r‖. Who that leaves in doubt is scored.

As long as the same people violate, swift's weights are nearly multiples of each other, and nobody is in doubt. Verdicts
and tallies are the integers of ``OfflineTraining``; all else is its own code.

EngineTraining: ``OfflineTraining`` by an engine of one model, for those who train it alone.

The same rounds, reports and states; only the tally of a round is not written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.estimator.training import Attendance, OfflineTraining, Population, TrainingRound
from secvm.learning import aggregate
from secvm.learning._kernels.layout import PIECES_PER_THREAD, cut_range, share_out
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.individual.update import NORM_BITS, bands, fixed_norm
from secvm.learning.weights import Weights
from secvm_lab._kernels import single
from secvm_lab.engine.engine import Engine
from secvm_lab.engine.lane import why_not, why_not_single

#: Rounds whose scores are kept.
_KEPT = 3
#: Bins that take part in finding coefficients, about.
_SAMPLE = 4096
#: Coefficients beyond this would cost more digits than floats have to spare.
_MAX_COEFFICIENT = 2.0**10
#: Norms are rounded up by far more than a sum of so many floats can lose.
_UP = 1 + 2.0**-24
#: What floats lose of a score of up to 2^53, and of each unit's mantissa of up to 2^31, for each unit of coefficients.
_SCORE_LOST, _UNIT_LOST = 2.0**4, 2.0**31 * 2.0**-49
#: People below this are done faster than handed out.
_WORTH_SHARING = 256
#: Squared norms up to this have a norm whose square is an int64.
_SMALL = 2**30


class SingleTraining(OfflineTraining):
    """One model's rounds."""

    def __init__(self, experiment: Experiment, people: Population, *, seed: bytes = b"", threads: int = 1) -> None:
        refused = why_not_single(experiment)
        if refused is not None or people.multiplicity is not None:
            raise BadInputError(refused or "a single training knows no sample weights; use OfflineTraining")
        super().__init__(experiment, seed=seed, threads=threads)
        self.rows = SingleRows(experiment, people, threads=self._threads)

    def _prepare(self, people: Population) -> SingleRows:  # type: ignore[override]  # it does the same
        if people is not self.rows.people:
            raise BadInputError("a single training is for the people it was made for; use OfflineTraining for others")
        return self.rows

    def cells(self, test: NDArray[np.int64]) -> NDArray[np.int64]:
        """The confusion of some people, true by predicted label, under the evaluation weights."""
        weights = aggregate.evaluation_weights(self.experiment, self.state)
        predicted = self.rows.predict(np.ascontiguousarray(weights.mantissas[0]), test)
        flat = np.bincount(self.rows.people.labels[test] * 2 + predicted, minlength=4)
        return np.asarray(flat.reshape(2, 2), np.int64)


class SingleRows:
    """People, and what was found of them so far. Secret: it does not print itself."""

    def __init__(self, experiment: Experiment, people: Population, *, threads: int) -> None:
        rows = people.rows
        if rows.n_bins != experiment.n_bins:
            raise BadInputError("the people were binned for another number of bins")
        self.people = people
        self._experiment = experiment
        self._threads = threads
        self._csr = (rows.indptr, rows.bins, rows.values)
        n = len(people)
        self._label_signs = np.ascontiguousarray(experiment.models.signs[people.labels][:, 0])
        self._here = np.ones(n, np.bool_) if people.train is None else people.train
        self._signs = np.where(self._here, self._label_signs, 0).astype(np.int8)
        self._squares, self._units, self._amounts = (np.empty(n, np.int64) for _ in range(3))
        # The first round's tally, in which everybody violates; norms are found on the way.
        facts = (self._signs, self._squares, self._units, self._amounts)
        self._counts = self._count(np.arange(n), single.count_everybody, facts)
        self._fixed_norms = fixed_norms(self._squares)
        self._norms = np.sqrt(self._squares.astype(np.float64))
        self._sample = slice(None, None, -(-rows.n_bins // _SAMPLE))
        #: Newest first: mantissas as floats, and everybody's scores.
        self._known: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
        #: Passes over everybody so far to score and to count, parts of them counted as parts.
        self.score_passes = 0.0
        self.count_passes = 1.0

    def _share(self, n: int, work: Callable[[Iterable[tuple[int, int]]], None]) -> None:
        """Pieces of 0 to n, for each thread some."""
        threads = self._threads if n >= _WORTH_SHARING else 1
        share_out(cut_range(n, threads * PIECES_PER_THREAD if threads > 1 else 1), work, threads)

    def score(self, mantissas: NDArray[np.int32], chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Scores of chosen people."""
        out = np.empty(len(chosen), np.int64)

        def work(pieces: Iterable[tuple[int, int]]) -> None:
            for low, high in pieces:
                single.score_chosen(*self._csr, mantissas, chosen, out, low, high)

        self._share(len(chosen), work)
        return out

    def verdicts(self, weights: Weights, round_number: int, here: NDArray[np.bool_]) -> NDArray[np.int8]:
        """People x 1: the sign of each person's update, as ``OfflineTraining`` asks."""
        if weights.first:
            return np.where(here, self._label_signs, 0).astype(np.int8)[:, None]
        n = len(self.people)
        thresholds = self._experiment.loss.thresholds(np.zeros(n, np.int64))
        lowers, _ = bands(thresholds=thresholds, width=0, norms=self._fixed_norms, unit=weights.unit)
        mantissas = np.ascontiguousarray(weights.mantissas[0])
        below, doubtful = self._guess(mantissas, lowers, self._label_signs)
        chosen = np.flatnonzero(doubtful & here)
        # Half of everybody in doubt: then rather all, who are known from now on.
        if 2 * len(chosen) > here.sum():
            chosen = np.arange(n)
        scores = self.score(mantissas, chosen)
        self.score_passes += len(chosen) / n
        below[chosen] = self._label_signs[chosen] * scores < lowers[chosen]
        if len(chosen) == n:
            self._known = [(mantissas.astype(np.float64), scores.astype(np.float64)), *self._known[: _KEPT - 1]]
        return np.where(here & below, self._label_signs, 0).astype(np.int8)[:, None]

    def _guess(
        self, mantissas: NDArray[np.int32], lowers: NDArray[np.int64] | int, signs: NDArray[np.int8] | int
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whose signed score is below, and of whom that is not certain."""
        rest, middle, size = mantissas.astype(np.float64), np.zeros(len(self.people)), 1.0
        for c, (vector, scores) in zip(self._coefficients(rest), self._known, strict=False):
            rest -= c * vector
            middle += c * scores
            size += abs(c)
        # By Cauchy and Schwarz; and more than floats can lose.
        norm = np.sqrt(np.square(rest).sum()) * _UP
        bound = self._norms * norm + self._units * (size * _UNIT_LOST) + (size * _SCORE_LOST)
        bound += np.abs(lowers) * 2.0**-50
        apart = signs * middle - lowers
        return apart < 0, np.abs(apart) <= bound

    def _coefficients(self, mantissas: NDArray[np.float64]) -> list[float]:
        """By least squares over some bins. Any would do: they make the bound small or large, never wrong."""
        if not self._known:
            return []
        known = np.stack([vector[self._sample] for vector, _ in self._known])
        # Without BLAS, whose threads take longer to wake than this takes.
        gram = np.einsum("ik,jk->ij", known, known)
        # A trace of a ridge: two may be the same.
        gram += (np.trace(gram) * 2.0**-48 + 1.0) * np.eye(len(gram))
        found = np.linalg.solve(gram, np.einsum("ik,k->i", known, mantissas[self._sample]))
        if not np.isfinite(found).all() or np.abs(found).sum() > _MAX_COEFFICIENT:
            return []
        return [float(c) for c in found]

    def predict(self, mantissas: NDArray[np.int32], chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whose score is not negative, of chosen people."""
        negative, doubtful = (bits[chosen] for bits in self._guess(mantissas, 0, 1))
        left = np.flatnonzero(doubtful)
        negative[left] = self.score(mantissas, chosen[left]) < 0
        return np.asarray(~negative)

    def tally(
        self, weights: Weights, signs: NDArray[np.int8], round_number: int, here: NDArray[np.bool_]
    ) -> tuple[Tally, int]:
        """The round's tally and the number of packages behind it, as ``OfflineTraining`` asks."""
        now = signs[:, 0]
        changed = np.flatnonzero(now != self._signs)
        if len(changed) > np.count_nonzero(now):
            self._counts[:] = 0
            changed = np.flatnonzero(now)
        if len(changed):
            amounts = self._amounts * np.where(now != 0, 1, -1)
            self._counts += self._count(changed, single.count_chosen, (self._label_signs, amounts))
            self.count_passes += len(changed) / len(now)
        self._signs = now
        labels = self.people.labels
        participants = np.array([np.count_nonzero(here & (labels == c)) for c in (0, 1)], np.int64)
        plus, minus = self._counts[:, None, :].copy()
        tally = Tally(plus=plus, minus=minus, participants=participants, cells=np.zeros((2, 2), np.int64))
        return tally, int(self._units[now != 0].sum())

    def _count(self, chosen: NDArray[np.int64], kernel: Any, given: tuple[Any, ...]) -> NDArray[np.int64]:
        """Counts of both sides. One side after the other: both together would not stay near."""
        by_side = chosen[np.argsort(self._label_signs[chosen], kind="stable")]
        found = [np.zeros((2, self.people.rows.n_bins + 1), np.int64)]

        def work(pieces: Iterable[tuple[int, int]]) -> None:
            sides = np.zeros_like(found[0])
            for low, high in pieces:
                kernel(*self._csr, by_side, *given, *sides, low, high)
            found.append(sides)

        self._share(len(chosen), work)
        return np.asarray(sum(found))


def fixed_norms(squares: NDArray[np.int64]) -> NDArray[np.int64]:
    """``fixed_norm`` of many."""
    if len(squares) and int(squares.max()) >= _SMALL:
        return np.array([fixed_norm(square) for square in squares.tolist()], np.int64)
    norms = np.sqrt((squares << (2 * NORM_BITS)).astype(np.float64)).astype(np.int64)
    # The float may be off by one either way.
    norms -= norms * norms > squares << (2 * NORM_BITS)
    norms += (norms + 1) * (norms + 1) <= squares << (2 * NORM_BITS)
    return np.asarray(norms)


class EngineTraining(OfflineTraining):
    """One model's rounds over people who are all there every time."""

    def __init__(self, experiment: Experiment, people: Population, *, seed: bytes = b"", threads: int = 1) -> None:
        super().__init__(experiment, seed=seed, threads=threads)
        self._trained_on = people
        train = None if people.train is None else people.train[:, None]
        self._engine = Engine(people.rows, people.labels, [experiment], train=train, threads=threads)
        self._present = len(people) if people.train is None else int(people.train.sum())

    def advance(
        self, people: Population, attendance: Attendance | None = None, *, devices: int | None = None
    ) -> TrainingRound:
        """One round over the people it was made for."""
        if people is not self._trained_on or attendance is not None or devices is not None:
            raise BadInputError("an engine trains on all the people it was made for; use OfflineTraining for others")
        found = self._engine.advance()
        self.round_number += 1
        self.state = self._engine.state(0)
        self.two_cycle = self._engine.two_cycles[0]
        packages = int(people.rows.units[self._engine.violates(0)].sum())
        self.packages_sent += packages
        return TrainingRound(
            self.round_number,
            abandoned=False,
            packages=packages,
            participants=self._present,
            violators=found.violators,
        )


def quickest(experiment: Experiment, people: Population, *, seed: bytes, threads: int) -> OfflineTraining | None:
    """The training of one model that reads people least; None: neither can do what is asked."""
    if why_not(experiment) is None:
        return EngineTraining(experiment, people, seed=seed, threads=threads)
    if why_not_single(experiment) is None:
        return SingleTraining(experiment, people, seed=seed, threads=threads)
    return None
