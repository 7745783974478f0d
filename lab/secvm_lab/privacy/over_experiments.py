"""Guarantees of several experiments together, for one person who took part in all of them.

**The sum.** Mechanisms with (ε₁, δ₁), (ε₂, δ₂), … have together (Σ ε, Σ δ), also where each is chosen in the light of
what the ones before have shown, and as a rule for when to stop. This is what a ledger goes by.

**Composition** by privacy losses gives less. A mechanism's curve δ(ε), the largest over everybody who may be asked and
over both directions, is a convex, falling function H of x = e^ε from H(0) = 1 to its limit, never below 1 - x; and each
such function is the curve of *some* two laws (Zhu, Dong, Wang). They are found by joining points of the curve with
straight lines, which lie above it: the loss ε_i gets the mass x_i (slope after - slope before), +∞ the last height.
Such losses add up like those of single looks.

It holds for experiments that were all fixed before the first tally. Where the second may depend on the first outcome
o, what counts is Σ_o P(o) · max over experiments of δ₂(ε - L(o)), and the maximum may be another experiment for every
o: that each of them alone would keep to a bound, composed with the first, does not bound it. So nobody is refused or
let in by this number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from secvm.privacy.accounting.accountant import Adjacency, Mechanism
from secvm.privacy.accounting.pld import Looks, PrivacyLoss, discretise, smallest_epsilon
from secvm.privacy.accounting.reals import Floats

#: ε at which a curve is looked at, and their negatives.
POINTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0, 3.6, 4.3, 5.0, 6.0, 7.0, 8.5, 10.0)
#: The grid on which losses are added.
_STEP = 0.01

Curve = Callable[[float], float]


def summed(guarantees: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """(ε, δ) of all together: the sums."""
    told = list(guarantees)
    return math.fsum(epsilon for epsilon, _ in told), math.fsum(delta for _, delta in told)


def composed_epsilon(curves: Sequence[Curve], delta: float) -> float:
    """ε at δ of all together, where every experiment was fixed before the first tally. Never above the sum's.

    Each curve is δ(ε) for ε ≥ 0, in both directions.
    """
    looks = Looks([(losses_of(curve), 1) for curve in curves])
    composed = smallest_epsilon(looks.delta, delta)
    share = delta / max(1, len(curves))
    return min(composed, math.fsum(smallest_epsilon(curve, share) for curve in curves))


def curve_of(mechanism: Mechanism, adjacency: Adjacency = Adjacency.ZERO_OUT) -> Curve:
    """δ(ε) of an experiment's cover."""
    return lambda epsilon: mechanism.delta(epsilon, adjacency=adjacency)


def losses_of(curve: Curve, *, points: Sequence[float] = POINTS) -> PrivacyLoss:
    """Losses of two laws whose curve lies nowhere below this one."""
    # A bound may rise again where a chance times 1 + e^ε is in it; the curve itself never does.
    at = np.minimum.accumulate([curve(epsilon) for epsilon in points]).tolist()
    # The other direction has the same curve: δ(-ε) = 1 - e^-ε (1 - δ(ε)).
    below = [(math.exp(-e), 1 - math.exp(-e) * (1 - d)) for e, d in zip(points, at, strict=True) if e > 0]
    heights = [(0.0, 1.0), *reversed(below), *((math.exp(e), d) for e, d in zip(points, at, strict=True))]
    x, y = _hull(heights)
    slopes = np.append(np.diff(y) / np.diff(x), 0.0)
    mass = np.maximum(x[1:] * np.diff(slopes), 0.0)
    infinite = float(y[-1])
    # What rounding has taken off is given to the worst.
    infinite += max(0.0, 1.0 - infinite - float(mass.sum()))
    return discretise(np.log(x[1:]), mass, infinite=infinite, step=_STEP)


def _hull(points: list[tuple[float, float]]) -> tuple[Floats, Floats]:
    """The lower convex hull: a curve that is convex and lies below the points lies below it too."""
    kept: list[tuple[float, float]] = []
    for x, y in points:
        while len(kept) >= 2 and _above(kept[-2], kept[-1], (x, y)):
            kept.pop()
        kept.append((x, y))
    found = np.array(kept, dtype=np.float64)
    return found[:, 0], found[:, 1]


def _above(left: tuple[float, float], middle: tuple[float, float], right: tuple[float, float]) -> bool:
    """Whether the middle point lies on or above the line between the others."""
    run, rise = right[0] - left[0], right[1] - left[1]
    return (middle[1] - left[1]) * run >= rise * (middle[0] - left[0])
