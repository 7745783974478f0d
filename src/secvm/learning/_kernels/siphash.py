"""SipHash-2-4 for numba: the one hash of this project, quick.

``reference.siphash24`` is the specification; this file holds the scalar that other compiled kernels inline.
All arithmetic is on uint64 and wraps. LLVM inlines: numba's own inlining gives the same code and compiles three times
as long.
"""

from __future__ import annotations

import numba as nb
import numpy as np

_C0 = np.uint64(0x736F6D6570736575)
_C1 = np.uint64(0x646F72616E646F6D)
_C2 = np.uint64(0x6C7967656E657261)
_C3 = np.uint64(0x7465646279746573)
_FF = np.uint64(0xFF)
_ONE = np.uint64(1)
_THREE = np.uint64(3)
_SEVEN = np.uint64(7)
_EIGHT = np.uint64(8)
_TOP_BYTE = np.uint64(56)


@nb.njit(forceinline=True)
def _rotl(x, b):
    return (x << np.uint64(b)) | (x >> np.uint64(64 - b))


@nb.njit(forceinline=True)
def _round(v0, v1, v2, v3):
    v0 += v1
    v1 = _rotl(v1, 13)
    v1 ^= v0
    v0 = _rotl(v0, 32)
    v2 += v3
    v3 = _rotl(v3, 16)
    v3 ^= v2
    v0 += v3
    v3 = _rotl(v3, 21)
    v3 ^= v0
    v2 += v1
    v1 = _rotl(v1, 17)
    v1 ^= v2
    v2 = _rotl(v2, 32)
    return v0, v1, v2, v3


@nb.njit(forceinline=True)
def _absorb(v0, v1, v2, v3, m):
    v3 ^= m
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= m
    return v0, v1, v2, v3


@nb.njit(forceinline=True)
def _finalise(v0, v1, v2, v3):
    v2 ^= _FF
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@nb.njit(forceinline=True)
def _finish(v0, v1, v2, v3, last):
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, last)
    return _finalise(v0, v1, v2, v3)


@nb.njit(forceinline=True)
def word_at(data, i):
    """The eight bytes from ``data[i]`` on, little-endian, for an unsigned i: LLVM makes one load of it."""
    m = np.uint64(data[i])
    for b in range(1, 8):
        m |= np.uint64(data[i + np.uint64(b)]) << np.uint64(8 * b)
    return m


@nb.njit(forceinline=True)
def last_block(word, length):
    """The block that ends a message: its last ``length`` modulo 8 bytes, which begin ``word``, and its length."""
    return (word & ((_ONE << ((length & _SEVEN) << _THREE)) - _ONE)) | (length << _TOP_BYTE)


@nb.njit(forceinline=True)
def siphash24_bytes(k0, k1, data, start, end):
    """SipHash-2-4 of ``data[start:end]`` (uint8) under the key (k0, k1)."""
    v0 = k0 ^ _C0
    v1 = k1 ^ _C1
    v2 = k0 ^ _C2
    v3 = k1 ^ _C3
    # Unsigned positions: a signed one might count from the end, and numba would ask before each byte.
    i = np.uint64(start)
    length = np.uint64(end) - i
    whole = i + (length & ~_SEVEN)
    while i < whole:
        v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, word_at(data, i))
        i += _EIGHT
    word = np.uint64(0)
    if i + _EIGHT <= np.uint64(len(data)):
        # Eight bytes may be read: at once, where a loop of unknown length would cost more.
        word = word_at(data, i)
    else:
        shift = np.uint64(0)
        while i < np.uint64(end):
            word |= np.uint64(data[i]) << shift
            shift += _EIGHT
            i += _ONE
    return _finish(v0, v1, v2, v3, last_block(word, length))


@nb.njit(forceinline=True)
def siphash24_short(k0, k1, first, second, has_second):
    """SipHash-2-4 of a message of one block or two, without a branch, so that a loop of it becomes vectors."""
    v0, v1, v2, v3 = _absorb(k0 ^ _C0, k1 ^ _C1, k0 ^ _C2, k1 ^ _C3, first)
    w0, w1, w2, w3 = _absorb(v0, v1, v2, v3, second)
    v0 = w0 if has_second else v0
    v1 = w1 if has_second else v1
    v2 = w2 if has_second else v2
    v3 = w3 if has_second else v3
    return _finalise(v0, v1, v2, v3)


@nb.njit(forceinline=True)
def siphash24_word(k0, k1, word):
    """SipHash-2-4 of the eight little-endian bytes of ``word``: the dice's counter mode."""
    v0, v1, v2, v3 = _absorb(k0 ^ _C0, k1 ^ _C1, k0 ^ _C2, k1 ^ _C3, word)
    return _finish(v0, v1, v2, v3, _EIGHT << _TOP_BYTE)
