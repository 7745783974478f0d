"""Bytes changed at random, without a fuzzer: for tests that run anywhere, from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

#: What numbers and lengths are often wrong by.
_ODD = (b"\0", b"\xff", b"\x7f\xff", b"\xff\xff\xff\xff", b"\0\0\0\0\0\0\0\x80", b"-1", b"1e999", b'"', b"{", b"\r\n")


def _flip(data: bytearray, dice: random.Random) -> None:
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def _replace(data: bytearray, dice: random.Random) -> None:
    at, odd = dice.randrange(len(data)), dice.choice(_ODD)
    data[at : at + len(odd)] = odd


def _insert(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data) + 1)
    data[at:at] = dice.choice((*_ODD, dice.randbytes(dice.randint(1, 8))))


def _erase(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    del data[at : at + dice.randint(1, 16)]


def _repeat(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    data[at:at] = data[at : at + dice.randint(1, 32)] * dice.randint(1, 3)


def _cut(data: bytearray, dice: random.Random) -> None:
    del data[dice.randrange(len(data) + 1) :]


_WAYS: tuple[Callable[[bytearray, random.Random], None], ...] = (_flip, _replace, _insert, _erase, _repeat, _cut)


def mutated(kept: Sequence[bytes], dice: random.Random, *, most_bytes: int) -> bytes:
    """One of these, changed once or a few times; now and then joined with another."""
    data = bytearray(dice.choice(kept))
    if dice.random() < 0.1:
        data += dice.choice(kept)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        if data:
            dice.choice(_WAYS)(data, dice)
        else:
            _insert(data, dice)
    return bytes(data[:most_bytes])
