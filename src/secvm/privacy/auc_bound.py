"""How well two worlds can be told apart at best, given how private they are.

A guess names the first world in a share t of its plays, and wrongly in a share f of the second's. If the two worlds are
(ε, δ(ε))-close in both directions for every ε ≥ 0, no guess can leave

    t ≤ e^ε f + δ(ε)      and      1 - f ≤ e^ε (1 - t) + δ(ε),

all these at once. The lowest of these lines is a concave curve above every guess; what lies below it is the largest
AUC. Any finite set of ε gives a curve that is too high, never too low. A coin's guess, half of them each, is right with
a chance of at most (1 + δ(0)) / 2.

A pair of normal laws d' apart reaches Φ(d'/√2); cover over many cells is close to one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

#: Where the curve is touched, in ε: dense where it bends, and as far as anything is still protected.
EPSILONS = tuple(float(e) for e in (*np.linspace(0, 1, 26), *np.linspace(1.1, 3, 20), *np.geomspace(3.2, 16, 14)))


def largest_auc(delta: Callable[[float], float], epsilons: Sequence[float] = EPSILONS) -> float:
    """The AUC that no guess between two worlds exceeds, if both directions keep (ε, delta(ε))."""
    slopes, starts = [0.0], [1.0]
    for epsilon in epsilons:
        lost, factor = delta(epsilon), math.exp(epsilon)
        slopes += [factor, 1 / factor]
        starts += [lost, 1 - (1 - lost) / factor]
    slope, start = np.array(slopes), np.array(starts)
    # The curve bends only where two of its lines meet; between such places it is straight, so trapezia are exact.
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = ((start[:, None] - start[None, :]) / (slope[None, :] - slope[:, None])).ravel()
    inside = meet[np.isfinite(meet) & (meet > 0) & (meet < 1)]
    places = np.concatenate([[0.0], np.unique(inside), [1.0]])
    heights = np.minimum.reduce([a * places + b for a, b in zip(slope, start, strict=True)])
    return float(min(1.0, ((heights[1:] + heights[:-1]) / 2 * np.diff(places)).sum()))


def largest_success(delta: Callable[[float], float]) -> float:
    """The share of right guesses that nobody exceeds where each world comes half of the time."""
    return (1 + delta(0.0)) / 2
