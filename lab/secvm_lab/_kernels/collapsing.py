"""Words that one person alone has: who has which words is looked at once, and rows are then cut in two.

Bins are bits of two sets. A bin is in the first when somebody has it, and in the second when two people have it, or one
with another value than 1; those bins are *kept*. All others that anybody has are some person's *own*. Kept bins are
numbered in ascending order; a directory of how many there are before each word of the set makes that quick.
"""

from __future__ import annotations

import numpy as np
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from secvm.learning._kernels.compiling import compiled, prefetch

_ONE = np.uint64(1)
_BITS = np.uint64(63)
_SHIFT = np.uint64(6)
#: Sets of hundreds of millions of bins are far away: words of so many entries ahead are asked for.
_AHEAD = 24


@intrinsic
def _ones(typing_context, word):
    """How many bits of a word are set."""

    def generate(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), generate


@compiled
def mark(bins, values, somebody, kept):
    """Enter people's bins into both sets; no row has a bin twice. Without values all are 1."""
    for j in range(len(bins)):
        soon = np.uint64(bins[min(j + _AHEAD, len(bins) - 1)]) >> _SHIFT
        prefetch(somebody, soon)
        prefetch(kept, soon)
        bin_index = np.uint64(bins[j])
        word, bit = bin_index >> _SHIFT, _ONE << (bin_index & _BITS)
        if somebody[word] & bit or (len(values) and values[j] != 1):
            kept[word] |= bit
        somebody[word] |= bit


@compiled
def directory(kept, firsts):
    """``firsts[w]`` becomes the number of kept bins before word w of the set; gives their number."""
    total = np.int64(0)
    for word in range(len(kept)):
        firsts[word] = total
        total += np.int64(_ones(kept[word]))
    return total


@compiled
def list_bins(kept, out):
    """Write the bins of a set in ascending order."""
    at = 0
    for word in range(len(kept)):
        rest = kept[word]
        while rest:
            lowest = rest & (~rest + _ONE)
            out[at] = (word << 6) + np.int64(_ones(lowest - _ONE))
            at += 1
            rest ^= lowest


@compiled
def cut(indptr, bins, values, kept, firsts, new_indptr, new_bins, new_values, own, own_bins):
    """Write rows of kept bins by their new numbers, how many own bins each person has, and these.

    Gives how many kept and own bins were written. ``own_bins`` may be empty: then they are only counted.
    """
    at = own_at = 0
    new_indptr[0] = 0
    for i in range(len(indptr) - 1):
        before = own_at
        for j in range(indptr[i], indptr[i + 1]):
            soon = np.uint64(bins[min(j + _AHEAD, len(bins) - 1)]) >> _SHIFT
            prefetch(kept, soon)
            prefetch(firsts, soon)
            bin_index = np.uint64(bins[j])
            word, bit = bin_index >> _SHIFT, _ONE << (bin_index & _BITS)
            if kept[word] & bit:
                new_bins[at] = firsts[word] + np.int64(_ones(kept[word] & (bit - _ONE)))
                new_values[at] = values[j] if len(values) else 1
                at += 1
            else:
                if len(own_bins):
                    own_bins[own_at] = bins[j]
                own_at += 1
        new_indptr[i + 1] = at
        own[i] = own_at - before
    return at, own_at


def words_for(n_bins: int) -> NDArray[np.uint64]:
    """An empty set of bins."""
    return np.zeros(-(-n_bins // 64), np.uint64)
