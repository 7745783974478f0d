"""Local differential privacy: nobody is trusted, every person blurs its own update. Two ways to spend ε.

- ``FedSel`` (after Liu et al. 2020, without its memory of what was not said): everybody reports one dimension in every
  round, with a part of ε. How large that may be is the exact composition of randomised response (Kairouz, Oh and
  Viswanath 2015), never worse than ε / T.
- ``OneShot``: people are dealt into T groups, each reports once, in its group's round, with the whole ε. For local
  reports that is better: fewer people make √T times the noise, a smaller ε makes more.

Descent is plain: w ← w + η · (mean update), rows normalised; the mean of all weights is served.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.label_models import LabelModels
from secvm.learning.rows import BinnedRows
from secvm.learning.weights import Weights
from secvm_lab.baselines.baseline import (
    GROUPS,
    REPORTS,
    Fitted,
    Guarantee,
    as_weights,
    clipped,
    dice,
    two_labels,
)
from secvm_lab.baselines.local_reports import Cell, Integers, OneDimension, Reports, Sphere
from secvm_lab.baselines.unit_rows import UnitRows


@dataclass(frozen=True)
class FedSel:
    """One dimension a person and round."""

    epsilon: float
    delta: float
    rounds: int
    #: F: at most so many bins of a person, the bias not counted.
    contribution: int
    step_size: float = 1.0

    def __post_init__(self) -> None:
        _check(self.epsilon, self.rounds, self.step_size)

    @property
    def name(self) -> str:
        return "local, one dimension"

    @property
    def epsilon_of_a_round(self) -> float:
        """What one report may spend."""
        return epsilon_of_each(self.epsilon, self.delta, self.rounds)

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        people = UnitRows(clipped(rows, self.contribution, seed=seed))
        each = self.epsilon_of_a_round
        everybody = [np.arange(len(people))] * self.rounds
        reports = OneDimension(each, _cells(self.contribution, people))
        weights = descend(people, labels, everybody, reports, self.step_size, seed)
        guarantee = Guarantee(self.epsilon, self.delta, "nobody", "randomised response, exact composition")
        return Fitted(self.name, weights, LabelModels(n_labels=2), guarantee, {"epsilon_of_a_round": each})


@dataclass(frozen=True)
class OneShot:
    """Everybody reports once. ``kind``: "sphere" or "cell"."""

    epsilon: float
    rounds: int
    #: F: at most so many bins of a person, the bias not counted.
    contribution: int
    kind: str = "sphere"
    step_size: float = 20.0

    def __post_init__(self) -> None:
        _check(self.epsilon, self.rounds, self.step_size)
        if self.kind not in ("sphere", "cell"):
            raise BadInputError('reports are of the kind "sphere" or "cell"')

    @property
    def name(self) -> str:
        return f"local, once, {self.kind}"

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        people = UnitRows(clipped(rows, self.contribution, seed=seed))
        groups = np.array_split(dice(seed, GROUPS).permutation(len(people)), self.rounds)
        reports: Reports = Sphere(self.epsilon)
        if self.kind == "cell":
            reports = Cell(self.epsilon, _cells(self.contribution, people))
        weights = descend(people, labels, groups, reports, self.step_size, seed)
        return Fitted(
            self.name, weights, LabelModels(n_labels=2), Guarantee(self.epsilon, 0.0, "nobody", "one report, exact")
        )


def descend(
    people: UnitRows,
    labels: NDArray[np.int64],
    groups: list[Integers],
    reports: Reports,
    step_size: float,
    seed: int,
) -> Weights:
    """One step for each group of people; the weights that are served."""
    signs = two_labels(labels)
    weights = np.zeros(people.n_cells, dtype=np.float64)
    total = np.zeros_like(weights)
    for t, who in enumerate(groups):
        violating = (signs * people.scores(weights))[who] < 1
        found = reports.total(people, who, np.where(violating, signs[who], 0.0), dice(seed, REPORTS, t))
        weights = weights + step_size * found / len(who)
        total += weights
    return as_weights(total / len(groups))


@lru_cache(maxsize=64)
def epsilon_of_each(epsilon: float, delta: float, times: int) -> float:
    """The largest ε₀ of which ``times`` reports, each ε₀-private, together keep (ε, δ)."""
    low, high = epsilon / times, epsilon
    if delta == 0:
        return low
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if composed_delta(epsilon, middle, times) <= delta else (low, middle)
    return low


def composed_delta(epsilon: float, each: float, times: int) -> float:
    """δ(ε) of many ε₀-private reports together: exactly that of randomised response, the worst there is.

    With k of n truths the loss is (2 k - n) ε₀; each is a truth with e^ε₀ / (1 + e^ε₀).
    """
    log_true, log_false = -math.log1p(math.exp(-each)), -each - math.log1p(math.exp(-each))
    parts = []
    for k in range(times + 1):
        loss = (2 * k - times) * each
        if loss > epsilon:
            ways = math.lgamma(times + 1) - math.lgamma(k + 1) - math.lgamma(times - k + 1)
            parts.append(math.exp(ways + k * log_true + (times - k) * log_false) * -math.expm1(epsilon - loss))
    return math.fsum(parts)


def _cells(contribution: int, people: UnitRows) -> int:
    return min(contribution + 1, people.n_cells)


def _check(epsilon: float, rounds: int, step_size: float) -> None:
    if not (0 < epsilon < math.inf and rounds >= 1 and step_size > 0):
        raise BadInputError("local reports need an ε above 0, a round, and a step size above 0")
