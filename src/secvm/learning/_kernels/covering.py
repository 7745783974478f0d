"""The compiled twin of the cover's sampler: many devices' cover of a round, counted per cell.

``individual/cover.py`` is the specification: the same words of the same seeded dice in the same order, compared with
first digits alone (``learning/cover_digits.py``). Where a word equals a digit the device is *left open*: nothing of it
is counted, and its caller asks the sampler.
"""

from __future__ import annotations

import numpy as np

from secvm.learning._kernels.compiling import compiled, trailing_zeros
from secvm.learning._kernels.siphash import siphash24_word

#: Words thrown at once; the sampler's blocks of words are multiples of it.
_CHUNK = 256
#: In chunks: the sampler's first block, its largest one, and the end of a round's dice.
_FIRST, _MOST, _BLOCKS = 1, 16, 1 << 12
_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_BLOCK_SHIFT = np.uint64(32)
#: Places of what a stream remembers: the next word, the next chunk in its block, the block.
_AT, _IN_BLOCK, _BLOCK = 0, 1, 2


@compiled
def _refill(words, stream, k0, k1, counter):
    """The next chunk of words, or False when the dice have ended."""
    if stream[_IN_BLOCK] == min(_FIRST << min(stream[_BLOCK], 32), _MOST):
        stream[_BLOCK] += 1
        stream[_IN_BLOCK] = 0
    if stream[_BLOCK] == _BLOCKS:
        return False
    first = counter + (np.uint64(stream[_BLOCK]) << _BLOCK_SHIFT) + np.uint64(stream[_IN_BLOCK] * _CHUNK)
    for t in range(_CHUNK):  # without branches, so that LLVM throws several dice at once
        words[t] = siphash24_word(k0, k1, first + np.uint64(t))
    stream[_IN_BLOCK] += 1
    stream[_AT] = 0
    return True


@compiled
def _points(units, sure, accept, words, stream, k0, k1, counter):
    """Poisson of a whole mean as a sum of Poisson(1), or -1: left open."""
    points = 0
    for _ in range(units):
        accepted = False
        while not accepted:
            if stream[_AT] == _CHUNK and not _refill(words, stream, k0, k1, counter):
                return -1
            word = words[stream[_AT]]
            stream[_AT] += 1
            if word == _ALL_ONES:
                return -1
            k = np.int64(trailing_zeros(~word))
            accepted = sure[k]
            if not accepted:
                if stream[_AT] == _CHUNK and not _refill(words, stream, k0, k1, counter):
                    return -1
                word = words[stream[_AT]]
                stream[_AT] += 1
                if word == accept[k]:
                    return -1
                accepted = word < accept[k]
        points += k
    return points


@compiled
def _staying(points, stay, words, stream, k0, k1, counter):
    """How many points stay, or -1: left open."""
    staying = 0
    for _ in range(points):
        if stream[_AT] == _CHUNK and not _refill(words, stream, k0, k1, counter):
            return -1
        word = words[stream[_AT]]
        stream[_AT] += 1
        if word == stay:
            return -1
        staying += word < stay
    return staying


@compiled
def _size(powers, words, stream, k0, k1, counter):
    """A geometric size, or 0: left open."""
    passed = 0
    n = len(powers)
    while True:
        if stream[_AT] == _CHUNK and not _refill(words, stream, k0, k1, counter):
            return 0
        word = words[stream[_AT]]
        stream[_AT] += 1
        low, high = 0, n  # powers[:low] < word <= powers[high:]
        while low < high:
            middle = (low + high) >> 1
            if powers[middle] < word:
                low = middle + 1
            else:
                high = middle
        if low < n and powers[low] == word:
            return 0
        if low > 0:
            return passed + n - low + 1
        passed += n


@compiled
def _uniform(n, words, stream, k0, k1, counter):
    """0 … n-1 for n > 1, or -1: left open."""
    modulus = np.uint64(n)
    last_usable = _ALL_ONES - (_ALL_ONES % modulus + _ONE) % modulus
    while True:
        if stream[_AT] == _CHUNK and not _refill(words, stream, k0, k1, counter):
            return -1
        word = words[stream[_AT]]
        stream[_AT] += 1
        if word <= last_usable:
            return np.int64(word % modulus)


@compiled
def count_cover(keys, counter, law, sure, accept, powers, low, high, counts, left_open):
    """Add the cover of devices ``low`` to ``high`` to ``counts``, per cell; mark those that are left open.

    ``counter`` is the dice counter of the round; ``law`` is (units, stays for sure, first digit of staying, cells,
    cap).
    """
    units, all_stay, stay, cells, cap = law
    words = np.empty(_CHUNK, np.uint64)
    stream = np.empty(3, np.int64)
    clusters = np.empty((max(cap, 1), 2), np.int64)
    for i in range(low, high):
        k0, k1 = keys[i, 0], keys[i, 1]
        stream[_AT], stream[_IN_BLOCK], stream[_BLOCK] = _CHUNK, 0, 0
        points = _points(units, sure, accept, words, stream, k0, k1, counter)
        if points > 0 and not all_stay:
            points = _staying(points, stay, words, stream, k0, k1, counter)
        left_open[i] = points < 0
        room, n = cap, 0
        while points > 0 and room > 0:
            points -= 1
            size = _size(powers, words, stream, k0, k1, counter)
            stays = 0
            if size > 1:
                stays = _uniform(size, words, stream, k0, k1, counter)
            if size > 0 and stays > 0:
                continue
            cell = 0
            if size > 0 and stays == 0 and cells > 1:
                cell = _uniform(cells, words, stream, k0, k1, counter)
            if size == 0 or stays < 0 or cell < 0:
                left_open[i] = True
                break
            clusters[n, 0], clusters[n, 1] = cell, min(size, room)
            room -= clusters[n, 1]
            n += 1
        if not left_open[i]:
            for c in range(n):
                counts[clusters[c, 0]] += clusters[c, 1]
