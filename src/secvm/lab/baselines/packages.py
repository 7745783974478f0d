"""Our own way without cover, in the same table: unit packages, whole or thinned, counted as devices would send them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.engine.choice import training_for
from secvm.estimator.question import ask
from secvm.estimator.training import Population
from secvm.lab.baselines.baseline import Fitted
from secvm.lab.baselines.plain import number_of_labels
from secvm.learning.aggregate.descent import DescentRule
from secvm.learning.losses import Loss
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning


@dataclass(frozen=True)
class Packages:
    """A rule over whole rows with their counts, and how much of an update is sent."""

    name: str
    rule: DescentRule
    rounds: int
    thinning: Thinning = Thinning()  # noqa: RUF009  (a frozen value: sharing it harms nobody)
    threads: int = 1

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        names = tuple(str(label) for label in range(number_of_labels(labels)))
        experiment = ask(rows, labels=names, rule=self.rule, loss=Loss("hinge"), thinning=self.thinning)
        people = Population(rows=rows, labels=labels.astype(np.int64))
        training = training_for(
            experiment, people, rounds=self.rounds, seed=seed.to_bytes(8, "little"), threads=self.threads
        )
        for _ in range(self.rounds):
            training.advance(people)
        sent = training.packages_sent / max(1, len(rows))
        weights = experiment.rule.evaluation_weights(training.state)
        return Fitted(self.name, weights, experiment.models, notes={"packages": sent})
