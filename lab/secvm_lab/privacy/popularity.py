"""How popular bins are: the share of people who have each of them, bins of about the same share taken together.

Bin r (from 1) has weight r^-exponent; exponent 0 is the uniform law of the paper. A person has ``features`` *different*
bins, drawn by weight. Then bin j is among them with probability about

    p_j = 1 - exp(-c · weight_j),      c such that the p_j add up to ``features``:

draw without putting back, watched in continuous time. Bins are put into at most some hundreds of groups: the first
ranks alone, further ones in blocks whose ranks differ by some hundredths.

**The mean over people.** Some people hold rarer bins than others. A person is d' from the other world, d'² = D = Σ_j
(information of bin j, with or without it). D differs between people. Somebody who knows D is right with Φ(√D / √2), and
means of that over people are wanted. By Craig's formula

    1 - Φ(y) = (1/π) ∫ exp(-y² / (2 sin² a)) da      over a from 0 to π/2,

so a mean over people needs only E exp(-s D). Bins are held independently, given that they are F together:
E exp(-s D) is the coefficient of z^F in a product over bins, which the saddle point gives (with the same F above and
below, so its error nearly cancels, and where all bins are alike it is exact).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.privacy.leakage import mean_right

#: Ranks that are groups of their own.
_ALONE = 128
#: A further group ends where its ranks have grown by this factor.
_GROWTH = 1.03
#: Bisections for c: it is then right to the last bits.
_HALVINGS = 200


@dataclass(frozen=True, slots=True, eq=False)
class Popularity:
    """Groups of bins: how many bins each has, and the probability that a person has one given bin of it."""

    sizes: NDArray[np.float64]
    shares: NDArray[np.float64]

    @property
    def bins(self) -> int:
        return round(float(self.sizes.sum()))

    @property
    def features(self) -> float:
        """Bins of a person, on average."""
        return float(self.sizes @ self.shares)


def popularity(*, bins: int, features: int, exponent: float = 0.0) -> Popularity:
    """The shares of people who have a bin, when everybody has ``features`` different ones."""
    if not 1 <= features <= bins:
        raise BadInputError("a person has at least one bin, and no more than there are")
    if not 0 <= exponent <= 3:
        raise BadInputError("the exponent of Zipf's law must lie from 0 to 3")
    if exponent == 0 or features == bins:
        return Popularity(np.array([float(bins)]), np.array([features / bins]))
    edges = _edges(bins)
    sizes = np.diff(edges).astype(float)
    weights = (edges[:-1] + (sizes - 1) / 2) ** -exponent
    weights /= weights.max()
    return Popularity(sizes, -np.expm1(-_time(sizes, weights, features) * weights))


def _edges(bins: int) -> NDArray[np.int64]:
    """First ranks of the groups, from 1, and one more than the last rank."""
    edges = list(range(1, min(bins, _ALONE) + 1))
    while edges[-1] <= bins:
        edges.append(max(edges[-1] + 1, int(edges[-1] * _GROWTH)))
    edges[-1] = bins + 1
    return np.array(edges, dtype=np.int64)


def _time(sizes: NDArray[np.float64], weights: NDArray[np.float64], features: int) -> float:
    """The c of the module's docstring: the more of it, the more bins a person has."""

    def held(c: float) -> float:
        return float(sizes @ -np.expm1(-c * weights))

    low, high = 0.0, 1.0
    while held(high) < features:
        low, high = high, 2 * high
        if high > 1e300:
            raise BadInputError("so many features need more bins: the rarest bins are never drawn")
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if held(middle) < features else (low, middle)
    return high


#: Bins that more people than this have tell nothing, and their odds are no numbers.
_EVERYBODY = 1 - 1e-9
_SADDLE_HALVINGS = 70


@dataclass(frozen=True, slots=True, eq=False)
class PerBin:
    """Something that adds up over bins: of one bin of each group, for people who do not have it, and who do."""

    without: NDArray[np.float64]
    having: NDArray[np.float64]

    def mean(self, bins: Popularity) -> float:
        """Over people, of the sum over all bins."""
        return float(bins.sizes @ (bins.shares * self.having + (1 - bins.shares) * self.without))


def mean_over_people(bins: Popularity, d_squared: PerBin, factor: float, silence: PerBin | None = None) -> float:
    """E [1 - exp(-S) (1 - Φ(√(factor D)))]: 1/2 gives the mean AUC, 1/4 what total variation comes from.

    ``silence`` is S: with probability exp(-S) nothing is plain outright, and Φ decides.
    """
    silent = silence or PerBin(np.zeros_like(bins.sizes), np.zeros_like(bins.sizes))

    def laplace(strengths: NDArray[np.float64]) -> NDArray[np.float64]:
        without = np.outer(strengths, d_squared.without) + silent.without
        having = np.outer(strengths, d_squared.having) + silent.having
        return _laplace(bins, without, having)

    return mean_right(factor, laplace)


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
    for _ in range(_SADDLE_HALVINGS):
        middle = (low + high) / 2
        few = _logistic(odds + middle[:, None]) @ sizes < held
        low, high = np.where(few, middle, low), np.where(few, high, middle)
    middle_of: NDArray[np.float64] = (low + high) / 2
    return middle_of


def _logistic(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(odds, -700, 700)))
    return result
