"""PieceTicket: the relay that hands a batch on says of each piece that it is its own (docs/protocol.md §30).

A batch is checked as a whole, when all its pieces are there. Until then a stranger's piece would keep the right one
out; so each piece travels with this ticket, and is taken from nobody else.
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
