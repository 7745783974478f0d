"""fit_rounds: an experiment's rounds over a population, with a curve, a watch on convergence and a reason for stopping.

Both the estimators and ``secvm train`` end here. ``training_for`` and ``curves_of`` take ``secvm-lab``'s engine where
it is installed and pays; it is found by its entry points. Its loops are compiled anew after each update, which small
trainings would feel. Without it the same states come out, later.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError, NotInstalledError
from secvm.estimator.question import right_within
from secvm.estimator.training import Attendance, OfflineTraining, Population, TrainingRound
from secvm.learning import aggregate
from secvm.learning._kernels.dispatch import Name, kernels
from secvm.learning.aggregate.convergence import Plateau
from secvm.learning.aggregate.descent import State
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows
from secvm.learning.weights import Weights

Floats = NDArray[np.float64]
#: The group of the engine's entry points: ``one`` for a training, ``many`` for a sweep, ``cuda`` for one on a GPU.
GROUP = "secvm.trainings"
#: Entries times rounds from which on the engine is taken: a few seconds of the plain kernels.
ENOUGH = 2 * 10**9
#: Of a model: test accuracy after each round, and whether it was ever caught in a two-cycle.
Curve = tuple[NDArray[np.float64], bool]


@dataclass(frozen=True, eq=False)
class Fitted:
    """What came of the rounds."""

    #: The state that is kept: the last one, or that of the best round when a plateau stopped it.
    state: State
    weights: Weights
    #: Round whose state is kept.
    kept_round: int
    #: "rounds", "plateau", or "abandoned" when nobody ever took part.
    stopped_because: str
    #: With the number of rounds, what was seen of two-cycles, and everybody's packages.
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


#: Evaluation weights → (right, of) on some people who do not train.
HeldOut = Callable[[Weights], tuple[int, int]]


def held_out_people(experiment: Experiment, people: Population, where: NDArray[np.int64], *, threads: int) -> HeldOut:
    """How many of the people at ``where`` the weights are right about: their labels, or nearly their numbers."""
    evaluator = Evaluator(experiment, people.rows.take(where), threads=threads)

    def count(weights: Weights) -> tuple[int, int]:
        if people.targets is not None:
            right = right_within(evaluator.values(weights)[:, 0], people.targets[where])
        else:
            right = int((evaluator.labels(weights) == people.labels[where]).sum())
        return right, len(where)

    return count


def real_scores(weights: Weights, scores: NDArray[np.int64], rows: BinnedRows) -> Floats:
    """Score × unit, over the norm where rows are normalised."""
    values = scores * float(weights.unit)
    if weights.normalised:
        values = values / np.sqrt(rows.squared_norms.astype(np.float64))[:, None]
    return np.asarray(values, dtype=np.float64)


def fit_rounds(
    training: OfflineTraining,
    people: Population,
    *,
    rounds: int,
    attendance: Attendance | None = None,
    held_out: HeldOut | None = None,
    plateau: Plateau | None = None,
    on_round: Callable[[int, Weights], None] | None = None,
    on_report: Callable[[TrainingRound, tuple[int, int] | None], None] | None = None,
) -> Fitted:
    """Run up to ``rounds`` rounds.

    Args:
        held_out: evaluation weights → (right, of) on people who do not train; needed by ``plateau``.
        plateau: the stopping rule; None runs all rounds.
        on_round: called after every round with its number and its evaluation weights.
        on_report: called with what became of the round, and with (right, of) on people held out.
    """
    if plateau is not None and held_out is None:
        raise BadInputError("stopping at a plateau needs people held out of training")
    experiment = training.experiment
    stopped_because = "rounds"
    states: dict[int, State] = {}
    watched: list[int] = []
    for _ in range(rounds):
        report = training.advance(people, attendance)
        weights = aggregate.evaluation_weights(experiment, training.state)
        if on_round is not None:
            on_round(report.number, weights)
        seen = held_out(weights) if held_out is not None and (on_report is not None or plateau is not None) else None
        if on_report is not None:
            on_report(report, seen)
        if plateau is None or seen is None or report.abandoned:
            continue
        watched.append(report.number)
        states[report.number] = training.state
        stop = plateau.watch(*seen)
        # A round's mean needs the round after it, so the newest may win now and lose then: what can still be kept in
        # the end is the newest, and the best of those before it.
        states = {n: s for n, s in states.items() if n in (watched[plateau.best_settled - 1], report.number)}
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
        kept_round=kept,
        stopped_because=stopped_because,
        training=training,
    )


def warn_of_convergence(fitted: Fitted) -> None:
    """Say, as scikit-learn does, that rounds came to nothing."""
    if fitted.stopped_because == "abandoned":
        said = "no round could be counted, so nothing was learnt: fewer took part than the rounds need"
    elif fitted.training.two_cycle.caught:
        said = (
            "the rounds end in a two-cycle, in which the sides take turns and nothing is learnt any more; "
            'take descent="swift", or step_cap=0.5 (docs/learning.md)'
        )
    elif not fitted.training.experiment.loss.regression and not fitted.weights.mantissas[:, :-1].any():
        said = "no feature has any weight: the model gives everybody the same answer. Are the features constant?"
    else:
        return
    # scikit-learn is not imported for the command line.
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(said, ConvergenceWarning, stacklevel=2)


def _engine(name: str) -> Callable[..., Any] | None:
    for entry in metadata.entry_points(group=GROUP, name=name):
        engine: Callable[..., Any] = entry.load()
        return engine
    return None


def training_for(
    experiment: Experiment,
    people: Population,
    *,
    rounds: int,
    attendance: Attendance | None = None,
    seed: bytes = b"",
    threads: int = 1,
    device: Literal["cpu", "cuda"] = "cpu",
) -> OfflineTraining:
    """The quickest training of a device that does what is asked; all give the same states."""
    if device == "cuda":
        on_gpu = _engine("cuda")
        if on_gpu is None:
            raise NotInstalledError('device="cuda"', "secvm-lab", "cuda", distribution="./lab")
        trained: OfflineTraining = on_gpu(experiment, seed=seed, threads=threads)
        return trained
    plain = (
        people.multiplicity is None
        and attendance is None
        and (people.train is None or bool(people.train.any()))
        and len(people.rows.bins) * rounds >= ENOUGH
        and kernels().name == "fast"
    )
    engine = _engine("one") if plain else None
    training: OfflineTraining | None = None
    if engine is not None:
        training = engine(experiment, people, seed=seed, threads=threads)
    return training or OfflineTraining(experiment, seed=seed, threads=threads)


def curves_of(
    rows: BinnedRows,
    labels: NDArray[np.int64],
    experiments: Sequence[Experiment],
    *,
    train: NDArray[np.bool_],
    rounds: int,
    threads: int = 1,
) -> list[Curve]:
    """The curve of each model on the people who do not train it; ``train``: people x models."""
    engine = _engine("many") if kernels().name == "fast" else None
    if engine is not None:
        swept = engine(rows, labels, experiments, train=train, rounds=rounds, threads=threads)
        return [(model.accuracy, bool(model.two_cycle_spells)) for model in swept]
    return [
        _curve(experiment, Population(rows, labels, train=inside), rounds=rounds, threads=threads)
        for experiment, inside in zip(experiments, train.T, strict=True)
    ]


def _curve(experiment: Experiment, people: Population, *, rounds: int, threads: int) -> Curve:
    assert people.train is not None
    outside = np.flatnonzero(~people.train)
    test, labels = Evaluator(experiment, people.rows.take(outside), threads=threads), people.labels[outside]
    training = OfflineTraining(experiment, threads=threads)
    accuracy = np.zeros(rounds)
    for number in range(rounds):
        training.advance(people)
        right = test.labels(aggregate.evaluation_weights(experiment, training.state)) == labels
        accuracy[number] = right.sum() / max(1, len(outside))
    return accuracy, bool(training.two_cycle.spells)
