"""The words of people at Twitter's shape: how dice become words, each word of a person once.

See ``paper.twitter.law``.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from secvm.learning._kernels.compiling import compiled
from secvm.learning._kernels.siphash import siphash24_word
from secvm_lab._kernels.twitter_numbers import (
    CELL_BITS,
    COIN_BITS,
    PLACE_BITS,
    POINT_BITS,
    QUANTILE_BITS,
    STRENGTH_BITS,
    THROW_BITS,
)

#: Dice thrown at once; few enough for the first cache.
_CHUNK = 256
#: Near the end of a person's text a batch is not much larger than what is missing.
_LEAST = 16
_U = np.uint64
_CELL, _PLACE = _U(64 - CELL_BITS), _U(COIN_BITS)
_PLACE_MASK, _COIN_MASK = _U(2**PLACE_BITS - 1), _U(2**COIN_BITS - 1)
_FAIR = 2 ** (COIN_BITS - 1)
_PERSON = _U(32)
#: 2^64 over the golden ratio: spreads neighbouring words over the table.
_SPREAD = _U(0x9E3779B97F4A7C15)


@nb.njit(inline="always")
def _is_new(table, bits, stamp, word):
    """Put the word into the person's set; false if it was there. Entries with another's stamp are free."""
    mask = np.uint64(len(table) - 1)
    at = (np.uint64(word) * _SPREAD) >> np.uint64(64 - bits)
    entry = (stamp << _PERSON) | np.uint64(word)
    while table[at] >> _PERSON == stamp:
        if table[at] == entry:
            return False
        at = (at + _U(1)) & mask
    table[at] = entry
    return True


@compiled
def draw_words(edges, leans, word_key, lean_key, first_person, sides, strengths, indptr, low, high, table_bits, out):
    """Write the words of people ``low`` to ``high`` of a chunk; returns the first who ran out of dice, or -1.

    ``edges`` and ``leans`` are the law's tables, ``out[indptr[i] : indptr[i + 1]]`` is for person i of the chunk.
    """
    table = np.zeros(1 << table_bits, np.uint64)
    dice, pairs, hashes = np.empty(_CHUNK, np.uint64), np.empty(_CHUNK, np.uint64), np.empty(_CHUNK, np.uint64)
    k0, k1, l0, l1 = word_key[0], word_key[1], lean_key[0], lean_key[1]
    for i in range(low, high):
        stamp = np.uint64(i + 1)
        at, end = indptr[i], indptr[i + 1]
        first = np.uint64(first_person + i) << np.uint64(THROW_BITS)
        thrown, side, strength = 0, np.uint64(sides[i]), np.int64(strengths[i])
        while at < end:
            n = min(_CHUNK, max(_LEAST, end - at))
            if thrown + n > 1 << THROW_BITS:
                return i
            # Loops without branches, so that LLVM makes vectors of them.
            for t in range(n):
                dice[t] = siphash24_word(k0, k1, first + np.uint64(thrown + t))
            for t in range(n):
                cell = dice[t] >> _CELL
                edge = edges[cell]
                width = edges[cell + _U(1)] - edge
                place = (((dice[t] >> _PLACE) & _PLACE_MASK) * width) >> np.uint64(PLACE_BITS)
                pairs[t] = (edge + place) >> np.uint64(POINT_BITS)
            for t in range(n):
                hashes[t] = siphash24_word(l0, l1, pairs[t])
            for t in range(n):
                lean = leans[hashes[t] >> _U(64 - QUANTILE_BITS)]
                heads = np.int64(dice[t] & _COIN_MASK) < _FAIR + ((lean * strength) >> STRENGTH_BITS)
                word = (pairs[t] << _U(1)) | (np.uint64(heads) ^ side)
                if _is_new(table, table_bits, stamp, word):
                    out[at] = np.int32(word)
                    at += 1
                    if at == end:
                        break
            thrown += n
    return -1


@compiled
def count_people(words, counts):
    """Add how many people have each word, up to 255."""
    for j in range(len(words)):
        counts[words[j]] += counts[words[j]] < 255
