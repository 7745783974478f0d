"""No protection, our own rule: full batches over everybody's clipped rows, exact sums. Noise is measured against it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.estimator.training import AddNoise, OfflineTraining, Population, TrainingRound
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import DescentRule, Swift
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows
from secvm.learning.weights import Weights
from secvm_lab.baselines.baseline import Fitted, clipped


@dataclass(frozen=True)
class Plain:
    """Full batches without noise. ``contribution`` is F: at most so many bins of a person, the bias not counted."""

    rounds: int
    contribution: int
    rule: DescentRule = Swift()  # noqa: RUF009  (a frozen value: sharing it harms nobody)
    #: One per label; empty: all one.
    class_weights: tuple[Fraction, ...] = ()

    def __post_init__(self) -> None:
        if min(self.rounds, self.contribution) < 1:
            raise BadInputError("a baseline needs a round, and a bin of each person, at least")

    @property
    def name(self) -> str:
        return "plain"

    def experiment(self, n_bins: int, n_labels: int) -> Experiment:
        """The question, with rows whole: unthinned."""
        return Experiment(
            n_bins=n_bins,
            labels=tuple(str(label) for label in range(n_labels)),
            rule=self.rule,
            class_weights=self.class_weights,
            fixed_point_rows=self.rule.normalised,
        )

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        experiment = self.experiment(rows.n_bins, number_of_labels(labels))
        weights, _ = run_rounds(experiment, clipped(rows, self.contribution, seed=seed), labels, rounds=self.rounds)
        return Fitted(self.name, weights, experiment.models)


def run_rounds(
    experiment: Experiment,
    rows: BinnedRows,
    labels: NDArray[np.int64],
    *,
    rounds: int,
    noise: AddNoise | None = None,
) -> tuple[Weights, list[TrainingRound]]:
    """All rounds over everybody: the weights that predict, and what became of each round."""
    training = OfflineTraining(experiment, noise=noise)
    people = Population(rows=rows, labels=labels.astype(np.int64))
    reports = [training.advance(people) for _ in range(rounds)]
    return aggregate.evaluation_weights(experiment, training.state), reports


def number_of_labels(labels: NDArray[np.int64]) -> int:
    """How many labels there are; two at least."""
    if labels.size == 0 or labels.min() < 0:
        raise BadInputError("a baseline needs people, each with a label")
    return max(2, int(labels.max()) + 1)
