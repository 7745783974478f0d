"""Our own way in the same table: cover packages, nobody trusted with rows, the same people as the baselines see.

Everybody's cover is drawn, exactly as devices would draw it (``estimator.offline_cover``); settings follow from public
numbers (``privacy.noise_settings``) unless they are given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.privacy import Privacy, PrivacyPlan
from secvm.estimator.training import OfflineTraining, Population
from secvm.lab.baselines.baseline import Fitted, Guarantee, clipped
from secvm.lab.baselines.plain import number_of_labels
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows


@dataclass(frozen=True)
class CoverPackages:
    """(ε, δ) by cover packages in the shuffle model."""

    privacy: Privacy
    name: str = "cover packages"
    threads: int = 1
    #: One that was made before for as many people and bins: plans take seconds, and do not depend on people.
    plan: PrivacyPlan | None = None

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        n_labels = number_of_labels(labels)
        plan = self.plan or self.privacy.planned(people=len(rows), bins=rows.n_bins, labels=n_labels)
        experiment = Experiment(
            n_bins=rows.n_bins,
            labels=tuple(str(label) for label in range(n_labels)),
            rule=plan.settings.rule,
            thinning=plan.settings.thinning,
            features_per_person=self.privacy.contribution,
            cover=plan.cover,
        )
        training = OfflineTraining(experiment, seed=seed.to_bytes(8, "little"), threads=self.threads)
        people = Population(rows=clipped(rows, self.privacy.contribution, seed=seed), labels=labels.astype(np.int64))
        for _ in range(plan.settings.rounds):
            training.advance(people)
        return Fitted(
            self.name,
            experiment.rule.evaluation_weights(training.state),
            experiment.models,
            Guarantee(plan.epsilon, plan.plan.delta, "the relay, to shuffle", "privacy losses, exact shares"),
            {"budget": float(plan.budget), "cover_mean": plan.cover_mean},
        )
