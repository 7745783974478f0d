"""The compiled loops of thinning: which of a person's units its dice keep, and how many."""

from __future__ import annotations

import numpy as np

from secvm.learning._kernels.compiling import compiled
from secvm.learning._kernels.siphash import siphash24_word

#: Units whose dice are thrown at once: enough for the CPU's vectors, few enough for its first cache.
_CHUNK = 512
_DROPPED_BITS = np.uint64(11)


@compiled
def _entry_of(unit, ends, j):
    """First entry from ``j`` on that ends after ``unit``: near when many units are kept, far when few are."""
    if ends[j] > unit:
        return j
    low, step = j, 1
    while low + step < len(ends) and ends[low + step] <= unit:
        low += step
        step *= 2
    high = min(low + step, len(ends) - 1)  # ends[low] <= unit < ends[high]
    while high - low > 1:
        middle = (low + high) >> 1
        if ends[middle] <= unit:
            low = middle
        else:
            high = middle
    return high


@compiled
def count_kept(indptr, bins, values, n_bins, signs, keys, keep53, counter, low, high, plus, minus):
    """Add the kept units of people ``low`` to ``high`` to one model's tally.

    ``counter`` is the dice counter of unit 0: round and model in its upper bits.
    """
    longest = 0
    for i in range(low, high):
        longest = max(longest, indptr[i + 1] - indptr[i])
    all_ends = np.empty(longest + 1, np.int64)
    kept = np.empty(_CHUNK, np.bool_)
    for i in range(low, high):
        keep = keep53[i]
        if signs[i] == 0 or keep <= 0:
            continue
        # Entry j has the units from the end of the entry before it up to ends[j]; the bias unit comes last.
        start, n_entries = indptr[i], indptr[i + 1] - indptr[i]
        ends = all_ends[: n_entries + 1]
        n_units = 0
        for j in range(n_entries):
            n_units += abs(np.int64(values[start + j]))
            ends[j] = n_units
        n_units += 1
        ends[n_entries] = n_units
        k0, k1 = keys[i, 0], keys[i, 1]
        j = 0
        for done in range(0, n_units, _CHUNK):
            n = min(_CHUNK, n_units - done)
            first = counter + np.uint64(done)
            # A loop of its own, without branches, so that LLVM throws several dice at once.
            for t in range(n):
                word = siphash24_word(k0, k1, first + np.uint64(t)) >> _DROPPED_BITS
                kept[t] = np.int64(word) < keep
            for t in range(n):
                if kept[t]:
                    j = _entry_of(done + t, ends, j)
                    bias = j == n_entries
                    bin_index = n_bins if bias else np.int64(bins[start + j])
                    if (signs[i] > 0) == (bias or values[start + j] > 0):
                        plus[bin_index] += 1
                    else:
                        minus[bin_index] += 1


@compiled
def count_units(n_units, signs, keys, keep53, counter, low, high, kept):
    """Add the number of units that people ``low`` to ``high`` keep for one model; arguments as in ``count_kept``."""
    for i in range(low, high):
        if signs[i] == 0 or keep53[i] <= 0:
            continue
        k0, k1, keep = keys[i, 0], keys[i, 1], keep53[i]
        total = 0
        for unit in range(n_units[i]):
            word = siphash24_word(k0, k1, counter + np.uint64(unit)) >> _DROPPED_BITS
            total += np.int64(word) < keep
        kept[i] += total
