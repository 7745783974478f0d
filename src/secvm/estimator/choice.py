"""The training to take for one model, and for many at once: ``secvm-lab``'s engine where it is installed and pays.

The engine is found by its entry points. Its loops are compiled anew after each update, which small trainings would
feel. Without it the same states come out, later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.fitting import Evaluator
from secvm.estimator.training import Attendance, OfflineTraining, Population
from secvm.learning import aggregate
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows

#: The group of the engine's entry points: ``one`` for a training, ``many`` for a sweep.
GROUP = "secvm.trainings"
#: Entries times rounds from which on the engine is taken: a few seconds of the plain kernels.
ENOUGH = 2 * 10**9
#: Of a model: test accuracy after each round, and whether it was ever caught in a two-cycle.
Curve = tuple[NDArray[np.float64], bool]


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
) -> OfflineTraining:
    """The quickest training that does what is asked; all give the same states."""
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
