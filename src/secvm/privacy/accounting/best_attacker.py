"""The best attacker's AUC against a guarantee: what (ε, δ), or a whole curve δ(ε), leaves anybody to find out.

Somebody has to tell two worlds apart, and may say "the second" with probability x in the first (false alarms) and y in
the second (hits). If both P(S) ≤ e^ε Q(S) + δ and Q(S) ≤ e^ε P(S) + δ hold for every event S, then

    y ≤ δ + e^ε x       and       y ≤ 1 - e^-ε (1 - δ - x)        (the same, for the other event and direction)

at every point (ε, δ) at once. The area below the lowest of these lines is the largest AUC that any attacker has,
whatever it knows besides and however it computes. One point gives e^ε / (1 + e^ε) at δ = 0; a curve gives far less,
because no mechanism of noise is as bad as its (ε, δ) at every ε.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations

#: Nothing is certain before an ε of this size, to a float.
_CERTAIN = 700.0


def auc_at_most(points: Iterable[tuple[float, float]]) -> float:
    """The largest AUC under all of these (ε, δ), each of which holds in both directions. No point: 1."""
    lines = [(1.0, 0.0)]
    for epsilon, delta in points:
        if epsilon < 0 or not 0 <= delta <= 1:
            raise ValueError("a guarantee has an ε that is not negative, and a δ from 0 to 1")
        if epsilon < _CERTAIN:
            lines += [(delta, math.exp(epsilon)), (1 - math.exp(-epsilon) * (1 - delta), math.exp(-epsilon))]
    # Between two points where lines cross, the lowest is one line: trapezoids are exact.
    places = {0.0, 1.0}
    for (low, slope), (other, steep) in combinations(lines, 2):
        if slope != steep and 0 < (x := (other - low) / (slope - steep)) < 1:
            places.add(x)
    ordered = sorted(places)
    heights = [min(low + slope * x for low, slope in lines) for x in ordered]
    area = math.fsum(
        (right - left) * (a + b) / 2
        for left, right, a, b in zip(ordered, ordered[1:], heights, heights[1:], strict=False)
    )
    return min(1.0, max(0.5, area))
