"""The roundings of ``learning.arithmetic`` in one pass each: numpy needs eight, and a state may hold millions of
numbers.

``arithmetic`` is the specification and checks all ranges; these loops assume them.
"""

from __future__ import annotations

import numpy as np

from secvm.learning._kernels.compiling import compiled


@compiled
def scaled(values, p, q, bits, out):
    """Out = round_half_even(values * p * 2^bits / q) for |values * p| < 2^62, 0 < q < 2^62, |values * p / q| < 2^50."""
    # A float guesses each quotient to within a few units, the integers put it right: an integer division costs as much
    # as all of this together.
    inverse = 1.0 / np.float64(q)
    short = q < (np.int64(1) << np.int64(62 - bits))
    for i in range(len(values)):
        product = values[i] * p
        whole = np.int64(np.floor(np.float64(product) * inverse))
        rest = product - whole * q
        while rest < 0:
            whole -= 1
            rest += q
        while rest >= q:
            whole += 1
            rest -= q
        if short:
            shifted = rest << bits
            quotient = np.int64(np.float64(shifted) * inverse)
            rest = shifted - quotient * q
            while rest < 0:
                quotient -= 1
                rest += q
            while rest >= q:
                quotient += 1
                rest -= q
        else:
            quotient = np.int64(0)
            for _ in range(bits):
                rest <<= 1
                quotient <<= 1
                if rest >= q:
                    rest -= q
                    quotient |= 1
        if 2 * rest > q or (2 * rest == q and quotient & 1):
            quotient += 1
        out[i] = (whole << bits) + quotient


@compiled
def shifted_right(values, bits, out):
    """Out = round_half_even(values / 2^bits), 0 < bits < 63."""
    half = np.int64(1) << np.int64(bits - 1)
    for i in range(len(values)):
        whole = values[i] >> bits
        rest = values[i] - (whole << bits)
        if rest > half or (rest == half and whole & 1):
            whole += 1
        out[i] = whole
