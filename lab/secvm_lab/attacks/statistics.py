"""Values with their 95 % intervals: shares, AUCs, means, and how well two groupings agree.

Intervals stay within 0..1 and have a width at the ends too: no share of n trials is known to be 0.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from secvm_lab.label_game import ranked

Interval = tuple[float, float]
#: The normal law's two-sided 95 %.
_Z = 1.959963984540054
#: Scores with fewer different values are mostly ties.
_MANY = 20


def wilson(hits: float, trials: float) -> Interval:
    """The interval of Wilson's for a share of independent trials."""
    if not 0 <= hits <= trials or trials <= 0:
        raise ValueError("hits are at most trials, and there are trials")
    share, spread = hits / trials, _Z * _Z / trials
    middle = (share + spread / 2) / (1 + spread)
    width = math.sqrt(share * (1 - share) * spread + spread * spread / 4) / (1 + spread)
    # At the ends rounding alone could leave the share outside.
    return max(0.0, min(share, middle - width)), min(1.0, max(share, middle + width))


def auc(these: ArrayLike, those: ArrayLike) -> tuple[float, Interval]:
    """The chance that one of ``these`` scores above one of ``those`` (a tie is half), and its interval.

    The variance is DeLong's, or Hanley's and McNeil's where that is larger: near 1 DeLong's rests on a few scores. It
    is turned into a number of trials that would have it, and the interval is Wilson's for so many: it stays in 0..1.
    Where the variance is 0 (all above all) there are as many trials as the smaller side has scores.
    """
    ours, theirs = np.asarray(these, dtype=np.float64), np.asarray(those, dtype=np.float64)
    if min(len(ours), len(theirs)) == 0:
        raise ValueError("an AUC needs scores on both sides")
    value = ranked(ours, theirs)
    smaller = min(len(ours), len(theirs))
    if smaller < 2:
        return value, wilson(value * smaller, smaller)
    variance = float(_places(ours, theirs).var(ddof=1)) / len(ours)
    variance += float(_places(theirs, ours).var(ddof=1)) / len(theirs)
    if len(np.unique(np.concatenate([ours, theirs]))) > _MANY:  # the law below knows no ties
        variance = max(variance, _hanley(value, len(ours), len(theirs)))
    alike = max(1.0, value * (1 - value) / variance if variance > 0 and 0 < value < 1 else smaller)
    return value, wilson(value * alike, alike)


def _hanley(value: float, ours: int, theirs: int) -> float:
    """The variance of an AUC by the law of exponential scores."""
    better = max(value, 1 - value)
    first, second = better / (2 - better), 2 * better * better / (1 + better)
    spread = better * (1 - better) + (ours - 1) * (first - better**2) + (theirs - 1) * (second - better**2)
    return spread / (ours * theirs)


def _places(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each of ours, the share of theirs that is below it."""
    ordered = np.sort(theirs)
    below = np.searchsorted(ordered, ours, side="left") + np.searchsorted(ordered, ours, side="right")
    return below / (2.0 * len(ordered))


def average(values: ArrayLike) -> tuple[float, Interval]:
    """A mean of independent values in 0..1. The interval is the normal law's, and at least as wide as one in n."""
    found = np.asarray(values, dtype=np.float64)
    mean = float(found.mean())
    width = _Z * float(found.std(ddof=1)) / math.sqrt(len(found)) if len(found) > 1 else 1.0
    if width == 0.0:
        return mean, wilson(mean * len(found), len(found))
    return mean, (max(0.0, mean - width), min(1.0, mean + width))


def adjusted_rand(these: ArrayLike, those: ArrayLike) -> float:
    """How well two groupings of the same things agree: 1 for the same, 0 on average for chance, and below it too."""
    ours, theirs = np.asarray(these), np.asarray(those)
    _, mine = np.unique(ours, return_inverse=True)
    _, yours = np.unique(theirs, return_inverse=True)
    _, both = np.unique(mine.astype(np.int64) * (int(yours.max()) + 1) + yours, return_counts=True)
    together = _pairs(both)
    mine_pairs, your_pairs = _pairs(np.bincount(mine)), _pairs(np.bincount(yours))
    every = len(ours) * (len(ours) - 1) / 2
    expected = mine_pairs * your_pairs / every if every else 0.0
    most = (mine_pairs + your_pairs) / 2
    return 1.0 if most == expected else (together - expected) / (most - expected)


def _pairs(counts: NDArray[np.int64]) -> float:
    sizes = counts.astype(np.float64)
    return float((sizes * (sizes - 1) / 2).sum())
