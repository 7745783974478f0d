"""Shuffling: every order, each exactly as likely."""

from __future__ import annotations

import itertools
import struct
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from secvm.crypto.kem import RandomBytes
from secvm.relay.mixing import shuffle


def dice_of(words: list[int]) -> RandomBytes:
    left = iter(words)
    return lambda count: b"".join(struct.pack("<Q", next(left, 0)) for _ in range(count // 8))


def test_each_order_of_four_comes_from_as_many_words() -> None:
    # 12 is a multiple of 4, 3 and 2: small words run through all remainders equally often.
    draws = itertools.product(range(12), repeat=3)
    orders = Counter(tuple(shuffle("abcd", dice_of(list(words)))) for words in draws)
    assert len(orders) == 24
    assert set(orders.values()) == {12**3 // 24}


def test_words_of_the_incomplete_run_are_thrown_away() -> None:
    # 2^64 - 1 is divisible by 3: the last word alone is beyond the last whole run.
    assert shuffle("abc", dice_of([2**64 - 1, 0, 0])) == shuffle("abc", dice_of([0, 0]))


@given(st.lists(st.integers(), max_size=50), st.randoms(use_true_random=False))
def test_a_shuffle_loses_nothing_and_adds_nothing(items: list[int], random: object) -> None:
    dice: RandomBytes = random.randbytes  # type: ignore[attr-defined]  # Hypothesis gives a random.Random
    before = list(items)
    assert sorted(shuffle(items, dice)) == sorted(items)
    assert items == before
