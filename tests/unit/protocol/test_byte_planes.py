"""Whole numbers in byte planes: every list comes back, and nothing but a list of the right length is read."""

import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.documents.blobs import MAX_PLANES, pack, unpack

MOST = 2**55
NUMBERS = st.one_of(st.integers(-300, 300), st.integers(-MOST, MOST - 1))


@given(st.lists(NUMBERS, min_size=1, max_size=50))
def test_numbers_come_back(numbers: list[int]) -> None:
    data = pack(np.array(numbers, dtype=np.int64))
    assert unpack(data, len(numbers)).tolist() == numbers


@pytest.mark.parametrize(
    ("numbers", "planes"),
    [
        ([0], b"\0"),
        ([0, -1, 1, -2, 2], bytes([0, 1, 2, 3, 4])),
        ([127, -128, 128], bytes([254, 255, 0, 0, 0, 1])),
        ([MOST - 1, -MOST], bytes([254, 255] + 6 * [255, 255])),
    ],
)
def test_planes_are_as_the_protocol_says(numbers: list[int], planes: bytes) -> None:
    assert zlib.decompress(pack(np.array(numbers, dtype=np.int64))) == planes
    assert unpack(zlib.compress(planes), len(numbers)).tolist() == numbers


@pytest.mark.parametrize("number", [MOST, -MOST - 1, 2**63 - 1, -(2**63)])
def test_numbers_beyond_seven_bytes_are_not_written(number: int) -> None:
    with pytest.raises(LocalProtocolError):
        pack(np.array([0, number], dtype=np.int64))


def with_dictionary(data: bytes) -> bytes:
    deflater = zlib.compressobj(zdict=b"abc")
    return deflater.compress(data) + deflater.flush()


GOOD = zlib.compress(bytes([7, 0, 1, 0, 1, 0]))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no stream",
        GOOD[:-1],
        GOOD + b"\0",
        GOOD + GOOD,
        GOOD[:-1] + bytes([GOOD[-1] ^ 1]),
        GOOD[2:-4],
        with_dictionary(bytes(6)),
        zlib.compress(b""),
        zlib.compress(bytes(2)),
        zlib.compress(bytes([7, 0, 1, 0, 1])),
        zlib.compress(bytes([7, 0, 1, 0, 0, 0])),
        zlib.compress(bytes(3 * MAX_PLANES) + b"\1\1\1"),
    ],
)
def test_what_is_not_three_numbers_is_refused(data: bytes) -> None:
    assert unpack(GOOD, 3).tolist() == [-4, 128, -1]
    with pytest.raises(MalformedMessageError, match="3 packed numbers"):
        unpack(data, 3)


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
