"""Statistics and their limits. A limit is what a fair sample exceeds with at most the rate that is asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray


def kolmogorov(sample: ArrayLike, rate: float) -> float:
    """How far a sample is from uniform on [0, 1), in units of the limit: 1 and more is an alarm.

    By Massart's inequality the distance times sqrt(n) exceeds sqrt(ln(2 / rate) / 2) with at most this rate, for every
    n. Samples of whole milliseconds are uniform enough: a window has 600,000 of them.
    """
    ordered = np.sort(np.asarray(sample, dtype=float))
    n = len(ordered)
    steps = np.arange(n + 1) / n
    distance = max(float(np.max(steps[1:] - ordered)), float(np.max(ordered - steps[:-1])))
    return math.sqrt(n) * distance / math.sqrt(math.log(2 / rate) / 2)


def chi_square(counts: ArrayLike, rate: float) -> float:
    """How far counts are from all equal, in units of the limit.

    The limit is Laurent and Massart's (2000): k + 2 sqrt(k x) + 2 x, with x = ln(1 / rate) and k degrees of freedom.
    """
    found = np.asarray(counts, dtype=float).ravel()
    expected = found.sum() / len(found)
    k, x = len(found) - 1, math.log(1 / rate)
    return float(((found - expected) ** 2 / expected).sum() / (k + 2 * math.sqrt(k * x) + 2 * x))


def grid(a: ArrayLike, b: ArrayLike, cells: int = 6) -> NDArray[np.int64]:
    """How many pairs of numbers in [0, 1) fall into each cell of a square."""
    rows = np.minimum((np.asarray(a, dtype=float) * cells).astype(int), cells - 1)
    columns = np.minimum((np.asarray(b, dtype=float) * cells).astype(int), cells - 1)
    return np.bincount(rows * cells + columns, minlength=cells * cells)


def ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Ranks from 1; equal values share the middle one."""
    found = np.asarray(values, dtype=float)
    _, inverse, counts = np.unique(found, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    middle: NDArray[np.float64] = (ends - (counts - 1) / 2)[inverse]
    return middle


def rank_correlation(a: ArrayLike, b: ArrayLike, rate: float) -> float:
    """Spearman's correlation in units of its limit: for independent pairs, times sqrt(n - 1), it is about normal."""
    correlation = float(np.corrcoef(ranks(a), ranks(b))[0, 1])
    return abs(correlation) * math.sqrt(len(ranks(a)) - 1) / -NormalDist().inv_cdf(rate / 2)


def poisson_limit(expected: float, rate: float) -> int:
    """A number that a count with at most this expectation reaches with at most this rate."""
    number, term = 0, math.exp(-expected)
    left = 1 - term
    while left > rate:
        number += 1
        term *= expected / number
        left -= term
    return number + 1


def auc(these: ArrayLike, those: ArrayLike) -> float:
    """The chance that one of these is above one of those, a tie being half a chance: 0.5 is guessing."""
    first, second = np.asarray(these, dtype=float), np.asarray(those, dtype=float)
    summed = ranks(np.concatenate([first, second]))[: len(first)].sum()
    return float((summed - len(first) * (len(first) + 1) / 2) / (len(first) * len(second)))


def auc_error(these: int, those: int) -> float:
    """The standard error of an AUC that is truly 0.5, of so many of the one and the other; ties make it smaller."""
    return math.sqrt((these + those + 1) / (12 * these * those))


def smallest_gaps(samples: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """For each sample of numbers in [0, 1): how unlikely so large a smallest gap is. Uniform for independent draws.

    Of n uniform points the smallest gap is above x with probability (1 - (n - 1) x)^n, exactly.
    """
    found = []
    for sample in samples:
        n = len(sample)
        smallest = float(np.min(np.diff(np.sort(np.asarray(sample, dtype=float)))))
        found.append(max(0.0, 1 - (n - 1) * smallest) ** n)
    return np.array(found)
