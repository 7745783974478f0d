"""fit_rounds: an experiment's rounds over a population, with a curve, a watch on convergence and a reason for stopping.

Both the estimators and ``secvm train`` end here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.estimator.training import Attendance, OfflineTraining, Population
from secvm.learning import aggregate
from secvm.learning._kernels.dispatch import Name, kernels
from secvm.learning.aggregate.convergence import Plateau
from secvm.learning.aggregate.descent import State
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows
from secvm.learning.weights import Weights

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fitted:
    """What came of the rounds."""

    #: The state that is kept: the last one, or that of the best round when a plateau stopped it.
    state: State
    weights: Weights
    #: Rounds run.
    rounds: int
    #: Round whose state is kept.
    kept_round: int
    #: "rounds", "plateau", or "abandoned" when nobody ever took part.
    stopped_because: str
    #: Whether the run ended inside a two-cycle, and all spells (first round, last round) of one.
    two_cycle: bool
    two_cycle_spells: tuple[tuple[int, int], ...]
    #: Train packages of everybody, all rounds together.
    packages: int
    training: OfflineTraining = field(repr=False)


class Evaluator:
    """Evaluation weights over people who do not train."""

    def __init__(
        self, experiment: Experiment, rows: BinnedRows, *, threads: int = 1, kernel: Name | None = None
    ) -> None:
        self._experiment = experiment
        self._kernels = kernels(kernel)
        self._laid_out = self._kernels.prepare(rows)
        self._rows = rows
        self._threads = min(threads, os.cpu_count() or 1)

    def scores(self, weights: Weights) -> NDArray[np.int64]:
        """Integer scores, people x models."""
        return np.asarray(self._kernels.scores(self._laid_out, weights.mantissas, threads=self._threads))

    def labels(self, weights: Weights) -> NDArray[np.int64]:
        """The index of the predicted label of each person."""
        return self._experiment.models.predict(self.scores(weights))

    def cells(self, weights: Weights, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """The confusion matrix, true by predicted."""
        n = len(self._experiment.labels)
        flat = np.bincount(labels * n + self.labels(weights), minlength=n * n)
        return np.asarray(flat.reshape(n, n), dtype=np.int64)

    def values(self, weights: Weights) -> Floats:
        """Scores as real numbers: what they are worth, over the norm where the rule normalises."""
        return real_scores(weights, self.scores(weights), self._rows)

    def numbers(self, weights: Weights) -> Floats:
        """Predicted numbers, for regression, back in the units of the label."""
        values = self.values(weights)[:, 0]
        return values * float(self._experiment.target_spread) + float(self._experiment.target_centre)


def real_scores(weights: Weights, scores: NDArray[np.int64], rows: BinnedRows) -> Floats:
    """Score × unit, over the norm where rows are normalised."""
    values = scores * float(weights.unit)
    if weights.normalised:
        values = values / np.sqrt(rows.squared_norms.astype(np.float64))[:, None]
    return np.asarray(values, dtype=np.float64)


def _best_settled(counts: list[tuple[int, int]]) -> int:
    """The place of the best round (``Plateau.best_round``) before the newest, whose neighbour is not known yet."""
    accuracy = np.array([right / max(1, of) for right, of in counts])
    around = np.concatenate([accuracy[:1], accuracy])
    means = around[:-2] + around[1:-1] + around[2:]
    return int(np.argmax(means)) if len(means) else 0


def fit_rounds(
    training: OfflineTraining,
    people: Population,
    *,
    rounds: int,
    attendance: Attendance | None = None,
    held_out: Callable[[Weights], tuple[int, int]] | None = None,
    plateau: Plateau | None = None,
    on_round: Callable[[int, Weights], None] | None = None,
) -> Fitted:
    """Run up to ``rounds`` rounds.

    Args:
        held_out: evaluation weights → (right, of) on people who do not train; needed by ``plateau``.
        plateau: the stopping rule; None runs all rounds.
        on_round: called after every round with its number and its evaluation weights.
    """
    if plateau is not None and held_out is None:
        raise BadInputError("stopping at a plateau needs people held out of training")
    experiment = training.experiment
    stopped_because = "rounds"
    states: dict[int, State] = {}
    watched: list[int] = []
    counts: list[tuple[int, int]] = []
    for _ in range(rounds):
        report = training.advance(people, attendance)
        weights = aggregate.evaluation_weights(experiment, training.state)
        if on_round is not None:
            on_round(report.number, weights)
        if plateau is None or held_out is None or report.abandoned:
            continue
        watched.append(report.number)
        states[report.number] = training.state
        counts.append(held_out(weights))
        stop = plateau.watch(*counts[-1])
        # A round's mean needs the round after it, so the newest may win now and lose then: what can still be kept in
        # the end is the newest, and the best of those before it.
        states = {n: s for n, s in states.items() if n in (watched[_best_settled(counts)], report.number)}
        if stop:
            stopped_because = "plateau"
            break
    state, kept = training.state, training.round_number
    if plateau is not None and watched:
        best = watched[plateau.best_round - 1]
        if best in states:
            state, kept = states[best], best
    if training.state.step == 0:
        stopped_because = "abandoned"
    return Fitted(
        state=state,
        weights=aggregate.evaluation_weights(experiment, state),
        rounds=training.round_number,
        kept_round=kept,
        stopped_because=stopped_because,
        two_cycle=training.two_cycle.caught,
        two_cycle_spells=tuple(training.two_cycle.spells),
        packages=training.packages_sent,
        training=training,
    )
