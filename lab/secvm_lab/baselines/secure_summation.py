"""Secure summation without noise (Bonawitz et al. 2017): the server learns each round's sum and nothing else.

The model is the plain one, bit for bit. The sum still tells: beside the accuracy stand two AUCs of the label game
(``label_leakage``: somebody knows a person's bins and asks for the label), of the first round and of all rounds
with independent backgrounds, which is how one plans. Of the sum N⁺ - N⁻ the law is

    d'² = bins · 4 / (V₊ + V₋),      of both tallies        d'² = bins · (1/V₊ + 1/V₋)

the same for equal sides. So the sum is planned as a game with (V₊ + V₋)/2 on either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.training import TrainingRound
from secvm.learning.rows import BinnedRows
from secvm_lab.baselines.baseline import Fitted, clipped, two_labels
from secvm_lab.baselines.plain import Plain, run_rounds
from secvm_lab.privacy.label_leak import LabelGame, label_leak


@dataclass(frozen=True)
class SecureSummation(Plain):
    """Exact sums, nothing else seen. ``zipf`` is the exponent of bins' popularity that the leak is planned with."""

    zipf: float = 0.0

    @property
    def name(self) -> str:
        return "secure summation"

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        two_labels(labels)
        experiment = self.experiment(rows.n_bins, 2)
        taken = clipped(rows, self.contribution, seed=seed)
        weights, reports = run_rounds(experiment, taken, labels, rounds=self.rounds)
        features = max(1, round(float(np.diff(taken.indptr).mean())))
        notes = {
            "label_auc_one_round": self.leak(reports[:1], rows.n_bins, features),
            "label_auc": self.leak(reports, rows.n_bins, features),
        }
        return Fitted(self.name, weights, experiment.models, notes=notes)

    def leak(self, reports: Sequence[TrainingRound], bins: int, features: int) -> float:
        """AUC of the label from the sums of these rounds; rounds in which one side is silent count with one sender."""
        # Squares of d' add up over rounds, and each is 1/V: the harmonic mean stands for all.
        inverse = [2 / max(1, sum(report.violators[0])) for report in reports]
        side = max(1, round(len(inverse) / sum(inverse)))
        game = LabelGame(
            positive=side, negative=side, bins=bins, features=features, rounds=len(inverse), zipf=self.zipf
        )
        return label_leak(game).auc
