"""Digests sorted in place, in machine code: ten million of them have no room for a second copy.

By the first byte into 256 parts, each part by the next byte, and so on; small parts by insertion. A sender who chooses
digests can make parts large, but a digest has 32 bytes: it is moved at most so often.
"""

from __future__ import annotations

import numba as nb
import numpy as np
from numpy.typing import NDArray

from secvm.learning._kernels.compiling import compiled

_SMALL = 48
_BYTES = 32


@nb.njit(inline="always")
def _byte(digests, i, at):
    return np.int64((digests[i, at >> 3] >> np.uint64(56 - 8 * (at & 7))) & np.uint64(0xFF))


@nb.njit(inline="always")
def _below(a0, a1, a2, a3, digests, j):
    if a0 != digests[j, 0]:
        return a0 < digests[j, 0]
    if a1 != digests[j, 1]:
        return a1 < digests[j, 1]
    if a2 != digests[j, 2]:
        return a2 < digests[j, 2]
    return a3 < digests[j, 3]


@compiled
def _insertion(digests, start, end):
    for i in range(start + 1, end):
        a0, a1, a2, a3 = digests[i, 0], digests[i, 1], digests[i, 2], digests[i, 3]
        j = i
        while j > start and _below(a0, a1, a2, a3, digests, j - 1):
            for w in range(4):
                digests[j, w] = digests[j - 1, w]
            j -= 1
        digests[j, 0], digests[j, 1], digests[j, 2], digests[j, 3] = a0, a1, a2, a3


@compiled
def _sort(digests):
    # Parts that wait: start, end, byte. One part leaves at most 255 others waiting at each of 32 depths.
    waiting = np.empty((256 * _BYTES + 1, 3), dtype=np.int64)
    waiting[0] = 0, len(digests), 0
    n_waiting = 1
    free = np.empty(256, dtype=np.int64)
    ends = np.empty(256, dtype=np.int64)
    while n_waiting:
        n_waiting -= 1
        start, end, at = waiting[n_waiting, 0], waiting[n_waiting, 1], waiting[n_waiting, 2]
        if end - start <= _SMALL or at == _BYTES:
            _insertion(digests, start, end)
            continue
        ends[:] = 0
        for i in range(start, end):
            ends[_byte(digests, i, at)] += 1
        total = start
        for part in range(256):
            free[part] = total
            total += ends[part]
            ends[part] = total
        first = start
        for part in range(256):
            # Take what lies in this part's place to its own, and what lay there on, until one comes that belongs here.
            while free[part] < ends[part]:
                i = free[part]
                a0, a1, a2, a3 = digests[i, 0], digests[i, 1], digests[i, 2], digests[i, 3]
                own = _byte(digests, i, at)
                while own != part:
                    j = free[own]
                    free[own] += 1
                    b0, b1, b2, b3 = digests[j, 0], digests[j, 1], digests[j, 2], digests[j, 3]
                    own = _byte(digests, j, at)
                    digests[j, 0], digests[j, 1], digests[j, 2], digests[j, 3] = a0, a1, a2, a3
                    a0, a1, a2, a3 = b0, b1, b2, b3
                digests[i, 0], digests[i, 1], digests[i, 2], digests[i, 3] = a0, a1, a2, a3
                free[part] += 1
            if ends[part] - first > 1:
                waiting[n_waiting] = first, ends[part], at + 1
                n_waiting += 1
            first = ends[part]


def sort_digests(digests: NDArray[np.uint64]) -> None:
    """Rows of four big-endian words, ascending, in place."""
    _sort(digests)
