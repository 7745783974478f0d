"""Batches: the capsules that one relay hands to the next, by label, in pieces, under one root (§25, §30).

A **label** is SHA-256 of a manifest's payload. It is the route at the entry relay, the name of the batch at the mixing
relay and part of both seals, so that nobody can move a capsule from one round to another.

**Pieces.** Capsules of a batch have one size and lie side by side, in the order of their digests. All pieces but the
last are full, so the length of each follows from the number of capsules. A batch is checked as a whole, when all its
pieces are there. Until then a stranger's piece would keep the right one out; so each piece travels with a
``PieceTicket``, which the relay that hands it on has signed, and is taken from nobody else.

**The tree** over a round's capsules is that of RFC 6962 whose entries are the capsules' 32-byte digests, strictly
ascending. Because they ascend, two neighbours with a digest between them show that this digest is not there. An aligned
run of 4,096 leaves is a complete subtree of its own (the last one may be shorter). So a root over millions is computed
run by run in constant memory, and the upper part of a proof of any capsule is the proof of its run.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import operator
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, ClassVar

from secvm.crypto import merkle
from secvm.crypto.sealing.layers import LABEL_BYTES
from secvm.crypto.signing import VerifyKey
from secvm.errors import BadProofError, LocalProtocolError, MalformedMessageError
from secvm.protocol.canonical import DIGEST_BYTES, digest_of
from secvm.protocol.records import FieldKind, Hash, HashPath, Record, whole
from secvm.protocol.relays.statements import Statement
from secvm.protocol.version import PIECE_TYPE


def label_of(payload: bytes) -> bytes:
    """The label of the round whose manifest has this payload."""
    return hashlib.sha256(payload).digest()


def label_from_text(text: str) -> bytes:
    """The label that a path or a file's name spells, in lower-case hexadecimal; anything else is refused."""
    if len(text) != 2 * LABEL_BYTES or text.strip("0123456789abcdef"):
        raise MalformedMessageError(f"a label is {2 * LABEL_BYTES} hexadecimal digits in lower case")
    return bytes.fromhex(text)


def capsule_digest(capsule: bytes) -> bytes:
    """The digest under which a capsule is sorted, counted once, and found again."""
    return hashlib.sha256(capsule).digest()


MEDIA_TYPE = "application/vnd.secvm.capsules-fixed"
#: Of one piece: at most 8 MiB.
PIECE_CAPSULES = 2**16


def piece_count(capsules: int) -> int:
    """In so many pieces a batch of so many capsules travels; the empty batch in none."""
    return -(-capsules // PIECE_CAPSULES)


def capsules_in_piece(index: int, capsules: int) -> int:
    """How many capsules of a batch are in one of its pieces; 0 where it has no such piece."""
    return max(0, min(PIECE_CAPSULES, capsules - index * PIECE_CAPSULES)) if index >= 0 else 0


def cut(piece: bytes, size: int) -> list[bytes]:
    """The capsules of a piece, each of ``size`` bytes; what is left over at the end is none."""
    return [piece[at : at + size] for at in range(0, len(piece) - size + 1, size)]


def split_piece(data: bytes, size: int) -> list[bytes]:
    """The capsules of a piece that somebody sent. Raises ``MalformedMessageError`` and nothing else."""
    if not data or len(data) % size or len(data) > size * PIECE_CAPSULES:
        raise MalformedMessageError(
            f"a piece of {len(data)} bytes is not between 1 and {PIECE_CAPSULES} capsules of {size} bytes"
        )
    return cut(data, size)


#: The header field that carries it, in base64.
FIELD = "secvm-piece"
#: Pieces of a batch, at most: n₂ is below 2^33, and a piece has 2^16.
MAX_PIECES = 2**17


@dataclass(frozen=True, kw_only=True)
class PieceTicket(Statement):
    """One piece of one batch."""

    purpose: ClassVar[str] = PIECE_TYPE
    title: ClassVar[str] = "the ticket of a piece"
    longest: ClassVar[int] = 512

    label: Hash
    #: I.
    piece: Annotated[int, whole(0, MAX_PIECES - 1)]
    #: SHA-256 of the piece.
    digest_of_piece: Annotated[str, FieldKind(lambda taken, field: taken.digest(field), name="digest")]


def ticket_for(label: bytes, piece: int, data: bytes) -> PieceTicket:
    """The ticket of these bytes."""
    return PieceTicket(label=label, piece=piece, digest_of_piece=digest_of(data))


def check_ticket(text: str, key: VerifyKey, *, label: bytes, piece: int, data: bytes) -> None:
    """That this relay signed the ticket in a header field for this piece.

    Raises
    ------
    MalformedMessageError, BadSignatureError
        It is no such ticket, or of another piece.
    """
    try:
        envelope = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        raise MalformedMessageError("the ticket of a piece is base64") from None
    if PieceTicket.read(envelope, key) != ticket_for(label, piece, data):
        raise MalformedMessageError(f"the ticket is of another piece than {piece} of this batch")


#: Leaves of a run: a shard (docs/protocol.md §31).
RUN = 4096


def run_root(digests: Sequence[bytes]) -> bytes:
    """The root over a few digests, level by level; an odd one out goes up as it is, which is RFC 6962's split."""
    sha256 = hashlib.sha256
    level = [sha256(b"\x00" + digest).digest() for digest in digests]
    if not level:
        return merkle.EMPTY_ROOT
    while len(level) > 1:
        last = [level.pop()] if len(level) & 1 else []
        pairs = zip(level[::2], level[1::2], strict=True)
        level = [sha256(b"\x01" + left + right).digest() for left, right in pairs] + last
    return level[0]


def capsule_root(digests: Iterable[bytes]) -> bytes:
    """The root over so many digests, which must come strictly ascending. Takes the memory of one run."""
    upper = merkle.Frontier()
    waiting = iter(digests)
    before: list[bytes] = []
    while run := list(islice(waiting, RUN)):
        seen = before + run
        if any(len(digest) != DIGEST_BYTES for digest in run) or not all(map(operator.lt, seen, seen[1:])):
            raise LocalProtocolError("digests of capsules have 32 bytes each and ascend, none twice: sort them first")
        upper = upper.append(run_root(run))
        before = run[-1:]
    return upper.root


@dataclass(frozen=True, slots=True)
class Place(Record):
    """Where a digest stands in a tree, and the way from there to the root."""

    index: Annotated[int, whole(0)]
    digest: Hash
    path: HashPath

    def check(self, *, size: int, root: bytes) -> None:
        """That it stands there. Raises ``BadProofError``."""
        leaf = merkle.leaf_hash(self.digest)
        merkle.check_inclusion(leaf, index=self.index, size=size, proof=self.path, root=root)


@dataclass(frozen=True, slots=True)
class Absence(Record):
    """That a digest is not in a tree: its neighbours there; None where it would stand before or after all."""

    left: Place | None
    right: Place | None

    def check(self, digest: bytes, *, size: int, root: bytes) -> None:
        """That the digest is under no leaf of the tree of this size and root.

        Raises
        ------
        BadProofError
            The neighbours do not show it.
        """
        at = 0 if self.left is None else self.left.index + 1
        ends = (self.left is None or self.left.digest < digest) and (self.right is None or digest < self.right.digest)
        following = at == size if self.right is None else at == self.right.index
        if not (ends and following) or len(digest) != DIGEST_BYTES:
            raise BadProofError("the two are no neighbours between which the digest would stand")
        for place in (self.left, self.right):
            if place is not None:
                place.check(size=size, root=root)
        if size == 0 and root != merkle.EMPTY_ROOT:
            raise BadProofError("the root is not that of no capsules")


class CapsuleTree:
    """The tree over digests that are at hand, side by side and ascending: proofs of what is there and what is not."""

    def __init__(self, digests: bytes | memoryview) -> None:
        self._data = memoryview(digests)
        if self._data.nbytes != len(self._data) or len(self._data) % DIGEST_BYTES:
            raise LocalProtocolError(f"digests lie side by side, {DIGEST_BYTES} bytes each")
        self.size = len(self._data) // DIGEST_BYTES
        #: Also sees to it that they ascend.
        self.root = capsule_root(self[i] for i in range(self.size))

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> bytes:
        """The digest at this index."""
        if not 0 <= index < self.size:
            raise IndexError(index)
        return bytes(self._data[DIGEST_BYTES * index : DIGEST_BYTES * (index + 1)])

    def find(self, digest: bytes) -> int | None:
        """The index of a digest; None: it is not there."""
        at = bisect_left(self, digest)
        return at if at < self.size and self[at] == digest else None

    def place(self, index: int) -> Place:
        """The digest at this index, with its path. Hashes the whole tree once more."""
        return Place(index, self[index], merkle.inclusion_proof(self._node, index, self.size))

    def absence(self, digest: bytes) -> Absence:
        """That a digest is not there. Raises ``LocalProtocolError`` where it is."""
        at = bisect_left(self, digest)
        if at < self.size and self[at] == digest:
            raise LocalProtocolError("the digest is in the tree: its absence cannot be shown")
        return Absence(
            self.place(at - 1) if at else None,
            self.place(at) if at < self.size else None,
        )

    def _node(self, level: int, index: int) -> bytes:
        """The hash of a complete subtree (a ``NodeReader``)."""
        return capsule_root(self[i] for i in range(index << level, index + 1 << level))
