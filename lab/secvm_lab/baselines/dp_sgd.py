"""DP-SGD (Abadi et al. 2016): a trusted server, random batches, clipped gradients, Gaussian noise.

In every step each person is in the batch with chance q, by a coin of its own. The gradient of its logistic loss is cut
to length ``clip``, the batch's sum gets N(0, (σ clip)²) in each place and is divided by q N, the size that batches have
on average. σ comes from ``subsampled.py``. Served is the mean of the weights of the second half of the steps.

Adjacency is zero-out, the batch is secret, and the number of people public. The server is trusted with everything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.label_models import LabelModels
from secvm.learning.rows import BinnedRows
from secvm_lab.baselines.baseline import (
    NOISE,
    SAMPLING,
    Fitted,
    Floats,
    Guarantee,
    as_weights,
    clipped,
    dice,
    two_labels,
)
from secvm_lab.baselines.subsampled import sigma_for
from secvm_lab.baselines.unit_rows import UnitRows


@dataclass(frozen=True)
class DPSGD:
    """DP-SGD on a logistic loss. An ε of infinity: no noise."""

    epsilon: float
    delta: float
    #: F: at most so many bins of a person, the bias not counted.
    contribution: int
    steps: int = 100
    #: q: the chance to be in a batch.
    sampling: float = 0.2
    clip: float = 1.0
    step_size: float = 1.0

    def __post_init__(self) -> None:
        if not (self.steps >= 1 and 0 < self.sampling <= 1 and self.clip > 0 and self.step_size > 0):
            raise BadInputError("DP-SGD needs a step, a chance above 0, a clip and a step size above 0")

    @property
    def name(self) -> str:
        return "DP-SGD"

    @property
    def sigma(self) -> float:
        """σ in units of the clip."""
        if math.isinf(self.epsilon):
            return 0.0
        return sigma_for(self.epsilon, self.delta, q=self.sampling, steps=self.steps)

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        signs = two_labels(labels)
        people = UnitRows(clipped(rows, self.contribution, seed=seed), normalised=False)
        sigma, half = self.sigma, self.steps // 2
        weights = np.zeros(people.n_cells, dtype=np.float64)
        served = np.zeros_like(weights)
        for t in range(self.steps):
            batch = dice(seed, SAMPLING, t).random(len(people)) < self.sampling
            total = people.combined(self.coefficients(people, weights, signs) * batch)
            total += dice(seed, NOISE, t).normal(0.0, sigma * self.clip, total.shape)
            weights += self.step_size * total / (self.sampling * len(people))
            if t >= half:
                served += weights
        guarantee = None
        if not math.isinf(self.epsilon):
            guarantee = Guarantee(self.epsilon, self.delta, "the server, with all data", "privacy losses, upper bound")
        return Fitted(self.name, as_weights(served), LabelModels(n_labels=2), guarantee, {"sigma": sigma * self.clip})

    def coefficients(self, people: UnitRows, weights: Floats, signs: Floats) -> Floats:
        """What each person's row is multiplied by: minus the loss's derivative, cut so that c ‖x‖ ≤ clip."""
        margins = signs * people.scores(weights)
        # 1 / (1 + e^m), without overflow.
        slopes = 0.5 * (1 - np.tanh(margins / 2))
        cut = np.minimum(slopes, self.clip / np.sqrt(people.lengths))
        return np.asarray(signs * cut, dtype=np.float64)
