"""From what cells give away about one vector to the mean over people: some hold rarer bins than others.

A person is d' from the other world, d'² = D = Σ_j (information of bin j, with or without it). D differs between people.
Somebody who knows D is right with Φ(√D / √2), and means of that over people are wanted. By Craig's formula

    1 - Φ(y) = (1/π) ∫ exp(-y² / (2 sin² a)) da      over a from 0 to π/2,

so a mean over people needs only E exp(-s D). Bins are held independently, given that they are F together:
E exp(-s D) is the coefficient of z^F in a product over bins, which the saddle point gives (with the same F above and
below, so its error nearly cancels, and where all bins are alike it is exact).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.privacy.leakage.popularity import Popularity

#: Angles of Craig's integral, by Gauss and Legendre in the cube root of the angle: a small D decides at small angles.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_ANGLES = math.pi / 2 * ((1 + _NODES) / 2) ** 3
_SHARES = 3 * ((1 + _NODES) / 2) ** 2 * _WEIGHTS / 2
#: Bins that more people than this have tell nothing, and their odds are no numbers.
_EVERYBODY = 1 - 1e-9
_HALVINGS = 70


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """Something that adds up over bins: of one bin of each group, for people who do not have it, and who do."""

    without: NDArray[np.float64]
    having: NDArray[np.float64]

    def mean(self, bins: Popularity) -> float:
        """Over people, of the sum over all bins."""
        return float(bins.sizes @ (bins.shares * self.having + (1 - bins.shares) * self.without))


def mean_right(bins: Popularity, d_squared: Told, factor: float, silence: Told | None = None) -> float:
    """E [1 - exp(-S) (1 - Φ(√(factor D)))]: 1/2 gives the mean AUC, 1/4 what total variation comes from.

    ``silence`` is S: with probability exp(-S) nothing is plain outright, and Φ decides.
    """
    strengths = factor / (2 * np.sin(_ANGLES) ** 2)
    silent = silence or Told(np.zeros_like(bins.sizes), np.zeros_like(bins.sizes))
    without = np.outer(strengths, d_squared.without) + silent.without
    having = np.outer(strengths, d_squared.having) + silent.having
    return 1 - float(_SHARES @ _laplace(bins, without, having)) / 2


def _laplace(bins: Popularity, without: NDArray[np.float64], having: NDArray[np.float64]) -> NDArray[np.float64]:
    """E exp(-Σ over bins) among people with F bins, for every row."""
    told = bins.shares < _EVERYBODY
    sizes, shares, without, having = bins.sizes[told], bins.shares[told], without[:, told], having[:, told]
    if not len(sizes):
        return np.ones(len(without))
    held = float(sizes @ shares)
    if len(sizes) == 1:
        alike: NDArray[np.float64] = np.exp(-held * having[:, 0] - (sizes[0] - held) * without[:, 0])
        return alike
    nothing = np.zeros((1, len(sizes)))  # the normaliser
    without, having = np.vstack([nothing, without]), np.vstack([nothing, having])
    odds = np.log(shares) - np.log1p(-shares) - (having - without)
    point = _saddle(odds, sizes, held)
    tilted = odds + point[:, None]
    logs = np.logaddexp(0.0, tilted) @ sizes - without @ sizes - held * point
    chances = _logistic(tilted)
    spread = (chances * (1 - chances)) @ sizes
    found = np.exp(np.minimum(0.0, logs[1:] - logs[0])) * np.sqrt(spread[0] / np.maximum(spread[1:], 1e-300))
    # The saddle point of a handful of bins may overshoot; the truth never does.
    result: NDArray[np.float64] = np.minimum(found, 1.0)
    return result


def _saddle(odds: NDArray[np.float64], sizes: NDArray[np.float64], held: float) -> NDArray[np.float64]:
    """How much all odds must be raised so that ``held`` bins are held, for every row."""
    high = np.abs(odds).max(axis=1) + 60.0
    low = -high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        few = _logistic(odds + middle[:, None]) @ sizes < held
        low, high = np.where(few, middle, low), np.where(few, high, middle)
    middle_of: NDArray[np.float64] = (low + high) / 2
    return middle_of


def _logistic(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(odds, -700, 700)))
    return result
