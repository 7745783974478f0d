"""Our own way without cover, in the same table: unit packages, whole or thinned, counted as devices would send them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.choice import training_for
from secvm.estimator.fitting import Evaluator
from secvm.estimator.question import ask
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import DescentRule
from secvm.learning.losses import Loss
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning
from secvm_lab.baselines.baseline import SAMPLING, Fitted, dice
from secvm_lab.baselines.plain import number_of_labels

#: Of the people who train, on whom rounds are tried.
_TRIED_ON = 0.2


@dataclass(frozen=True)
class Packages:
    """A rule over whole rows with their counts, and how much of an update is sent."""

    name: str
    rule: DescentRule
    rounds: int
    thinning: Thinning = Thinning()  # noqa: RUF009  (a frozen value: sharing it harms nobody)
    threads: int = 1
    #: Whether ``rounds`` is only the most: the best number is then found on a fifth of the people, and all train again.
    chosen: bool = False

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        rounds = self._choose(rows, labels, seed) if self.chosen else self.rounds
        training, people = self._training(rows, labels, seed)
        for _ in range(rounds):
            training.advance(people)
        sent = training.packages_sent / max(1, len(rows))
        experiment = training.experiment
        weights = aggregate.evaluation_weights(experiment, training.state)
        return Fitted(self.name, weights, experiment.models, notes={"packages": sent, "rounds": float(rounds)})

    def _choose(self, rows: BinnedRows, labels: NDArray[np.int64], seed: int) -> int:
        """The best round for people who do not train; the first of equals."""
        tried = dice(seed, SAMPLING).random(len(rows)) < _TRIED_ON
        inside, outside = np.flatnonzero(~tried), np.flatnonzero(tried)
        if min(len(inside), len(outside)) == 0:
            return self.rounds
        training, people = self._training(rows.take(inside), labels[inside], seed)
        evaluator = Evaluator(training.experiment, rows.take(outside), threads=self.threads)
        right = []
        for _ in range(self.rounds):
            training.advance(people)
            weights = aggregate.evaluation_weights(training.experiment, training.state)
            right.append(int((evaluator.labels(weights) == labels[outside]).sum()))
        return int(np.argmax(right)) + 1

    def _training(self, rows: BinnedRows, labels: NDArray[np.int64], seed: int) -> tuple[OfflineTraining, Population]:
        names = tuple(str(label) for label in range(number_of_labels(labels)))
        experiment = ask(rows, labels=names, rule=self.rule, loss=Loss("hinge"), thinning=self.thinning)
        people = Population(rows=rows, labels=labels.astype(np.int64))
        dice_seed = seed.to_bytes(8, "little")
        return training_for(experiment, people, rounds=self.rounds, seed=dice_seed, threads=self.threads), people
