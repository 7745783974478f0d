"""The received root and its receipts."""

import hashlib

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.received import (
    BUCKET_DIGESTS,
    MAX_BITS,
    bucket_bits,
    check_receipt,
    receipt,
    received_root,
    side_by_side,
)


def digests(count: int) -> list[bytes]:
    return [hashlib.sha256(b"%d" % i).digest() for i in range(count)]


COUNTS = st.integers(1, 300)


@given(st.integers(0, 2**37))
def test_buckets_are_as_few_as_can_be(count: int) -> None:
    bits = bucket_bits(count)
    assert count <= BUCKET_DIGESTS * 2**bits
    assert bits == 0 or count > BUCKET_DIGESTS * 2 ** (bits - 1)
    assert bits <= MAX_BITS


def test_root_of_nothing_is_that_of_one_empty_leaf() -> None:
    assert received_root(b"") == hashlib.sha256(b"\x00").digest()
    assert received_root(np.zeros((0, 32), dtype=np.uint8)) == received_root(b"")


def test_root_of_a_few_is_one_leaf() -> None:
    packed = side_by_side(digests(32))
    assert received_root(packed) == hashlib.sha256(b"\x00" + packed).digest()


def test_order_and_repetition_do_not_matter_to_side_by_side() -> None:
    few = digests(40)
    assert side_by_side([*reversed(few), *few]) == side_by_side(few) == b"".join(sorted(few))


@given(COUNTS)
def test_bytes_views_and_arrays_have_one_root(count: int) -> None:
    packed = side_by_side(digests(count))
    array = np.frombuffer(packed, dtype=np.uint8).reshape(-1, 32)
    assert received_root(packed) == received_root(memoryview(packed)) == received_root(array)


@given(COUNTS)
def test_every_digest_has_a_receipt(count: int) -> None:
    packed = side_by_side(digests(count))
    root = received_root(packed)
    for digest in digests(count)[:: max(1, count // 10)]:
        given_out = receipt(packed, digest)
        assert len(given_out.path) == bucket_bits(count)
        check_receipt(root, digest, given_out.bucket, given_out.path)


@given(COUNTS, st.data())
def test_receipt_with_one_bit_flipped_is_refused(count: int, data: st.DataObject) -> None:
    packed = side_by_side(digests(count))
    digest = digests(count)[data.draw(st.integers(0, count - 1))]
    good = receipt(packed, digest)
    parts = [received_root(packed), digest, good.bucket, *good.path]
    which = data.draw(st.integers(0, len(parts) - 1))
    bit = data.draw(st.integers(0, 8 * len(parts[which]) - 1))
    changed = bytearray(parts[which])
    changed[bit // 8] ^= 1 << (bit % 8)
    parts[which] = bytes(changed)
    with pytest.raises(MalformedMessageError):
        check_receipt(parts[0], parts[1], parts[2], parts[3:])


@given(COUNTS, st.binary(min_size=32, max_size=32))
def test_what_was_not_received_has_no_receipt(count: int, digest: bytes) -> None:
    packed = side_by_side(digests(count))
    assume(digest not in digests(count))
    with pytest.raises(KeyError):
        receipt(packed, digest)


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=100), st.lists(st.binary(max_size=33)))
def test_nothing_but_the_one_error_comes_out(root: bytes, digest: bytes, bucket: bytes, path: list[bytes]) -> None:
    with pytest.raises(MalformedMessageError):
        check_receipt(root, digest, bucket, path)


def test_node_is_not_taken_for_a_bucket() -> None:
    """The two nodes below a root look like two digests; a leaf is hashed another way."""
    for count in range(33, 64):
        packed = side_by_side(digests(count))
        first = packed[:32]
        good = receipt(packed, first)
        below = [hashlib.sha256(b"\x00" + good.bucket).digest(), good.path[0]]
        root = received_root(packed)
        assert root == hashlib.sha256(b"\x01" + b"".join(below)).digest()
        if below[0] < below[1]:
            with pytest.raises(MalformedMessageError):
                check_receipt(root, below[0], b"".join(below), [])
            return
    pytest.fail("no root whose nodes are in order")


def test_crowded_buckets_have_receipts_too() -> None:
    """A sender may grind digests of one beginning: its bucket grows, the others are empty, and all is as before."""
    crowd = side_by_side(bytes(4) + digest[4:] for digest in digests(200))
    good = receipt(crowd, crowd[:32])
    assert good.bucket == crowd
    assert len(good.path) == 3
    check_receipt(received_root(crowd), crowd[-32:], good.bucket, good.path)


def test_digests_with_eight_equal_bytes_may_stand_side_by_side() -> None:
    packed = side_by_side(bytes(8) + digest[8:] for digest in digests(5))
    assert received_root(packed) == hashlib.sha256(b"\x00" + packed).digest()


@pytest.mark.parametrize(
    "wrong",
    [b"x" * 31, b"b" * 32 + b"a" * 32, b"a" * 32 + b"a" * 32, bytes(8) + b"b" * 24 + bytes(8) + b"a" * 24],
    ids=["half a digest", "not sorted", "twice", "not sorted after eight bytes"],
)
def test_digests_not_in_order_have_no_root(wrong: bytes) -> None:
    with pytest.raises(LocalProtocolError):
        received_root(wrong)


def test_root_is_of_bytes() -> None:
    with pytest.raises(LocalProtocolError):
        received_root(np.zeros((2, 32), dtype=np.uint16))
