"""An exact table of words, compiled: bytes to a number, in the order in which words first came.

Open addressing over ``slots``, four words of 64 bits each: the upper half of the hash beside the word's number plus one
(0: free); then the word itself, if it has at most 15 bytes, so that finding it touches one cache line. All words lie
one after the other in ``arena``; word k is ``arena[starts[k]:starts[k + 1]]``. Equal hashes are told apart by comparing
bytes, so nothing depends on the hash but the speed; its key is random, so that nobody can prepare a file whose words
all collide.

The caller owns the arrays. When one is full, ``find_or_add`` says ``FULL``; the caller grows it and tries the line
again.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from secvm.learning._kernels.compiling import compiled
from secvm.people._kernels.bits import PADDING, hash_bytes, lent, load_word, same_bytes, tail_word

ABSENT = -1
FULL = -2

#: Words of 64 bits in a slot, and bytes of a word that fit into one.
SLOT = 4
_SHORT = 15

#: Places in ``Words.state``.
N_WORDS = 0
ATTEMPT = 1


class Words(NamedTuple):
    """The table's arrays."""

    slots: NDArray[np.uint64]
    starts: NDArray[np.int64]
    arena: NDArray[np.uint8]
    #: The attempt at a line that last saw the word: two of the same mean it came twice.
    stamps: NDArray[np.int32]
    #: ``N_WORDS`` and ``ATTEMPT``.
    state: NDArray[np.int64]
    #: The random hash key.
    key: NDArray[np.uint64]


def new_words(key: bytes, *, n_words: int, n_bytes: int) -> Words:
    """An empty table with room for so many words of so many bytes in all."""
    # At most half full, and a power of two.
    n_slots = 1 << max(4, (2 * n_words - 1).bit_length())
    return Words(
        slots=np.zeros(n_slots * SLOT, dtype=np.uint64),
        starts=np.zeros(n_words + 1, dtype=np.int64),
        arena=np.zeros(n_bytes + PADDING, dtype=np.uint8),
        stamps=np.zeros(n_words, dtype=np.int32),
        state=np.zeros(2, dtype=np.int64),
        key=np.frombuffer(key, dtype="<u8"),
    )


@nb.njit(forceinline=True)
def lend_words(words):
    """The table without reference counts (``bits.lent``)."""
    return Words(
        lent(words.slots),
        lent(words.starts),
        lent(words.arena),
        lent(words.stamps),
        lent(words.state),
        lent(words.key),
    )


@nb.njit(forceinline=True)
def _short_form(data, start, n):
    """A word of at most 15 bytes and its length as two words; one pair for all longer ones."""
    if n > _SHORT:
        return np.uint64(0), np.uint64(0xFF) << np.uint64(56)
    length = np.uint64(n) << np.uint64(56)
    if n < 8:
        return np.uint64(0), tail_word(data, start, n) | length
    return load_word(data, start), tail_word(data, start + 8, n - 8) | length


@nb.njit
def find_or_add(words, data, start, end, adds):
    """The number of the word ``data[start:end]``; ``ABSENT`` if it is new and ``adds`` is false; ``FULL``."""
    hashed = hash_bytes(words.key[0], words.key[1], data, start, end)
    mask = np.int64(len(words.slots) // SLOT - 1)
    tag = hashed >> np.uint64(32)
    n = end - start
    head, tail = _short_form(data, start, n)
    at = (np.int64(hashed) & mask) * SLOT
    while True:
        slot = words.slots[at]
        if slot == np.uint64(0):
            break
        if slot >> np.uint64(32) == tag and words.slots[at + 1] == head and words.slots[at + 2] == tail:
            word = np.int64(slot & np.uint64(0xFFFFFFFF)) - 1
            if n <= _SHORT:
                return word
            first = words.starts[word]
            if words.starts[word + 1] - first == n and same_bytes(words.arena, first, data, start, n):
                return word
        at = (at + SLOT) & (mask * SLOT)
    if not adds:
        return ABSENT
    word = words.state[N_WORDS]
    first = words.starts[word]
    if word == len(words.stamps) or first + n > len(words.arena) - PADDING:
        return FULL
    for i in range(n):
        words.arena[first + i] = data[start + i]
    words.starts[word + 1] = first + n
    words.state[N_WORDS] = word + 1
    words.slots[at] = (tag << np.uint64(32)) | np.uint64(word + 1)
    words.slots[at + 1] = head
    words.slots[at + 2] = tail
    return word


@nb.njit
def forget_since(words, n_words):
    """Take back the words added last, until ``n_words`` are left.

    With linear probing, taking out in the reverse order of adding restores the table exactly.
    """
    mask = np.int64(len(words.slots) // SLOT - 1)
    while words.state[N_WORDS] > n_words:
        word = words.state[N_WORDS] - 1
        start, end = words.starts[word], words.starts[word + 1]
        at = np.int64(hash_bytes(words.key[0], words.key[1], words.arena, start, end)) & mask
        at *= SLOT
        while words.slots[at] & np.uint64(0xFFFFFFFF) != np.uint64(word + 1):
            at = (at + SLOT) & (mask * SLOT)
        words.slots[at] = np.uint64(0)
        words.state[N_WORDS] = word


@compiled
def add_all(words, data, offsets):
    """Add the words ``data[offsets[k]:offsets[k + 1]]`` in their order; there is room for them."""
    words = lend_words(words)
    for k in range(len(offsets) - 1):
        find_or_add(words, data, offsets[k], offsets[k + 1], True)
