"""Receipts as they are served, and what asking for one tells (docs/protocol.md §19.7).

    receipt = k, 1 byte ‖ k neighbours, 32 bytes each, from the leaf upwards ‖ the bucket's digests, ascending

There is one encoding of a receipt, and ``decode_receipt`` takes no other. Whether it leads to the root, and whether a
capsule is in it, is ``received.check_receipt``'s question.

**What a request tells.** A device asks for a bucket, not for its capsule. Whoever answers learns k bits of a digest,
that is: somebody asks who may have sent one of about thirty capsules. It knows these capsules' packages. Alone this
says little, since every capsule has a sender. Two requests that are seen to come from one device say that two packages,
each one of about thirty, may have one sender. So each request goes alone, sealed, through a relay, at a moment of its
own; and a device asks for few. The relay sees that somebody fetches, not what.

**k is the coordinator's word.** ``{"bits":k}`` is not signed, and a greater k makes smaller buckets: with k = 32 the
request would name the capsule. A wrong k leads to no receipt under the root, but that is seen only after asking; and
the tree itself may be made too deep. So ``check_bits`` comes before the first request: k is at most what the relay's
count of capsules gives. Without a count that covers all capsules nobody but the coordinator knows how many there were;
then ``UNCOUNTED_BITS`` are the most that a device should tell.
"""

from __future__ import annotations

import json
from itertools import pairwise

from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.received import DIGEST_BYTES, MAX_BITS, Receipt, bucket_bits

#: Far more than chance puts into a bucket: whoever grinds digests to fill one up needs 32,000 capsules.
MAX_RECEIPT_BYTES = 2**20
#: Told without anybody's count: as many buckets as 2,048 capsules have.
UNCOUNTED_BITS = 6
_MAX_BITS_BYTES = 64


def encode_receipt(receipt: Receipt) -> bytes:
    """The receipt as it is served. Raises ``LocalProtocolError`` for what a reader would refuse."""
    data = bytes([min(len(receipt.path), 255)]) + b"".join(receipt.path) + receipt.bucket
    try:
        same = decode_receipt(data) == receipt
    except MalformedMessageError as fault:
        raise LocalProtocolError(f"this receipt cannot be served: {fault}") from None
    if not same:
        raise LocalProtocolError("this receipt cannot be served: its nodes are no digests")
    return data


def decode_receipt(data: bytes) -> Receipt:
    """The receipt of these bytes. Raises ``MalformedMessageError``."""
    if not 1 <= len(data) <= MAX_RECEIPT_BYTES:
        raise MalformedMessageError("a receipt is empty or too long")
    bits = data[0]
    start = 1 + DIGEST_BYTES * bits
    if bits > MAX_BITS or len(data) < start or (len(data) - start) % DIGEST_BYTES:
        raise MalformedMessageError("a receipt is not made of whole digests")
    digests = [data[at : at + DIGEST_BYTES] for at in range(start, len(data), DIGEST_BYTES)]
    if any(first >= second for first, second in pairwise(digests)):
        raise MalformedMessageError("a receipt's bucket is not in order")
    shift = 8 * DIGEST_BYTES - bits
    if len({int.from_bytes(digest, "big") >> shift for digest in digests}) > 1:
        raise MalformedMessageError("a receipt's bucket holds digests of several")
    path = tuple(data[at : at + DIGEST_BYTES] for at in range(1, start, DIGEST_BYTES))
    return Receipt(bucket=data[start:], path=path)


def encode_bits(bits: int) -> bytes:
    """How many bits name a bucket, as it is served."""
    return b'{"bits":%d}' % bits


def decode_bits(data: bytes) -> int:
    """How many bits name a bucket. Raises ``MalformedMessageError``."""
    try:
        content = json.loads(data) if len(data) <= _MAX_BITS_BYTES else None
        bits = content["bits"] if isinstance(content, dict) else None
    except (ValueError, KeyError, RecursionError):
        bits = None
    if type(bits) is not int or not 0 <= bits <= MAX_BITS or encode_bits(bits) != data:
        raise MalformedMessageError("this is not the number of bits of a bucket")
    return bits


def check_bits(bits: int, *, capsules: int | None) -> None:
    """Refuse buckets so small that asking for one would tell too much.

    ``capsules``: the relay's count of the epoch, where it is the experiment's only relay; else None.

    Raises
    ------
    MalformedMessageError
        More bits than that many capsules need. Nothing should be asked.
    """
    if bits > (UNCOUNTED_BITS if capsules is None else bucket_bits(capsules)):
        raise MalformedMessageError("the buckets are smaller than the number of capsules allows")


__all__ = [
    "MAX_RECEIPT_BYTES",
    "UNCOUNTED_BITS",
    "check_bits",
    "decode_bits",
    "decode_receipt",
    "encode_bits",
    "encode_receipt",
]
