"""One model over rows as they come: for trainings of a few rounds, which a layout would not pay for.

Rows are read person after person, bins ascending. Everything is an integer, so neither pieces nor threads show.
"""

from __future__ import annotations

import numpy as np

from secvm.learning._kernels.compiling import compiled


@compiled
def row_facts(indptr, values, squares, units, first, last):
    """Each person's squared norm and units, the bias included."""
    for i in range(first, last):
        square, unit = np.int64(1), np.int64(1)
        for j in range(indptr[i], indptr[i + 1]):
            value = np.int64(values[j])
            square += value * value
            unit += abs(value)
        squares[i] = square
        units[i] = unit


@compiled
def score_chosen(indptr, bins, values, weights, chosen, out, first, last):
    """Integer scores of the people ``chosen[first:last]``; ``weights`` are mantissas, the bias last."""
    for c in range(first, last):
        i = chosen[c]
        a = np.int64(weights[len(weights) - 1])
        b = d = e = np.int64(0)
        j, end = indptr[i], indptr[i + 1]
        while j + 4 <= end:
            if values[j] == 0:  # never; a loop whose end depends on the data is not turned into gathers
                break
            a += np.int64(weights[bins[j]]) * values[j]
            b += np.int64(weights[bins[j + 1]]) * values[j + 1]
            d += np.int64(weights[bins[j + 2]]) * values[j + 2]
            e += np.int64(weights[bins[j + 3]]) * values[j + 3]
            j += 4
        while j < end:
            a += np.int64(weights[bins[j]]) * values[j]
            j += 1
        out[c] = (a + b) + (d + e)


@compiled
def count_chosen(indptr, bins, values, chosen, signs, amounts, plus, minus, first, last):
    """Add ``amounts`` times the values of the people ``chosen[first:last]`` to the side that sign and value say."""
    for c in range(first, last):
        i = chosen[c]
        amount = amounts[c]
        same, other = (plus, minus) if signs[i] > 0 else (minus, plus)
        for j in range(indptr[i], indptr[i + 1]):
            value = np.int64(values[j])
            if value > 0:
                same[bins[j]] += amount * value
            else:
                other[bins[j]] -= amount * value
        same[len(same) - 1] += amount
