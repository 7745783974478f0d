"""What Gaussian noise is worth, exactly (Balle and Wang 2018; Dong, Roth and Su 2019).

A sum that one person changes by a vector of length s at most, plus N(0, σ²) in each place, tells as much as one draw of
N(0, 1) against N(μ, 1) with μ = s / σ. Many looks, each chosen after what the ones before have shown, tell as much as
one with μ² = Σ μ_t². For that pair, whichever way round,

    δ(ε) = Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2)
"""

from __future__ import annotations

import math

from secvm.errors import BadInputError

#: Halvings of the interval in which μ lies: down to the last bits of a float.
_HALVINGS = 100
_MAX_MU = 1e4


def normal_below(x: float) -> float:
    """Φ(x), good to a few last digits also far below 0."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def delta_of(epsilon: float, mu: float) -> float:
    """δ(ε) of looks that together tell μ."""
    if mu == 0:
        return 0.0
    second = normal_below(-epsilon / mu - mu / 2)
    # e^ε can be more than a float holds where Φ is less than one holds: then their product is nothing.
    raised = math.exp(epsilon + math.log(second)) if second > 0 else 0.0
    return max(0.0, normal_below(-epsilon / mu + mu / 2) - raised)


def mu_for(epsilon: float, delta: float) -> float:
    """The most that looks may tell together under (ε, δ); δ grows with μ, so halving finds it, from below."""
    if not (epsilon >= 0 and 0 < delta < 1):
        raise BadInputError("ε must not be negative, and δ must lie between 0 and 1")
    low, high = 0.0, 1.0
    while delta_of(epsilon, high) <= delta:
        low, high = high, 2 * high
        if high > _MAX_MU:
            return math.inf
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(epsilon, middle) <= delta else (low, middle)
    return low
