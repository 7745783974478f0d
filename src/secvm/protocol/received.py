"""The received root: one digest over the digests of all capsules of an epoch (docs/protocol.md §19.7).

It goes into the next manifests. A device that is handed a **receipt** can see that its own capsule is under the root,
and that is all it sees: its neighbours are digests of sealed bytes.

Digests are handed over sorted and side by side, as counting leaves them; ``side_by_side`` makes that of a few. The tree
has a leaf for a bucket of about thirty digests, not for each: ten million are hashed in about a second, and a receipt
is about a kilobyte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import LocalProtocolError, MalformedMessageError

DIGEST_BYTES = 32
#: Most digests in a bucket on average.
BUCKET_DIGESTS = 32
#: Most bits that name a bucket: enough for 2^37 capsules in an epoch.
MAX_BITS = 32
_LEAF, _NODE = b"\x00", b"\x01"

#: Digests side by side: bytes, or an array of uint8 of any shape that lies in one piece.
Digests = bytes | memoryview | NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Receipt:
    """That a capsule is among the received ones: its bucket, and the way from there to the root."""

    #: All digests of the bucket, ascending, side by side.
    bucket: bytes
    #: The neighbours' digests, from the leaf upwards; their number is the k of the tree.
    path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ReceivedTree:
    """All nodes over an epoch's digests, hashed once: the root is signed, the rest makes receipts."""

    #: From the leaves upwards, each level's nodes side by side; the last is the root alone.
    levels: tuple[bytes, ...]

    @property
    def root(self) -> bytes:
        """What manifests name."""
        return self.levels[-1]

    @property
    def bits(self) -> int:
        """k: there are 2^k buckets."""
        return len(self.levels) - 1


def side_by_side(digests: Iterable[bytes]) -> bytes:
    """Digests in any order, also repeated, as the functions here take them."""
    return b"".join(sorted(set(digests)))


def bucket_bits(count: int) -> int:
    """k: so many first bits of a digest name its bucket, when there are ``count`` digests."""
    return max(0, -(-count // BUCKET_DIGESTS) - 1).bit_length()


def received_root(digests: Digests) -> bytes:
    """The root over all of them; none at all have a root too."""
    return received_tree(digests).root


def received_tree(digests: Digests) -> ReceivedTree:
    """The root and all below it, in one pass."""
    level = _leaves(_view(digests))
    levels = [b"".join(level)]
    while len(level) > 1:
        level = _above(level)
        levels.append(b"".join(level))
    return ReceivedTree(tuple(levels))


def bucket_of(digest: bytes, bits: int) -> int:
    """The bucket that a digest belongs to, when the first ``bits`` bits name it."""
    if len(digest) != DIGEST_BYTES or not 0 <= bits <= MAX_BITS:
        raise LocalProtocolError("no digest, or no number of bits, that a bucket could have")
    return _bucket_index(digest, bits)


def receipt(digests: Digests, digest: bytes) -> Receipt:
    """The receipt of one that is among them. Raises ``KeyError`` for any other."""
    data = _view(digests)
    bits = bucket_bits(len(data) // DIGEST_BYTES)
    bounds = _bounds(data, bits)
    index = _bucket_index(digest, bits)
    bucket = bytes(data[bounds[index] : bounds[index + 1]])
    if digest not in _split(bucket):
        raise KeyError("no such capsule was received")
    path = []
    for level in received_tree(digests).levels[:-1]:
        path.append(level[DIGEST_BYTES * (index ^ 1) :][:DIGEST_BYTES])
        index >>= 1
    return Receipt(bucket, tuple(path))


def check_receipt(root: bytes, digest: bytes, bucket: bytes, path: Sequence[bytes]) -> None:
    """Whether the digest is under the root, and where it belongs.

    How many digests there are need not be known: leaves and nodes are hashed apart, so that no path of another length
    leads to the same root.

    Raises
    ------
    MalformedMessageError
        It is not, or the receipt is none.
    """
    if len(digest) != DIGEST_BYTES or len(path) > MAX_BITS:
        raise MalformedMessageError("the receipt is none")
    if digest not in check_bucket(root, _bucket_index(digest, len(path)), bucket, path):
        raise MalformedMessageError("the receipt's bucket does not hold the digest")


def check_bucket(root: bytes, index: int, bucket: bytes, path: Sequence[bytes]) -> list[bytes]:
    """The digests of this bucket, all of them, if it is the one of this index under the root.

    So whoever looks for a digest that belongs there and finds none knows that it is not under the root at all.

    Raises
    ------
    MalformedMessageError
        It is not.
    """
    if len(path) > MAX_BITS or any(len(node) != DIGEST_BYTES for node in path):
        raise MalformedMessageError("the receipt is none")
    if len(bucket) % DIGEST_BYTES:
        raise MalformedMessageError("the receipt's bucket holds half a digest")
    inside = _split(bucket)
    if any(first >= second for first, second in pairwise(inside)):
        raise MalformedMessageError("the receipt's bucket is not in order")
    if any(_bucket_index(other, len(path)) != index for other in inside):
        raise MalformedMessageError("the receipt's bucket holds digests that belong to another")
    node = hashlib.sha256(_LEAF + bucket).digest()
    for neighbour in path:
        left, right = (neighbour, node) if index & 1 else (node, neighbour)
        node, index = hashlib.sha256(_NODE + left + right).digest(), index >> 1
    if node != root or index:
        raise MalformedMessageError("the receipt does not lead to the root")
    return inside


def _view(digests: Digests) -> memoryview:
    data = digests.reshape(-1).data if isinstance(digests, np.ndarray) else memoryview(digests)
    if data.nbytes != len(data) or len(data) % DIGEST_BYTES:
        raise LocalProtocolError(f"digests are bytes, {DIGEST_BYTES} each")
    return data


def _split(bucket: bytes) -> list[bytes]:
    return [bucket[at : at + DIGEST_BYTES] for at in range(0, len(bucket), DIGEST_BYTES)]


def _bucket_index(digest: bytes, bits: int) -> int:
    return int.from_bytes(digest[: MAX_BITS // 8], "big") >> (MAX_BITS - bits)


def _bounds(data: memoryview, bits: int) -> list[int]:
    """Where in the bytes each bucket begins, and where the last one ends."""
    words = np.frombuffer(data, dtype=">u8").reshape(-1, DIGEST_BYTES // 8)
    first = words[:, 0].astype(np.uint64)
    _check_order(words, first)
    starts = np.arange(2**bits, dtype=np.uint64) << np.uint64(64 - bits) if bits else np.zeros(1, dtype=np.uint64)
    bounds: list[int] = (np.searchsorted(first, starts) * DIGEST_BYTES).tolist()
    return [*bounds, len(data)]


def _check_order(words: NDArray[Any], first: NDArray[np.uint64]) -> None:
    """Strictly ascending. Digests with the same first eight bytes are rare, and compared as a whole."""
    below = first[:-1] < first[1:]
    for i in np.flatnonzero(~below).tolist():
        if words[i].tobytes() >= words[i + 1].tobytes():
            raise LocalProtocolError("the digests are not sorted, or not distinct")


def _leaves(data: memoryview) -> list[bytes]:
    bounds = _bounds(data, bucket_bits(len(data) // DIGEST_BYTES))
    sha256 = hashlib.sha256
    return [sha256(_LEAF + data[a:b]).digest() for a, b in pairwise(bounds)]


def _above(level: list[bytes]) -> list[bytes]:
    sha256 = hashlib.sha256
    return [sha256(_NODE + left + right).digest() for left, right in zip(level[::2], level[1::2], strict=True)]
