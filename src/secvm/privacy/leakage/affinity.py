"""How far one person's known vector moves one cell of the tally, exactly.

A cell counts the packages of one sign in one bin. V people of that sign send; each has the bin with probability p and
sends a unit with probability q: θ = q p. Two worlds:

    somebody is in the person's place:   n ~ Binomial(V, θ)
    the person itself is there:          n ~ Binomial(V - 1, θ) + Bernoulli(q x),      x = 1 if it has the bin, else 0

Everybody knows V (participation packages; the bias bin), so the worlds differ by the *person*, not by one package more.
The likelihood ratio of the second world to the first is a straight line in n,

    r(n) = 1 + (n - Vθ) (q x - θ) / (Vθ (1 - θ)),

its mean is 1, and its variance (q x - θ)² / (Vθ (1 - θ)) is the cell's share of d'² in the law. That law is the normal
one. It is too large where Vθ is small, because nobody can be more certain than certain. What stays finite, adds up over
independent cells and rounds, and is d'² itself for a normal shift, is

    -8 ln E √r      (E √r is the Bhattacharyya coefficient; exp(-d'²/8) for two normals d' apart).

``cell_information`` gives that. 1 - E √r is computed as E (1 - √r)² / 2, which loses no digits when it is tiny.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

#: Counts further than this many standard deviations from the mean (and these more) do not matter.
_WIDTH, _MORE = 9.0, 30
#: With a mean above this the variance of r is the information to a thousandth of itself.
_NORMAL_ABOVE = 2_000.0


def variance_of_ratio(*, senders: float, theta: float, q: float, has_it: bool) -> float:
    """The cell's share of d'² in the normal law."""
    if theta <= 0 or theta >= 1:
        return 0.0  # a bin nobody has, or everybody has, is the same in both worlds
    return (q * has_it - theta) ** 2 / (senders * theta * (1 - theta))


def cell_information(*, senders: int, theta: float, q: float, has_it: bool) -> float:
    """-8 ln of the Bhattacharyya coefficient of one cell's two worlds."""
    normal = variance_of_ratio(senders=senders, theta=theta, q=q, has_it=has_it)
    mean = senders * theta
    if normal == 0 or min(mean, senders - mean) > _NORMAL_ABOVE:
        return normal
    counts, chances = _binomial(senders, theta)
    slope = (q * has_it - theta) / (mean * (1 - theta))
    ratio = np.maximum(0.0, 1 + (counts - mean) * slope)
    missing = float(chances @ (1 - np.sqrt(ratio)) ** 2) / 2
    return -8 * math.log1p(-min(missing, 1 - 1e-300))


def _binomial(n: int, theta: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Counts around the mean and their probabilities, from the ratios of neighbours."""
    mean = n * theta
    reach = _WIDTH * math.sqrt(mean * (1 - theta)) + _MORE
    counts = np.arange(max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach)) + 1, dtype=float)
    steps = np.log((n - counts[:-1]) / (counts[:-1] + 1)) + math.log(theta) - math.log1p(-theta)
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    chances = np.exp(logs - logs.max())
    return counts, chances / chances.sum()
