"""Local differential privacy: nobody is trusted, every person blurs its own update. Two ways to spend ε.

- ``FedSel`` (after Liu et al. 2020, without its memory of what was not said): everybody reports one dimension in every
  round, with a part of ε. How large that may be is the exact composition of randomised response (Kairouz, Oh and
  Viswanath 2015), never worse than ε / T.
- ``OneShot``: people are dealt into T groups, each reports once, in its group's round, with the whole ε. For local
  reports that is better: fewer people make √T times the noise, a smaller ε makes more.

Descent is plain: w ← w + η · (mean update), rows normalised; the mean of all weights is served.

What a person may say about its update when it trusts nobody: three kinds of reports, each ε-locally private.

Whatever an update is (v x, v = +1, -1, or 0 for who does not violate), no report is more than e^ε times as likely under
it as under any other. ``total`` throws the dice of many people and estimates the sum of their updates: v x / ‖x‖ by the
sphere; v x / √k by the other two, which is the same for who has k bins.

================ ======================================================================= =============================
reports          what is said                                                            variance of a place, a person
================ ======================================================================= =============================
one dimension    a bin, rather one's own (ε₁), and v x_j there as -1, 0 or +1 by         37 at ε = 1, 1.1 at ε = 4
(FedSel)         randomised response (ε₂); ε = ε₁ + ε₂
sphere           a direction, rather from the cap around the update than from elsewhere  6.3 and .44: 1 / (D m²)
(PrivUnit)       (Bhowmick et al. 2018, with the best cap)
cell             one of 2 D (bin, sign) cells, each of one's own k cells e^ε times as    16 and .19: 1 / (D k Δ²)
                 likely as any other
================ ======================================================================= =============================

Here D = 1,001 (the bias counts), k = F + 1 = 101, updates have length 1, and m and Δ are what is left of a unit. One
dimension at a time wastes what a whole row could say; with a small ε the sphere is best, with a large one the cell,
because it knows that rows are sparse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, Protocol

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
    Floats,
    Guarantee,
    UnitRows,
    as_weights,
    clipped,
    dice,
    two_labels,
)

Integers = NDArray[np.int64]
#: Rows written out at a time.
_CHUNK = 1 << 22
#: Angles at which the sphere's law is written down, and caps that are tried.
_ANGLES, _CAPS = 1 << 15, 128


class Reports(Protocol):
    """A kind of report."""

    def total(self, people: UnitRows, who: Integers, signs: Floats, dice: np.random.Generator) -> Floats:
        """An estimate of the sum of updates over ``who``, from one report of each. ``signs`` are their v."""


@dataclass(frozen=True)
class OneDimension:
    """A bin of one's own, most likely, and its ternary value. ``cells`` is k = F + 1: the most that a row has."""

    epsilon: float
    cells: int
    #: Of ε, for the choice of the bin.
    selection_share: float = 0.1

    @property
    def _value_epsilon(self) -> float:
        return self.epsilon * (1 - self.selection_share)

    def _likelier(self, people: UnitRows) -> float:
        """The chance of each of one's own bins: e^ε₁ times that of others in a row of k. Shorter ones are filled up."""
        return 1 / (self.cells + (people.n_cells - self.cells) * math.exp(-self.epsilon * self.selection_share))

    def said(
        self, people: UnitRows, who: Integers, signs: Floats, dice: np.random.Generator
    ) -> tuple[Integers, Floats]:
        """Each person's report: a bin, and a value."""
        bins = own_bin(people, who, dice)
        own = dice.random(len(who)) < self._likelier(people) * people.lengths[who]
        again = np.flatnonzero(~own)
        while again.size:
            bins[again] = dice.integers(0, people.n_cells, again.size)
            again = again[people.own(who[again], bins[again])]
        truth = np.where(own, signs, 0.0)
        # Randomised response over -1, 0, +1: the truth with e^ε / (e^ε + 2), each of the others with 1 / (e^ε + 2).
        lies = dice.random(len(who)) >= 1 / (1 + 2 * math.exp(-self._value_epsilon))
        turned = dice.integers(1, 3, len(who)) * lies
        return bins, np.asarray((truth + 1 + turned) % 3 - 1, dtype=np.float64)

    def total(self, people: UnitRows, who: Integers, signs: Floats, dice: np.random.Generator) -> Floats:
        bins, values = self.said(people, who, signs, dice)
        kept = self._likelier(people) * math.expm1(self._value_epsilon) / (math.exp(self._value_epsilon) + 2)
        sums = np.bincount(bins, weights=values, minlength=people.n_cells)
        return np.asarray(sums / (kept * math.sqrt(self.cells)), dtype=np.float64)


@dataclass(frozen=True)
class Sphere:
    """A direction from the cap around the update with chance p, from the rest of the sphere otherwise."""

    epsilon: float

    def total(self, people: UnitRows, who: Integers, signs: Floats, dice: np.random.Generator) -> Floats:
        cap = best_cap(self.epsilon, people.n_cells)
        out = np.zeros(people.n_cells, dtype=np.float64)
        size = max(1, _CHUNK // people.n_cells)
        for start in range(0, len(who), size):
            some, v = who[start : start + size], signs[start : start + size]
            directions = dice.standard_normal((len(some), people.n_cells))
            # Who does not violate says any direction: no likelier than a cap's, no less likely than the rest's.
            told = np.flatnonzero(v)
            rows = people.dense(some[told]) * v[told, None]
            along = np.einsum("ij,ij->i", directions[told], rows)
            directions[told] -= along[:, None] * rows
            directions /= np.sqrt(np.einsum("ij,ij->i", directions, directions))[:, None]
            heights = cap.heights(len(told), dice)
            directions[told] *= np.sqrt(1 - heights**2)[:, None]
            directions[told] += heights[:, None] * rows
            out += directions.sum(axis=0)
        return out / cap.mean


@dataclass(frozen=True)
class Cell:
    """One (bin, sign) cell. ``cells`` is k = F + 1: the most that a row has; shorter ones are filled up at random."""

    epsilon: float
    cells: int

    def _likelier(self, people: UnitRows) -> float:
        """The chance of each of one's own cells."""
        return 1 / (self.cells + (2 * people.n_cells - self.cells) * math.exp(-self.epsilon))

    def said(
        self, people: UnitRows, who: Integers, signs: Floats, dice: np.random.Generator
    ) -> tuple[Integers, Floats]:
        """Each person's report: a bin, and a sign."""
        told = signs != 0
        own = told & (dice.random(len(who)) < self._likelier(people) * people.lengths[who])
        # One's own bins evenly, with one's own sign …
        bins, side = own_bin(people, who, dice), signs.copy()
        # … else any cell that is not one's own.
        again = np.flatnonzero(~own)
        while again.size:
            bins[again] = dice.integers(0, people.n_cells, again.size)
            side[again] = 2 * dice.integers(0, 2, again.size) - 1
            wrong = people.own(who[again], bins[again]) & (side[again] == signs[again])
            again = again[wrong & told[again]]
        return bins, side

    def total(self, people: UnitRows, who: Integers, signs: Floats, dice: np.random.Generator) -> Floats:
        bins, side = self.said(people, who, signs, dice)
        kept = self._likelier(people) * -math.expm1(-self.epsilon)
        sums = np.bincount(bins, weights=side, minlength=people.n_cells)
        return np.asarray(sums / (kept * math.sqrt(self.cells)), dtype=np.float64)


def own_bin(people: UnitRows, who: Integers, dice: np.random.Generator) -> Integers:
    """One of each person's own bins, evenly."""
    place = (dice.random(len(who)) * people.lengths[who]).astype(np.int64)
    found: Integers = people.bins[people.starts[who] + place]
    return found


@dataclass(frozen=True, eq=False)
class Cap:
    """A cap of the sphere in D dimensions, and with what chance a report lies in it."""

    #: Cosine of the cap's angle, share of the sphere, chance of a report, and its mean height over the equator.
    cosine: float
    share: float
    chance: float
    mean: float
    dimensions: int

    def heights(self, n: int, dice: np.random.Generator) -> Floats:
        """Heights of n reports: those of evenly drawn directions, until each lies on its side of the cap's edge."""
        inside = dice.random(n) < self.chance
        out = np.zeros(n, dtype=np.float64)
        again = np.arange(n)
        while again.size:
            along = dice.standard_normal(again.size)
            out[again] = along / np.sqrt(along**2 + dice.chisquare(self.dimensions - 1, again.size))
            again = again[(out[again] >= self.cosine) != inside[again]]
        return out


@lru_cache(maxsize=64)
def best_cap(epsilon: float, dimensions: int) -> Cap:
    """The cap whose reports keep most of the update: p/(1-p) = e^ε τ/(1-τ), where τ is the cap's share.

    Inside, a direction is p/τ times as likely as if all were even, outside (1-p)/(1-τ) times: e^ε between them.
    """
    # A height u = sin a has the density cos(a)^(D-2) in the angle a: smooth, and written down finely.
    angles = np.linspace(-math.pi / 2, math.pi / 2, _ANGLES + 1)
    density = np.maximum(np.cos(angles), 0.0) ** (dimensions - 2)
    pieces = (density[1:] + density[:-1]) / 2
    tails = np.append(np.cumsum(pieces[::-1])[::-1], 0.0) / pieces.sum()
    # ∫ u cos(a)^(D-2) da = cos(a)^(D-1) / (D-1) from the edge to the pole.
    width = angles[1] - angles[0]
    lifted = np.maximum(np.cos(angles), 0.0) ** (dimensions - 1) / ((dimensions - 1) * pieces.sum() * width)
    best: Cap | None = None
    for share in np.geomspace(0.5, 1e-4, _CAPS):
        i = int(np.argmin(np.abs(tails - share)))
        tau = float(tails[i])
        if not 0 < tau < 1:
            continue
        chance = tau / (tau + (1 - tau) * math.exp(-epsilon))
        mean = float(lifted[i]) * (chance / tau - (1 - chance) / (1 - tau))
        if best is None or mean > best.mean:
            best = Cap(math.sin(float(angles[i])), tau, chance, mean, dimensions)
    assert best is not None
    return best


@dataclass(frozen=True)
class FedSel:
    """One dimension a person and round."""

    epsilon: float
    delta: float
    rounds: int
    #: F: at most so many bins of a person, the bias not counted.
    contribution: int
    step_size: float = 1.0
    name: ClassVar[str] = "local, one dimension"

    def __post_init__(self) -> None:
        _check(self.epsilon, self.rounds)

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
    """Everybody reports once."""

    epsilon: float
    rounds: int
    #: F: at most so many bins of a person, the bias not counted.
    contribution: int
    kind: Literal["sphere", "cell"] = "sphere"
    step_size: float = 20.0

    def __post_init__(self) -> None:
        _check(self.epsilon, self.rounds)

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


def _check(epsilon: float, rounds: int) -> None:
    if not (0 < epsilon < math.inf and rounds >= 1):
        raise BadInputError("local reports need an ε above 0, and a round")
