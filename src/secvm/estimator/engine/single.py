"""SingleTraining: ``OfflineTraining`` of one model by swift, for people who are all there every time.

Swift needs few rounds, so that laying people out would take longer than the rounds themselves. Rows are read as they
are, and seldom:

 1. Verdicts change little from round to round: only people whose verdict changed are counted, up or down.
 2. Scores of everybody are known under the weights of a few earlier rounds. New weights are a combination of those and
    a remainder r, and a score the same combination, give or take ‖x‖ ‖r‖. Who that leaves in doubt is scored.

As long as the same people violate, swift's weights are nearly multiples of each other, and nobody is in doubt. Verdicts
and tallies are the integers of ``OfflineTraining``; all else is its own code.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.estimator.engine.lane import why_not_single
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning._kernels import single
from secvm.learning._kernels.sharing import PIECES_PER_THREAD, cut_range, share_out
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.individual.update import NORM_BITS, bands, fixed_norm
from secvm.learning.weights import Weights

#: Rounds whose scores are kept.
_KEPT = 3
#: Coefficients beyond this would cost more digits than floats have to spare.
_MAX_COEFFICIENT = 2.0**10
#: Norms are rounded up by far more than a sum of so many floats can lose.
_UP = 1 + 2.0**-24
#: What floats lose of a score of up to 2^53, and of each unit's mantissa of up to 2^31, for each unit of coefficients.
_SCORE_LOST, _UNIT_LOST = 2.0**4, 2.0**31 * 2.0**-49
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
        assert people is self.rows.people
        return self.rows

    def cells(self, test: NDArray[np.int64]) -> NDArray[np.int64]:
        """The confusion of some people, true by predicted label, under the evaluation weights."""
        weights = self.experiment.rule.evaluation_weights(self.state)
        predicted = self.rows.score(weights.mantissas[0], test) >= 0
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
        squares, self._units = np.empty(n, np.int64), np.empty(n, np.int64)
        self._over(n, lambda low, high: single.row_facts(rows.indptr, rows.values, squares, self._units, low, high))
        self._fixed_norms = fixed_norms(squares)
        self._norms = np.sqrt(squares.astype(np.float64))
        # As OfflineTraining has them.
        self._amounts = (np.float64(2**32) / self._norms).astype(np.int64)
        self._label_signs = np.ascontiguousarray(experiment.models.signs[people.labels][:, 0])
        self._signs = np.zeros(n, np.int8)
        self._counts = np.zeros((2, rows.n_bins + 1), np.int64)
        #: Newest first: mantissas as floats, and everybody's scores.
        self._known: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
        #: Passes over everybody so far to score and to count, parts of them counted as parts.
        self.score_passes = 0.0
        self.count_passes = 0.0

    def _over(self, n: int, work: Callable[[int, int], None]) -> None:
        def take(pieces: object) -> None:
            for low, high in pieces:  # type: ignore[attr-defined]  # an iterable of pairs
                work(low, high)

        share_out(cut_range(n, self._threads * PIECES_PER_THREAD if self._threads > 1 else 1), take, self._threads)

    def score(self, mantissas: NDArray[np.int32], chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Scores of chosen people."""
        out = np.empty(len(chosen), np.int64)
        self._over(len(chosen), lambda low, high: single.score_chosen(*self._csr, mantissas, chosen, out, low, high))
        return out

    def verdicts(
        self,
        weights: Weights,
        round_number: int,  # noqa: ARG002  # as OfflineTraining asks
        here: NDArray[np.bool_],
        *,
        threads: int,  # noqa: ARG002  # as above
    ) -> NDArray[np.int8]:
        """People x 1: the sign of each person's update."""
        if weights.first:
            return np.where(here, self._label_signs, 0).astype(np.int8)[:, None]
        n = len(self.people)
        thresholds = self._experiment.loss.thresholds(np.zeros(n, np.int64))
        lowers, _ = bands(thresholds=thresholds, width=0, norms=self._fixed_norms, unit=weights.unit)
        mantissas = np.ascontiguousarray(weights.mantissas[0])
        below, doubtful = self._guess(mantissas.astype(np.float64), lowers, here)
        chosen = np.flatnonzero(doubtful)
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
        self, mantissas: NDArray[np.float64], lowers: NDArray[np.int64], here: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Who is below, and of whom that is not certain."""
        coefficients = self._coefficients(mantissas)
        if coefficients is None:
            return np.zeros(len(here), np.bool_), here.copy()
        rest, middle = mantissas.copy(), np.zeros(len(here))
        for c, (vector, scores) in zip(coefficients, self._known, strict=True):
            rest -= c * vector
            middle += c * scores
        size = float(np.abs(coefficients).sum()) + 1
        # By Cauchy and Schwarz; and more than floats can lose.
        bound = self._norms * (np.sqrt(rest @ rest) * _UP) + self._units * (size * _UNIT_LOST) + size * _SCORE_LOST
        apart = self._label_signs * middle - lowers
        bound += np.abs(lowers) * 2.0**-50
        return apart < 0, here & (np.abs(apart) <= bound)

    def _coefficients(self, mantissas: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """By least squares. Any would do: they make the bound small or large, never wrong."""
        if not self._known:
            return None
        known = np.stack([vector for vector, _ in self._known])
        gram = known @ known.T
        # A trace of a ridge: two may be the same.
        gram += (np.trace(gram) * 2.0**-48 + 1.0) * np.eye(len(gram))
        found = np.linalg.solve(gram, known @ mantissas)
        if not np.isfinite(found).all() or np.abs(found).sum() > _MAX_COEFFICIENT:
            return None
        return np.asarray(found)

    def tally(
        self,
        weights: Weights,  # noqa: ARG002  # as OfflineTraining asks
        signs: NDArray[np.int8],
        round_number: int,  # noqa: ARG002
        here: NDArray[np.bool_],
        *,
        threads: int,  # noqa: ARG002
    ) -> tuple[Tally, int]:
        """The round's tally and the number of packages behind it."""
        now = signs[:, 0]
        changed = np.flatnonzero(now != self._signs)
        if len(changed) > np.count_nonzero(now):
            self._counts[:], self._signs = 0, np.zeros_like(now)
            changed = np.flatnonzero(now)
        amounts = self._amounts[changed] * np.where(now[changed] != 0, 1, -1)
        self._count(changed, amounts)
        self._signs = now
        labels = self.people.labels
        participants = np.array([np.count_nonzero(here & (labels == c)) for c in (0, 1)], np.int64)
        plus, minus = self._counts[:, None, :].copy()
        tally = Tally(plus=plus, minus=minus, participants=participants, cells=np.zeros((2, 2), np.int64))
        return tally, int(self._units[now != 0].sum())

    def _count(self, changed: NDArray[np.int64], amounts: NDArray[np.int64]) -> None:
        self.count_passes += len(changed) / max(1, len(self.people))
        found: list[NDArray[np.int64]] = []

        def work(pieces: object) -> None:
            sides = np.zeros_like(self._counts)
            for low, high in pieces:  # type: ignore[attr-defined]  # an iterable of pairs
                single.count_chosen(*self._csr, changed, self._label_signs, amounts, *sides, low, high)
            found.append(sides)

        share_out(cut_range(len(changed), self._threads * PIECES_PER_THREAD), work, self._threads)
        for sides in found:
            self._counts += sides


def fixed_norms(squares: NDArray[np.int64]) -> NDArray[np.int64]:
    """``fixed_norm`` of many."""
    if len(squares) and int(squares.max()) >= _SMALL:
        return np.array([fixed_norm(square) for square in squares.tolist()], np.int64)
    norms = np.sqrt((squares << (2 * NORM_BITS)).astype(np.float64)).astype(np.int64)
    # The float may be off by one either way.
    norms -= norms * norms > squares << (2 * NORM_BITS)
    norms += (norms + 1) * (norms + 1) <= squares << (2 * NORM_BITS)
    return np.asarray(norms)
