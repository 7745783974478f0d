"""How popular bins are: the share of people who have each of them, bins of about the same share taken together.

Bin r (from 1) has weight r^-exponent; exponent 0 is the uniform law of the paper. A person has ``features`` *different*
bins, drawn by weight. Then bin j is among them with probability about

    p_j = 1 - exp(-c · weight_j),      c such that the p_j add up to ``features``:

draw without putting back, watched in continuous time. Bins are put into at most some hundreds of groups: the first
ranks alone, further ones in blocks whose ranks differ by some hundredths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError

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
