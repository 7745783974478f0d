"""Dice of the lab: seeded, so that a figure can be had again. The system's own are for devices (``participant.dice``).

Where a defence *is* the system's randomness, the attack takes it from the system, and its figure moves a little.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

#: Words drawn in one go.
_BATCH = 4096


def generator(seed: int, attack: int, *, defended: bool) -> np.random.Generator:
    """Dice for one measurement: others for each attack, without and with its defence."""
    return np.random.default_rng((seed, attack, int(defended)))


def words(dice: np.random.Generator) -> Iterator[int]:
    """Uniform 64-bit words, as ``protocol.schedule`` takes them."""
    while True:
        yield from dice.integers(2**64, size=_BATCH, dtype=np.uint64).tolist()
