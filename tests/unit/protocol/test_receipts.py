"""Receipts as bytes, and how much a request may tell."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.receipts import (
    MAX_RECEIPT_BYTES,
    UNCOUNTED_BITS,
    check_bits,
    decode_bits,
    decode_receipt,
    encode_bits,
    encode_receipt,
)
from secvm.protocol.received import MAX_BITS, Receipt, bucket_bits, bucket_of, receipt, side_by_side


def served(count: int, which: int = 0) -> tuple[Receipt, bytes]:
    digests = [hashlib.sha256(b"%d" % i).digest() for i in range(count)]
    made = receipt(side_by_side(digests), digests[which])
    return made, encode_receipt(made)


@given(st.integers(1, 300), st.data())
def test_a_receipt_comes_back_and_every_change_of_length_is_refused(count: int, data: st.DataObject) -> None:
    made, encoded = served(count, data.draw(st.integers(0, count - 1)))
    assert decode_receipt(encoded) == made
    cut = data.draw(st.integers(0, len(encoded) - 1))
    if (len(encoded) - cut) % 32 or cut < 1 + 32 * len(made.path):
        with pytest.raises(MalformedMessageError):
            decode_receipt(encoded[:cut])
    with pytest.raises(MalformedMessageError):
        decode_receipt(encoded + b"\0")


@given(st.binary(max_size=300))
def test_any_bytes_are_one_receipt_or_refused(data: bytes) -> None:
    try:
        found = decode_receipt(data)
    except MalformedMessageError:
        return
    assert encode_receipt(found) == data


def test_a_receipt_has_a_longest_length() -> None:
    digests = b"".join(i.to_bytes(32, "big") for i in range(MAX_RECEIPT_BYTES // 32))
    assert len(decode_receipt(b"\0" + digests[:-32]).bucket) == len(digests) - 32
    with pytest.raises(MalformedMessageError):
        decode_receipt(b"\0" + digests)


@pytest.mark.parametrize(
    "wrong",
    [
        Receipt(b"x" * 31, ()),
        Receipt(b"", (b"short",)),
        Receipt(b"", (bytes(31), bytes(33))),
        Receipt(b"", (bytes(32),) * 33),
        Receipt(b"", (bytes(32),) * 300),
        Receipt(b"b" * 32 + b"a" * 32, ()),
        Receipt(bytes(32) + b"\xff" * 32, (bytes(32),)),
    ],
    ids=["half", "a short node", "two wrong nodes", "33 nodes", "300 nodes", "not in order", "two buckets"],
)
def test_what_no_reader_takes_is_not_written(wrong: Receipt) -> None:
    with pytest.raises(LocalProtocolError):
        encode_receipt(wrong)


@given(st.binary(min_size=32, max_size=32), st.integers(0, MAX_BITS))
def test_a_bucket_is_named_by_the_first_bits(digest: bytes, bits: int) -> None:
    assert f"{bucket_of(digest, bits):0{bits}b}"[-bits:] == f"{int.from_bytes(digest, 'big'):0256b}"[:bits] or not bits
    assert bucket_of(digest, 0) == 0


@pytest.mark.parametrize(("digest", "bits"), [(bytes(31), 1), (bytes(32), -1), (bytes(32), 33)])
def test_what_is_no_digest_has_no_bucket(digest: bytes, bits: int) -> None:
    with pytest.raises(LocalProtocolError):
        bucket_of(digest, bits)


@given(st.integers(0, MAX_BITS))
def test_bits_come_back(bits: int) -> None:
    assert decode_bits(encode_bits(bits)) == bits


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "7", '{"bits":33}', '{"bits":-1}', '{"bits": 3}', '{"bits":3.0}', '{"bits":true}'),
        *('{"bits":"3"}', '{"bits":3,"x":1}', '{"bits":03}', '{"bits":3}\n', '{"bits":3,"bits":3}'),
        *("[" * 60, "[" * 100_000, "\xff"),
    ],
)
def test_anything_else_is_no_number_of_bits(text: str) -> None:
    with pytest.raises(MalformedMessageError):
        decode_bits(text.encode("latin-1"))


@given(st.integers(0, 10**8), st.integers(0, 10**8))
def test_an_honest_number_of_bits_is_asked_for_and_a_greater_one_is_not(received: int, lost: int) -> None:
    check_bits(bucket_bits(received), capsules=received + lost)
    with pytest.raises(MalformedMessageError):
        check_bits(bucket_bits(received) + 1, capsules=received)


def test_without_a_count_little_is_told() -> None:
    check_bits(UNCOUNTED_BITS, capsules=None)
    with pytest.raises(MalformedMessageError):
        check_bits(UNCOUNTED_BITS + 1, capsules=None)
