"""One person's row, compiled: collect features as keys, sort them, add what shares a bin.

A key is a uint64. Its upper 32 bits say where the feature lands: the upper half of its hash, or the number of its word.
Its lowest 23 bits are the value plus 2^22. The nine bits between are more of the hash, or nothing. So one sort of plain
integers brings equal bins together (the bin grows with the hash), and equal features too: two keys that agree above the
value are the same feature, or a coincidence of 41 bits. Either sends the line to the slow path where a feature that
comes twice does not simply add.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from secvm.learning._kernels.compiling import compiled
from secvm.learning.rows import MAX_UNITS
from secvm.people._kernels.bits import hash_bytes, lent
from secvm.people._kernels.words import ABSENT, ATTEMPT, FULL, find_or_add

#: Statuses of a line and of a block.
DONE = 0
SLOW = -1
GROW = FULL

#: What a feature that comes twice in a row means: its values add; the last one counts; it counts once.
ADDS = 0
LAST_COUNTS = 1
ONCE = 2

VALUE_BITS = 23
ZERO = 1 << 22
_VALUE_MASK = np.uint64((1 << VALUE_BITS) - 1)
_SMALL = 24
#: Buckets of the first pass of the hash sort; more would not stay in the first-level cache.
MAX_BUCKET_BITS = 12
#: A bucket this long is no accident of a good hash: sort the row by another method.
_LONG_BUCKET = 64


class Rules(NamedTuple):
    """How features become bins."""

    #: Bins of the hash, or 0 where the bins are words.
    n_hash_bins: int
    #: Words that are bins; the table may hold others after them, which are only counted.
    n_word_bins: int
    #: Whether the table of words is asked at all.
    looks_up: bool
    #: Whether unknown words are added to it, or dropped.
    adds: bool
    #: Whether rows stay unsorted, because words will be renumbered at the end.
    renumbers: bool
    #: Each distinct feature counts 1.
    presence: bool
    #: Whether features are known to be distinct, so that a coincidence of hashes is no reason to doubt.
    distinct: bool
    labels_required: bool
    #: Two words for each hash.
    hash_keys: NDArray[np.uint64]


class Scratch(NamedTuple):
    """Room for one row, and for the rows of one block."""

    keys: NDArray[np.uint64]
    spare: NDArray[np.uint64]
    counts: NDArray[np.int32]
    #: A string with its escapes resolved.
    text: NDArray[np.uint8]
    bins: NDArray[np.int32]
    values: NDArray[np.int32]
    #: Per row: one past its last entry; kind, start and end of its label; its line.
    rows: NDArray[np.int64]


@nb.njit(forceinline=True)
def lend_rules(rules):
    """The rules without reference counts (``bits.lent``)."""
    return Rules(
        rules.n_hash_bins,
        rules.n_word_bins,
        rules.looks_up,
        rules.adds,
        rules.renumbers,
        rules.presence,
        rules.distinct,
        rules.labels_required,
        lent(rules.hash_keys),
    )


@nb.njit(forceinline=True)
def lend_scratch(scratch):
    """The scratch without reference counts (``bits.lent``)."""
    return Scratch(
        lent(scratch.keys),
        lent(scratch.spare),
        lent(scratch.counts),
        lent(scratch.text),
        lent(scratch.bins),
        lent(scratch.values),
        lent(scratch.rows),
    )


@nb.njit(forceinline=True)
def put(rules, words, keys, n, data, start, end, value, twice):
    """Append the keys of the feature ``data[start:end]``; their new number, or ``SLOW`` or ``GROW``."""
    if rules.looks_up:
        if value == 0 and rules.adds:
            return SLOW  # Absent, but it may take back an earlier value.
        word = find_or_add(words, data, start, end, rules.adds)
        if word == FULL:
            return GROW
        if word == ABSENT:
            return n
        if twice != ADDS:
            if words.stamps[word] == words.state[ATTEMPT]:
                return n if twice == ONCE else SLOW
            words.stamps[word] = words.state[ATTEMPT]
        if rules.n_hash_bins == 0:
            if word >= rules.n_word_bins:
                return n
            keys[n] = (np.uint64(word) << np.uint64(32)) | np.uint64(value + ZERO)
            return n + 1
    low = np.uint64(value + ZERO)
    for r in range(0, len(rules.hash_keys), 2):
        hashed = hash_bytes(rules.hash_keys[r], rules.hash_keys[r + 1], data, start, end)
        keys[n] = (hashed & ~_VALUE_MASK) | low
        n += 1
    return n


@nb.njit
def insertion_sort(keys, n):
    """Sort the first ``n`` keys; quick when they nearly are."""
    for i in range(1, n):
        key = keys[i]
        j = i
        while j > 0 and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = key


@nb.njit
def radix_sort(keys, spare, counts, n, low_bit, high_bit):
    """Sort the first ``n`` keys by their bits ``low_bit`` to ``high_bit``, a byte at a time."""
    if n <= _SMALL:
        insertion_sort(keys, n)
        return
    source, target = keys, spare
    passes = 0
    for shift in range(low_bit, high_bit, 8):
        counts[:256] = 0
        for i in range(n):
            counts[(source[i] >> np.uint64(shift)) & np.uint64(255)] += 1
        total = 0
        for digit in range(256):
            count = counts[digit]
            counts[digit] = total
            total += count
        for i in range(n):
            digit = (source[i] >> np.uint64(shift)) & np.uint64(255)
            target[counts[digit]] = source[i]
            counts[digit] += 1
        source, target = target, source
        passes += 1
    if passes & 1:
        for i in range(n):
            keys[i] = spare[i]


@nb.njit
def hash_sort(keys, spare, counts, n):
    """Sort the first ``n`` keys, whose upper bits are evenly spread: one pass into buckets, then small repairs."""
    if n <= _SMALL:
        insertion_sort(keys, n)
        return
    bits = 5
    while bits < MAX_BUCKET_BITS and (1 << bits) < n:
        bits += 1
    shift = np.uint64(64 - bits)
    counts[: 1 << bits] = 0
    for i in range(n):
        counts[keys[i] >> shift] += 1
    total = 0
    longest = 0
    for bucket in range(1 << bits):
        count = counts[bucket]
        counts[bucket] = total
        total += count
        longest = max(longest, count)
    if longest > _LONG_BUCKET:
        radix_sort(keys, spare, counts, n, 0, 64)
        return
    for i in range(n):
        bucket = keys[i] >> shift
        spare[counts[bucket]] = keys[i]
        counts[bucket] += 1
    for i in range(n):
        keys[i] = spare[i]
    insertion_sort(keys, n)


@nb.njit
def merge(keys, n, n_hash_bins, unique, bins, values, at):
    """Write sorted keys from entry ``at`` on, adding what shares a bin, without zeros; the new end, or ``SLOW``."""
    if unique:
        for i in range(1, n):
            if keys[i] >> np.uint64(VALUE_BITS) == keys[i - 1] >> np.uint64(VALUE_BITS):
                return SLOW
    units = 0
    i = 0
    while i < n:
        place = np.int64(keys[i] >> np.uint64(32))
        bin_index = (place * n_hash_bins) >> 32 if n_hash_bins else place
        total = np.int64(keys[i] & _VALUE_MASK) - ZERO
        i += 1
        while i < n:
            place = np.int64(keys[i] >> np.uint64(32))
            if ((place * n_hash_bins) >> 32 if n_hash_bins else place) != bin_index:
                break
            total += np.int64(keys[i] & _VALUE_MASK) - ZERO
            i += 1
        units += abs(total)
        if units >= MAX_UNITS:
            return SLOW
        if total != 0:
            bins[at] = bin_index
            values[at] = total
            at += 1
    return at


@nb.njit
def word_bits(n_words):
    """Bits of the largest word's number, in whole bytes."""
    bits = 8
    while n_words >> bits:
        bits += 8
    return bits


@nb.njit
def finish_row(rules, words, scratch, n, twice, at):
    """Turn the row's ``n`` keys into entries from ``at`` on; the new end, or ``SLOW``."""
    keys = scratch.keys
    if rules.renumbers:
        units = 0
        for i in range(n):
            value = np.int64(keys[i] & _VALUE_MASK) - ZERO
            units += abs(value)
            scratch.bins[at + i] = keys[i] >> np.uint64(32)
            scratch.values[at + i] = value
        return at + n if units < MAX_UNITS else SLOW
    if rules.n_hash_bins:
        hash_sort(keys, scratch.spare, scratch.counts, n)
        unique = twice != ADDS and not rules.looks_up
        return merge(keys, n, rules.n_hash_bins, unique, scratch.bins, scratch.values, at)
    radix_sort(keys, scratch.spare, scratch.counts, n, 32, 32 + word_bits(len(words.stamps)))
    return merge(keys, n, 0, False, scratch.bins, scratch.values, at)


@compiled
def renumber(indptr, bins, values, ranks, keys, spare, counts):
    """Give every bin its rank, in place, sort each row and add what is equal; the new number of entries."""
    at = np.int64(0)
    start = np.int64(0)
    for row in range(len(indptr) - 1):
        end = indptr[row + 1]
        n = end - start
        for i in range(n):
            place = np.uint64(ranks[bins[start + i]])
            keys[i] = (place << np.uint64(32)) | np.uint64(np.int64(values[start + i]) + ZERO)
        radix_sort(keys, spare, counts, n, 32, 32 + word_bits(len(ranks)))
        at = merge(keys, n, 0, False, bins, values, at)
        start = end
        indptr[row + 1] = at
    return at
