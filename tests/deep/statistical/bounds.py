"""Statistics and their limits. A statistic is written in units of its limit: above 1 is an alarm.

A fair sample raises an alarm with at most the rate that is asked for (``tests.seeds.FALSE_ALARM``). Three laws do most
of the work, and each says for which samples it holds:

 1. ``kolmogorov``, ``two_samples``: Massart's inequality (1990), for every number of independent draws.
 2. ``counts``, ``equal_counts``, ``against``: the exact binomial law of every count. Several counts share the rate
    (Bonferroni), so that they may depend on each other.
 3. ``deviation``: Efron's bound (1969) for the sum of independent terms over the root of the sum of their squares. It
    holds for symmetric terms. At 1e-6 it is 13 times the normal tail, which leaves room for terms that are skewed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

# ── distances of distributions ───────────────────────────────────────────────────────────────────────────────────────


def kolmogorov(sample: ArrayLike, rate: float) -> float:
    """How far a sample is from uniform on [0, 1).

    By Massart's inequality the distance times sqrt(n) exceeds sqrt(ln(2 / rate) / 2) with at most this rate, for every
    n. Samples of whole milliseconds are uniform enough: a window has 600,000 of them.
    """
    ordered = np.sort(np.asarray(sample, dtype=float))
    n = len(ordered)
    steps = np.arange(n + 1) / n
    distance = max(float(np.max(steps[1:] - ordered)), float(np.max(ordered - steps[:-1])))
    return math.sqrt(n) * distance / math.sqrt(math.log(2 / rate) / 2)


def two_samples(these: ArrayLike, those: ArrayLike, rate: float) -> float:
    """How far two samples of one law are from each other: each has half of the rate to be away from the law."""
    ours, theirs = np.sort(np.asarray(these, dtype=float)), np.sort(np.asarray(those, dtype=float))
    every = np.concatenate([ours, theirs])
    shares = [np.searchsorted(one, every, side="right") / len(one) for one in (ours, theirs)]
    limit = sum(math.sqrt(math.log(4 / rate) / (2 * len(one))) for one in (ours, theirs))
    return float(np.abs(shares[0] - shares[1]).max()) / limit


# ── counts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def counts(hits: ArrayLike, trials: ArrayLike, chances: ArrayLike, rate: float) -> float:
    """How unlikely the most unlikely of several binomial counts is, on the scale of logarithms."""
    seen, of, each = (
        np.atleast_1d(np.asarray(hits, dtype=int)),
        np.asarray(trials, dtype=int),
        np.asarray(chances, float),
    )
    lower, upper = stats.binom.logcdf(seen, of, each), stats.binom.logsf(seen - 1, of, each)
    # Too few has half of a count's share of the rate, and too many the other half.
    return float(np.max(-np.minimum(lower, upper)) / math.log(2 * len(seen) / rate))


def equal_counts(found: ArrayLike, rate: float) -> float:
    """How far cells are from being hit all alike."""
    cells = np.asarray(found).ravel()
    return counts(cells, cells.sum(), 1 / len(cells), rate)


def against(found: Mapping[int, int], law: NDArray[np.float64], rate: float) -> float:
    """How far independent draws are from a law on 0, 1, …; everything beyond the law's table is one cell."""
    trials, last = sum(found.values()), len(law)
    hits = [*(found.get(k, 0) for k in range(last)), sum(n for k, n in found.items() if k >= last)]
    chances = np.append(law, max(0.0, 1 - law.sum()))
    # What is expected less than once in a thousand runs is one cell with its neighbours.
    rare = chances * trials < 1e-3
    pooled = np.append(np.array(hits)[~rare], np.array(hits)[rare].sum())
    return counts(pooled, trials, np.append(chances[~rare], min(1.0, chances[rare].sum() + 1e-12)), rate)


def grid(a: ArrayLike, b: ArrayLike, cells: int = 6) -> NDArray[np.int64]:
    """How many pairs of numbers in [0, 1) fall into each cell of a square."""
    rows = np.minimum((np.asarray(a, dtype=float) * cells).astype(int), cells - 1)
    columns = np.minimum((np.asarray(b, dtype=float) * cells).astype(int), cells - 1)
    return np.bincount(rows * cells + columns, minlength=cells * cells)


def poisson_limit(expected: float, rate: float) -> int:
    """A number that a count with at most this expectation reaches with at most this rate."""
    return int(stats.poisson.isf(rate, expected)) + 1


# ── sums of independent terms ────────────────────────────────────────────────────────────────────────────────────────


def standard_errors(rate: float, *, sides: int = 2) -> float:
    """How many standard errors of its own a sum of independent terms may be off, by Efron's bound."""
    return math.sqrt(2 * math.log(sides / rate))


def deviation(terms: ArrayLike, rate: float) -> float:
    """How far the sum of independent terms of mean 0 is from 0."""
    found = np.asarray(terms, dtype=float)
    size = math.sqrt(float((found**2).sum()))
    return abs(float(found.sum())) / size / standard_errors(rate) if size else 0.0


# ── ranks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Ranks from 1; equal values share the middle one."""
    found = np.asarray(values, dtype=float)
    _, inverse, ties = np.unique(found, return_inverse=True, return_counts=True)
    ends = np.cumsum(ties)
    middle: NDArray[np.float64] = (ends - (ties - 1) / 2)[inverse]
    return middle


def rank_correlation(a: ArrayLike, b: ArrayLike, rate: float) -> float:
    """Spearman's correlation. For independent pairs, times sqrt(n - 1), its tails are thinner than those of the normal
    law, whose quantile is the limit: its kurtosis is below 3."""
    correlation = float(np.corrcoef(ranks(a), ranks(b))[0, 1])
    return abs(correlation) * math.sqrt(len(ranks(a)) - 1) / -NormalDist().inv_cdf(rate / 2)


def auc(these: ArrayLike, those: ArrayLike) -> float:
    """The chance that one of these is above one of those, a tie being half a chance: 0.5 is guessing."""
    first, second = np.asarray(these, dtype=float), np.asarray(those, dtype=float)
    summed = ranks(np.concatenate([first, second]))[: len(first)].sum()
    return float((summed - len(first) * (len(first) + 1) / 2) / (len(first) * len(second)))


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
