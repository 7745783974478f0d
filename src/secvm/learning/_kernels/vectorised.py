"""SipHash-2-4 of many eight-byte words under as many keys, in plain numpy: one dice word per person and round."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from secvm.learning._kernels.reference import dice_counter

Words = NDArray[np.uint64]


def _rotl(x: Words, b: int) -> Words:
    return (x << np.uint64(b)) | (x >> np.uint64(64 - b))


def _sip_round(v0: Words, v1: Words, v2: Words, v3: Words) -> tuple[Words, Words, Words, Words]:
    v0 = v0 + v1
    v1 = _rotl(v1, 13) ^ v0
    v0 = _rotl(v0, 32)
    v2 = v2 + v3
    v3 = _rotl(v3, 16) ^ v2
    v0 = v0 + v3
    v3 = _rotl(v3, 21) ^ v0
    v2 = v2 + v1
    v1 = _rotl(v1, 17) ^ v2
    v2 = _rotl(v2, 32)
    return v0, v1, v2, v3


def siphash24_words(keys: NDArray[np.uint64], words: Words) -> Words:
    """The hash of each word's eight little-endian bytes under the key (two halves) of its row."""
    k0, k1 = keys[:, 0], keys[:, 1]
    v0 = k0 ^ np.uint64(0x736F6D6570736575)
    v1 = k1 ^ np.uint64(0x646F72616E646F6D)
    v2 = k0 ^ np.uint64(0x6C7967656E657261)
    v3 = k1 ^ np.uint64(0x7465646279746573)
    for block in (words, np.full_like(words, 8 << 56)):
        v3 = v3 ^ block
        v0, v1, v2, v3 = _sip_round(*_sip_round(v0, v1, v2, v3))
        v0 = v0 ^ block
    v2 = v2 ^ np.uint64(0xFF)
    for _ in range(4):
        v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


def dice_words(keys: NDArray[np.uint64], round_number: int, model: int, index: int) -> Words:
    """Word ``index`` of (round, model) of many people: ``reference.dice_word`` side by side."""
    counter = dice_counter(round_number, model) + index
    return siphash24_words(keys, np.full(len(keys), counter, dtype=np.uint64))
