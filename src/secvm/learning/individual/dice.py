"""Dice: where a participant's randomness comes from, as a port.

Devices throw the operating system's dice. The demonstration, the simulator and the offline estimator throw seeded ones,
which are *unsafe* on a device: who knows the seed knows every throw. They are SipHash-2-4 in counter mode: word i of
(purpose, round, model) is the hash of ``round << 44 | model << 32 | i`` as eight little-endian bytes, under a key
that is BLAKE2b of seed, participant and purpose. Any word can be had without the others, in any language.

What is drawn once, when a person joins an experiment: whether it trains or tests (the paper: train with p = .7), and
which of its features the experiment gets to see.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels import reference, vectorised
from secvm.learning.individual.binning import utf8
from secvm.learning.package import Cohort

_TAG = b"secvm-v1-dice\0\0\0"
#: A 64-bit word is cut to this many bits, which every language holds exactly.
DRAW_BITS = 53
#: So few are thrown one by one: numpy takes ten times as long to begin as one of them takes.
_FEW_WORDS = 8


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
        key = dice_key(self._seed, self._participant, purpose)
        if count <= _FEW_WORDS:
            return [reference.dice_word(key, round_number, model, index) for index in range(count)]
        first = reference.dice_counter(round_number, model)
        counters = np.arange(first, first + count, dtype=np.uint64)
        keys = np.tile(np.frombuffer(key, dtype="<u8").astype(np.uint64), (count, 1))
        words: list[int] = vectorised.siphash24_words(keys, counters).tolist()
        return words


def dice_key(seed: bytes, participant: int, purpose: Purpose) -> bytes:
    """The SipHash key of one participant's throws for one purpose."""
    message = participant.to_bytes(8, "little") + len(seed).to_bytes(4, "little") + seed + purpose.value.encode()
    return hashlib.blake2b(message, digest_size=16, person=_TAG).digest()


def dice_keys(seed: bytes, participants: NDArray[np.int64], purpose: Purpose) -> NDArray[np.uint64]:
    """The keys of many participants, people x 2, as the kernels take them."""
    joined = b"".join(dice_key(seed, p, purpose) for p in participants.tolist())
    return np.frombuffer(joined, dtype="<u8").reshape(-1, 2).astype(np.uint64)


def draw_cohort(train_share: Fraction, dice: Dice) -> Cohort:
    """Train with probability ``train_share``, to 53 bits."""
    word = dice.words(Purpose.COHORT, 0, 0, 1)[0] >> (64 - DRAW_BITS)
    return Cohort.TRAIN if word * train_share.denominator < train_share.numerator << DRAW_BITS else Cohort.TEST


def hold_out(n: int, test_share: Fraction, seed: bytes, *, name: str = "the share held out") -> NDArray[np.bool_]:
    """True for train, offline: exactly the share of people, those whose seeded dice throw the smallest words, test.

    ``name`` is what the person who asked calls the share.
    """
    if not 0 < test_share < 1:
        raise BadInputError(f"{name} must lie between 0 and 1")
    n_test = round(test_share * n)
    if not 0 < n_test < n:
        raise BadInputError(f"{name} leaves nobody to train or nobody to test")
    keys = dice_keys(seed, np.arange(n, dtype=np.int64), Purpose.COHORT)
    order = np.argsort(vectorised.dice_words(keys, 0, 0, 0), kind="stable")
    train = np.ones(n, dtype=np.bool_)
    train[order[:n_test]] = False
    return train


T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class KeptOnDevice(Generic[T]):
    """A value that must not leave this device, not even by way of a log line."""

    value: T

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


def sample_features(features: Mapping[str, int], limit: int | None, dice: Dice) -> dict[str, int]:
    """At most ``limit`` of a person's features, drawn once per experiment without replacement.

    Features that are there (value not zero) stand in the order of their UTF-8 bytes, each draws a word, and the
    smallest words win. The draw does not depend on the round: a new sample each round would empty a history bit by bit.
    """
    there = {name: value for name, value in features.items() if value}
    if limit is None or len(there) <= limit:
        return there
    if limit < 1:
        raise BadInputError("the number of features per person must be at least 1")
    names = sorted(there, key=utf8)
    words = dice.words(Purpose.FEATURES, 0, 0, len(names))
    chosen = sorted(range(len(names)), key=lambda i: (words[i], i))[:limit]
    return {names[i]: there[names[i]] for i in sorted(chosen)}
