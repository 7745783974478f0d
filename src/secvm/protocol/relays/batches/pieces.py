"""Pieces of a batch: how many capsules travel together, how they are cut, and whose they are (docs/protocol.md §30).

Capsules of a batch have one size and lie side by side, in the order of their digests. All pieces but the last are full,
so the length of each follows from the number of capsules. A batch is checked as a whole, when all its pieces are there.
Until then a stranger's piece would keep the right one out; so each piece travels with a ``PieceTicket``, which the
relay that hands it on has signed, and is taken from nobody else.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated, ClassVar

from secvm.crypto.signing import VerifyKey
from secvm.errors import MalformedMessageError
from secvm.protocol.canonical import digest_of
from secvm.protocol.records import FieldKind, Hash, whole
from secvm.protocol.relays.statements import Statement
from secvm.protocol.version import PIECE_TYPE

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
