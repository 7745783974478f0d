"""Slopes: whether something grows from epoch to epoch, with an interval, and what is said of it then."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True, slots=True)
class Slope:
    """Growth per step, and the interval that has it in 95 of 100 such runs."""

    per_step: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        return {"per_epoch": round(self.per_step, 4), "low": round(self.low, 4), "high": round(self.high, 4)}


def slope_of(values: Sequence[float]) -> Slope:
    """Of values at equal steps, by least squares. Fewer than three say nothing: the interval is everything."""
    n = len(values)
    if n < 3:
        return Slope(0.0, -math.inf, math.inf)
    middle, mean = (n - 1) / 2, sum(values) / n
    spread = sum((i - middle) ** 2 for i in range(n))
    per_step = sum((i - middle) * (value - mean) for i, value in enumerate(values)) / spread
    left = sum((value - mean - per_step * (i - middle)) ** 2 for i, value in enumerate(values))
    half = _student(n - 2) * math.sqrt(left / (n - 2) / spread)
    return Slope(per_step, per_step - half, per_step + half)


def _student(freedom: int) -> float:
    """The 97.5th percentile of Student's t: known for one and two, else by Fisher's expansion."""
    if freedom <= 2:
        return (12.7062, 4.30265)[freedom - 1]
    z = NormalDist().inv_cdf(0.975)
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return z + sum(term / math.pow(freedom, i + 1) for i, term in enumerate(terms))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share does not exceed; 0 where there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def settled(values: Sequence[float]) -> Sequence[float]:
    """Without the first third: caches fill, pools open, an allocator finds its size."""
    return values[len(values) // 3 :]
