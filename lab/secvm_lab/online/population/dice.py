"""The dice of a made-up population: who comes, who is there, who goes. Not those that devices throw.

A word is SipHash-2-4 of (device, number, index) under a key that is BLAKE2b of seed and purpose: any word can be had
without the others, so that no result depends on the order of the work. Devices have dice of their own
(``learning.individual.dice``), under ``device_seed``.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from secvm.learning._kernels.vectorised import siphash24_words

_TAG = b"secvm-lab-online"
#: Bits of a word's number: which device, which round (or block of time, or day), which of its words.
_NUMBER_BITS, _INDEX_BITS = 20, 20
MOST_DEVICES = 2**24
#: Throws are compared with probabilities in so many bits.
BITS = 53
ONE = 1 << BITS

Numbers = NDArray[np.int64]


def device_seed(seed: int) -> bytes:
    """What the devices' own dice are seeded with. Text, as a host's settings take it."""
    return b"secvm online %d" % seed


def threshold(share: float) -> int:
    """A probability in units of 2^-53."""
    return round(share * ONE)


class LabDice:
    """One seed's dice for one purpose."""

    def __init__(self, seed: int, purpose: str) -> None:
        digest = hashlib.blake2b(f"{seed} {purpose}".encode(), digest_size=16, person=_TAG).digest()
        self._key = np.frombuffer(digest, "<u8").astype(np.uint64)

    def throw(self, devices: Numbers, number: Numbers | int = 0, index: Numbers | int = 0) -> Numbers:
        """A number below 2^53 for each device (and number, and index), uniform."""
        place = np.uint64(_NUMBER_BITS + _INDEX_BITS)
        counters = devices.astype(np.uint64) << place
        counters |= np.asarray(number, dtype=np.uint64) << np.uint64(_INDEX_BITS)
        counters |= np.asarray(index, dtype=np.uint64)
        words = siphash24_words(np.broadcast_to(self._key, (len(counters), 2)), counters)
        return (words >> np.uint64(64 - BITS)).astype(np.int64)

    def uniform(self, devices: Numbers, number: Numbers | int = 0) -> NDArray[np.float64]:
        """The same as shares of one."""
        return self.throw(devices, number) / ONE
