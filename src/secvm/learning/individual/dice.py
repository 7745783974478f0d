"""Dice: where a participant's randomness comes from, as a port.

Devices throw the operating system's dice. The demonstration, the simulator and the offline estimator throw seeded ones,
which are *unsafe* on a device: who knows the seed knows every throw. They are SipHash-2-4 in counter mode: word i of
(purpose, round, model) is the hash of ``round << 44 | model << 32 | i`` as eight little-endian bytes, under a key
that is BLAKE2b of seed, participant and purpose. Any word can be had without the others, in any language.
"""

from __future__ import annotations

import enum
import hashlib
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from secvm.learning._kernels import reference, vectorised

_TAG = b"secvm-v1-dice\0\0\0"
#: A 64-bit word is cut to this many bits, which every language holds exactly.
DRAW_BITS = 53


class Purpose(enum.Enum):
    """What a throw decides; throws for different purposes never share a word."""

    COHORT = "cohort"
    FEATURES = "features"
    COIN = "coin"
    THINNING = "thinning"
    BUDGET = "budget"


class Dice(Protocol):
    """One participant's dice."""

    def words(self, purpose: Purpose, round_number: int, model: int, count: int) -> list[int]:
        """``count`` uniform 64-bit words. Seeded dice give the same words for the same arguments."""
        ...


class UnsafeSeededDice:
    """Dice that anyone who knows the seed can throw again: for tests, simulation and the offline estimator."""

    def __init__(self, seed: bytes, participant: int) -> None:
        self._seed = seed
        self._participant = participant

    def words(self, purpose: Purpose, round_number: int, model: int, count: int) -> list[int]:
        key = np.frombuffer(dice_key(self._seed, self._participant, purpose), dtype="<u8").astype(np.uint64)
        first = reference.dice_counter(round_number, model)
        counters = np.arange(first, first + count, dtype=np.uint64)
        words: list[int] = vectorised.siphash24_words(np.tile(key, (count, 1)), counters).tolist()
        return words


def dice_key(seed: bytes, participant: int, purpose: Purpose) -> bytes:
    """The SipHash key of one participant's throws for one purpose."""
    message = participant.to_bytes(8, "little") + len(seed).to_bytes(4, "little") + seed + purpose.value.encode()
    return hashlib.blake2b(message, digest_size=16, person=_TAG).digest()


def dice_keys(seed: bytes, participants: NDArray[np.int64], purpose: Purpose) -> NDArray[np.uint64]:
    """The keys of many participants, people x 2, as the kernels take them."""
    joined = b"".join(dice_key(seed, p, purpose) for p in participants.tolist())
    return np.frombuffer(joined, dtype="<u8").reshape(-1, 2).astype(np.uint64)
