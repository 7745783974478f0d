"""Which binary models an experiment trains, which sign a label has in each, and which label wins.

- two labels: one model; label 1 is positive, label 0 negative. Score 0 predicts label 1.
- one-vs-rest: model c has label c positive and all others negative. The largest score wins, the first of equals.
- one-vs-one: model (a, b), a < b, has b positive, a negative, and nobody else. Most votes win, then the largest sum of
  scores, then the first.
- a number as the label: one model; the sign is that of the residual, not of the label.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadExperimentError

#: Twelve bits of the dice's counter name the model.
MAX_MODELS = 4096


@dataclass(frozen=True)
class LabelModels:
    """The table of signs: labels x models, entries -1, 0 (takes no part), +1."""

    n_labels: int
    #: "ovr" or "ovo"; the same for two labels.
    multiclass: str = "ovr"

    def __post_init__(self) -> None:
        if self.multiclass not in ("ovr", "ovo"):
            raise BadExperimentError("multiclass must be ovr or ovo")
        if self.n_labels < 1:
            raise BadExperimentError("an experiment needs labels")
        if self.n_models > MAX_MODELS:
            msg = f"{self.n_labels} labels would need {self.n_models} models; at most {MAX_MODELS} are possible"
            raise BadExperimentError(msg)

    @property
    def n_models(self) -> int:
        if self.n_labels <= 2:
            return 1
        return self.n_labels if self.multiclass == "ovr" else self.n_labels * (self.n_labels - 1) // 2

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """The pairs of one-vs-one, in order."""
        return np.array(list(combinations(range(self.n_labels), 2)), dtype=np.int64).reshape(-1, 2)

    @cached_property
    def signs(self) -> NDArray[np.int8]:
        """Sign of each label in each model."""
        if self.n_labels == 1:
            return np.ones((1, 1), dtype=np.int8)
        if self.n_labels == 2:
            return np.array([[-1], [1]], dtype=np.int8)
        if self.multiclass == "ovr":
            return (2 * np.eye(self.n_labels, dtype=np.int8) - 1).astype(np.int8)
        table = np.zeros((self.n_labels, self.n_models), dtype=np.int8)
        models = np.arange(self.n_models)
        table[self.pairs[:, 0], models] = -1
        table[self.pairs[:, 1], models] = 1
        return table

    @property
    def most_per_person(self) -> int:
        """In how many models one person takes part at most."""
        return int(np.abs(self.signs).sum(axis=1, dtype=np.int64).max())

    def predict(self, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        """The winning label of each row of scores (people x models)."""
        if self.n_labels == 2:
            return np.asarray(scores[:, 0] >= 0, dtype=np.int64)
        if self.multiclass == "ovr" or self.n_labels == 1:
            return np.asarray(np.argmax(scores, axis=1), dtype=np.int64)
        return self._most_votes(scores)

    def _most_votes(self, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        votes, sums = self.votes(scores)
        # Only those with the most votes compare their sums; argmax takes the first of equals.
        lowest = np.iinfo(np.int64).min
        return np.asarray(np.argmax(np.where(votes == votes.max(axis=1, keepdims=True), sums, lowest), axis=1))

    def votes(self, scores: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """One-vs-one, people x labels: how many pairs each label wins, and the sum of its scores."""
        votes = np.zeros((len(scores), self.n_labels), dtype=np.int64)
        sums = np.zeros_like(votes)
        for model, (low, high) in enumerate(self.pairs.tolist()):
            won = scores[:, model] >= 0
            votes[:, high] += won
            votes[:, low] += ~won
            sums[:, high] += scores[:, model]
            sums[:, low] -= scores[:, model]
        return votes, sums
