"""Dice that can be thrown again: for tests alone."""

import hashlib
from collections.abc import Callable


def unsafe_written(*throws: str | bytes) -> Callable[[int], bytes]:
    """Dice that give what is written, in order, and complain when asked for more."""
    left = [bytes.fromhex(throw) if isinstance(throw, str) else throw for throw in throws]
    return lambda count: left.pop(0)


def unsafe_seeded(seed: str = "") -> Callable[[int], bytes]:
    """Dice that give the same bytes in every run."""
    state = [0]

    def throw(count: int) -> bytes:
        state[0] += 1
        return hashlib.shake_256(f"{seed}/{state[0]}".encode()).digest(count)

    return throw
