"""The step of Pegasos for many models at once, line by line; ``learning.arithmetic`` is the specification.

``estimator.engine`` checks all ranges first; these loops assume them.
"""

from __future__ import annotations

import numpy as np

from secvm.learning._kernels.compiling import compiled


@compiled
def step(counts, half, older, newer, ups, downs, ps, qs, inverses, largest, first, last, lanes):
    """Newer = older + round_half_even(2^32 * (up N⁺ - down N⁻) * p / q), lines ``first`` to ``last``.

    ``largest`` becomes each lane's greatest absolute value. Needs q < 2^30, |numerator * p| < 2^62, and a quotient
    below 2^50: a float then guesses each quotient to within one, and the integers put it right without a branch.
    """
    width = len(lanes)
    for line in range(first, last):
        for k in range(width):
            at = line * width + k
            product = (ups[k] * counts[at] - downs[k] * counts[half * width + at]) * ps[k]
            q, inverse = qs[k], inverses[k]
            whole = np.int64(np.floor(np.float64(product) * inverse))
            rest = product - whole * q
            below = np.int64(rest < 0)
            whole -= below
            rest += below * q
            above = np.int64(rest >= q)
            whole += above
            rest -= above * q
            shifted = rest << 32
            quotient = np.int64(np.float64(shifted) * inverse)
            rest = shifted - quotient * q
            below = np.int64(rest < 0)
            quotient -= below
            rest += below * q
            above = np.int64(rest >= q)
            quotient += above
            rest -= above * q
            up = np.int64(2 * rest > q) | (np.int64(2 * rest == q) & (quotient & 1))
            value = older[at] + (whole << 32) + quotient + up
            newer[at] = value
            largest[k] = max(largest[k], abs(value))


@compiled
def shorten(state, bits, shorter, weights, first, last, lanes):
    """Shortened weights: mantissas (``bits`` left out, half to even), then ``shorter`` bits more, half up."""
    width = len(lanes)
    for line in range(first, last):
        for k in range(width):
            at = line * width + k
            value, cut = state[at], bits[k]
            whole = value >> cut
            rest = value - (whole << cut)
            half = (np.int64(1) << cut) >> 1
            tie = np.int64(rest == half) & (whole & 1)
            whole += (np.int64(rest > half) | tie) & np.int64(cut > 0)
            weights[at] = np.int32((whole + ((np.int64(1) << shorter[k]) >> 1)) >> shorter[k])
