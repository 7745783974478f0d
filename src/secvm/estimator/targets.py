"""A number as the label: its centre and spread, which are public, and the label in fixed point."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from secvm.learning.arithmetic import exact
from secvm.learning.experiment import Experiment
from secvm.learning.individual.update import fixed_target


def target_scale(y: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[Fraction, Fraction]:
    """Centre and spread of a number as the label: the median, and half the distance of the 16 % and 84 % quantiles."""
    low, middle, high = weighted_quantiles(y, weight, (0.16, 0.5, 0.84))
    spread = (high - low) / 2 or float(y.max() - y.min()) / 2 or 1.0
    return exact(float(middle)), exact(float(spread))


def fixed_targets(y: NDArray[np.float64], experiment: Experiment) -> NDArray[np.int64]:
    """Every label, centred, scaled and in fixed point."""
    centre, spread = experiment.target_centre, experiment.target_spread
    return np.array([fixed_target(v, centre=centre, spread=spread) for v in y.tolist()], dtype=np.int64)


def weighted_quantiles(
    values: NDArray[np.float64], weight: NDArray[np.float64], shares: tuple[float, ...]
) -> tuple[float, ...]:
    """For each share the smallest value at which the cumulative weight reaches it."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weight[order])
    where = np.searchsorted(cumulative, np.array(shares) * cumulative[-1], side="left")
    return tuple(float(v) for v in values[order][np.minimum(where, len(values) - 1)])
