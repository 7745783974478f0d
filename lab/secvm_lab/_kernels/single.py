"""One model over rows as they come: for trainings of a few rounds, which a layout would not pay for.

Rows are read person after person, bins ascending. Everything is an integer, so neither pieces nor threads show.
"""

from __future__ import annotations

import numpy as np

from secvm.learning._kernels.compiling import compiled


@compiled
def _count(indptr, bins, values, i, sign, amount, plus, minus):
    """Add one person's values, ``amount`` times; a negative value is a unit of the other side."""
    same, other = (plus, minus) if sign > 0 else (minus, plus)
    for j in range(indptr[i], indptr[i + 1]):
        value = np.int64(values[j])
        if value > 0:
            same[bins[j]] += amount * value
        else:
            other[bins[j]] -= amount * value
    same[len(same) - 1] += amount


@compiled
def count_everybody(indptr, bins, values, chosen, signs, squares, units, amounts, plus, minus, first, last):
    """A first look at the people ``chosen[first:last]``: squared norm, units (the bias included in both) and amount.

    Where there is a sign they are counted too, for their rows are at hand.
    """
    for c in range(first, last):
        i = chosen[c]
        square, unit = np.int64(1), np.int64(1)
        for j in range(indptr[i], indptr[i + 1]):
            value = np.int64(values[j])
            square += value * value
            unit += abs(value)
        squares[i] = square
        units[i] = unit
        # Both operations are correctly rounded, here as in numpy.
        amounts[i] = np.int64(np.float64(2**32) / np.sqrt(np.float64(square)))
        if signs[i] != 0:
            _count(indptr, bins, values, i, signs[i], amounts[i], plus, minus)


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
        _count(indptr, bins, values, chosen[c], signs[chosen[c]], amounts[chosen[c]], plus, minus)
