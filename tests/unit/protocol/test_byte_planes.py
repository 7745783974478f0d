"""Whole numbers in byte planes: every list comes back, and nothing but a list of the right length is read."""

import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.documents.blobs import pack, unpack

MOST = 2**55
NUMBERS = st.one_of(st.integers(-300, 300), st.integers(-MOST, MOST - 1))


@given(st.lists(NUMBERS, min_size=1, max_size=50))
def test_numbers_come_back(numbers: list[int]) -> None:
    data = pack(np.array(numbers, dtype=np.int64))
    assert unpack(data, len(numbers)).tolist() == numbers


@pytest.mark.parametrize("number", [MOST, -MOST - 1, 2**63 - 1, -(2**63)])
def test_numbers_beyond_seven_bytes_are_not_written(number: int) -> None:
    with pytest.raises(LocalProtocolError):
        pack(np.array([0, number], dtype=np.int64))


def test_a_bomb_is_left_where_it_is_known_to_be_too_long() -> None:
    bomb = zlib.compress(bytes(2**26), 9)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessageError):
            unpack(bomb, 1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**18
