"""Shuffling: every order equally likely, exactly (Fisher and Yates), with dice that are given as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TypeVar

from secvm.crypto.kem import RandomBytes

T = TypeVar("T")
_WORD = 2**64
#: So many words are asked for at a time; most shuffles need one call of the system.
_MOST_WORDS = 4096


def _words(dice: RandomBytes, expected: int) -> Iterator[int]:
    while True:
        count = max(1, min(expected, _MOST_WORDS))
        yield from struct.unpack(f"<{count}Q", dice(8 * count))
        expected -= count


def shuffle(items: Sequence[T], dice: RandomBytes) -> list[T]:
    """The same items in random order."""
    mixed = list(items)
    words = _words(dice, len(mixed) - 1)
    for last in range(len(mixed) - 1, 0, -1):
        n = last + 1
        # Words from the last, incomplete run of n would make small numbers more likely.
        word = next(words)
        while word >= _WORD - _WORD % n:
            word = next(words)
        chosen = word % n
        mixed[last], mixed[chosen] = mixed[chosen], mixed[last]
    return mixed
