"""Our own way in the same table: two relays' cover, nobody trusted with rows, the same people as the baselines see.

Both relays' parts are drawn as relays would draw them (``estimator.round_cover``); settings follow from public numbers
(``privacy.noise_settings``) unless they are given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.privacy import CONTRIBUTION, PrivacyPlan, planned
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning import aggregate
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows
from secvm.privacy.target import PrivacyTarget
from secvm_lab.baselines.baseline import Fitted, Guarantee, clipped
from secvm_lab.baselines.plain import number_of_labels


@dataclass(frozen=True)
class RelayedCover:
    """(ε, δ) by the cover of two relays, one of which is honest."""

    target: PrivacyTarget
    contribution: int = CONTRIBUTION
    name: str = "relays' cover"
    threads: int = 1
    #: One that was made before for as many people and bins.
    plan: PrivacyPlan | None = None

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        n_labels = number_of_labels(labels)
        plan = self.plan
        if plan is None:
            plan = planned(self.target, people=len(rows), bins=rows.n_bins, labels=n_labels, features=self.contribution)
        experiment = Experiment(
            n_bins=rows.n_bins,
            labels=tuple(str(label) for label in range(n_labels)),
            rule=plan.settings.rule,
            thinning=plan.settings.thinning,
            features_per_person=self.contribution,
            cover=plan.cover,
        )
        training = OfflineTraining(experiment, seed=seed.to_bytes(8, "little"), threads=self.threads)
        people = Population(rows=clipped(rows, self.contribution, seed=seed), labels=labels.astype(np.int64))
        for _ in range(plan.settings.rounds):
            training.advance(people)
        return Fitted(
            self.name,
            aggregate.evaluation_weights(experiment, training.state),
            experiment.models,
            Guarantee(plan.epsilon, float(self.target.delta), "one of two relays", "privacy losses, exact laws"),
            {"budget": float(plan.budget), "relay_packages": float(plan.cover.packages)},
        )
