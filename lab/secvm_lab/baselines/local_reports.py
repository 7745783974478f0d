"""What a person may say about its update when it trusts nobody: three kinds of reports, each ε-locally private.

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
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from secvm_lab.baselines.baseline import Floats
from secvm_lab.baselines.unit_rows import UnitRows

Integers = NDArray[np.int64]
#: Rows written out at a time.
_CHUNK = 1 << 22
#: Angles at which the sphere's law is written down, and caps that are tried.
_ANGLES, _CAPS = 1 << 15, 128


class Reports(Protocol):
    """A kind of report."""

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    def total(self, people: UnitRows, who: Integers, signs: Floats, dice: np.random.Generator) -> Floats:
        """An estimate of the sum of updates over ``who``, from one report of each. ``signs`` are their v."""
        ...


@dataclass(frozen=True)
class OneDimension:
    """A bin of one's own, most likely, and its ternary value. ``cells`` is k = F + 1: the most that a row has."""

    epsilon: float
    cells: int
    #: Of ε, for the choice of the bin.
    selection_share: float = 0.1

    @property
    def name(self) -> str:
        return "one dimension"

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

    @property
    def name(self) -> str:
        return "sphere"

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

    @property
    def name(self) -> str:
        return "cell"

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
