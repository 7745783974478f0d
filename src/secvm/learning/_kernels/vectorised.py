"""SipHash-2-4 in plain numpy: of many messages at once, and of one dice word per person and round."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from secvm.learning._kernels.reference import dice_counter

Words = NDArray[np.uint64]


def _rotate(x: Words, bits: int) -> None:
    high = x << np.uint64(bits)
    np.right_shift(x, np.uint64(64 - bits), out=x)
    np.bitwise_or(x, high, out=x)


def _rounds(v: list[Words], n: int) -> None:
    for _ in range(n):
        v[0] += v[1]
        _rotate(v[1], 13)
        v[1] ^= v[0]
        _rotate(v[0], 32)
        v[2] += v[3]
        _rotate(v[3], 16)
        v[3] ^= v[2]
        v[0] += v[3]
        _rotate(v[3], 21)
        v[3] ^= v[0]
        v[2] += v[1]
        _rotate(v[1], 17)
        v[1] ^= v[2]
        _rotate(v[2], 32)


def siphash24_blocks(k0: Words, k1: Words, blocks: Iterable[Words]) -> Words:
    """The hash of each message under its key, of which k0 and k1 are the halves.

    All messages take equally many blocks, the length byte included: ``blocks`` has the first of each, the second, ….
    """
    constants = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v = [k ^ np.uint64(constant) for k, constant in zip((k0, k1, k0, k1), constants, strict=True)]
    for block in blocks:
        v[3] ^= block
        _rounds(v, 2)
        v[0] ^= block
    v[2] ^= np.uint64(0xFF)
    _rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def siphash24_words(keys: NDArray[np.uint64], words: Words) -> Words:
    """The hash of each word's eight little-endian bytes under the key (two halves) of its row."""
    return siphash24_blocks(keys[:, 0], keys[:, 1], (words, np.full_like(words, 8 << 56)))


def dice_words(keys: NDArray[np.uint64], round_number: int, model: int, index: int) -> Words:
    """Word ``index`` of (round, model) of many people: ``reference.dice_word`` side by side."""
    counter = dice_counter(round_number, model) + index
    return siphash24_words(keys, np.full(len(keys), counter, dtype=np.uint64))
