"""Statement: a small document that one relay signs, and nobody else (docs/protocol.md §27, §28, §30, §31).

Each kind has a type, which is also the purpose of its signature, and a most number of bytes. In its envelope stands
exactly one signature: so the envelope's size is known wherever it is kept inside another document.

Digests of documents are hexadecimal text, as everywhere in ``secvm.protocol``; labels, roots, keys, seeds and nonces
are bytes. The first kind is here: ``RelayedTerms``, what a relay takes on at all. Whoever plans an experiment asks both
relays; a relay refuses a document that goes beyond its own, and a device one whose relays' terms are of other URLs or
operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from secvm.crypto.signing import Envelope, SigningKey, VerifyKey, sign, verify
from secvm.errors import MalformedMessageError
from secvm.protocol.canonical import Fields, base64_text
from secvm.protocol.documents.terms import ROLES, RelayRole
from secvm.protocol.records import FieldKind, FixedRecord, text, whole, words
from secvm.protocol.version import RELAYED_TERMS_TYPE

#: What an envelope with one signature has beside its payload: its first line, a count, key id and signature, a length.
ENVELOPE_BYTES = 18 + 1 + 80 + 4


class Statement(FixedRecord):
    """A document that one relay signs; each kind declares its fields."""

    longest: ClassVar[int] = 1024

    def signed(self, key: SigningKey) -> bytes:
        """In its envelope."""
        return sign(self.data, purpose=self.purpose, keys=[key])

    @classmethod
    def read(cls, envelope: bytes, key: VerifyKey) -> Self:
        """The statement in an envelope that this relay signed.

        Raises
        ------
        MalformedMessageError
            No envelope with one signature, or no such statement in it.
        BadSignatureError
            Somebody else signed it, or for another purpose.
        """
        statement = cls.enclosed(envelope)
        verify(envelope, purpose=cls.purpose, keys=[key])
        return statement

    @classmethod
    def enclosed(cls, envelope: bytes) -> Self:
        """The statement in an envelope with one signature, **which is not checked**. Raises as ``from_bytes``."""
        most = cls.longest + ENVELOPE_BYTES
        if len(envelope) > most:
            raise MalformedMessageError(f"{cls.title} has {len(envelope)} bytes in its envelope; at most are {most}")
        parts = Envelope.from_bytes(envelope)
        if len(parts.signatures) != 1:
            raise MalformedMessageError(f"{cls.title} has {len(parts.signatures)} signatures; its relay's is the one")
        return cls.from_bytes(parts.payload)


def enveloped(kind: type[Statement]) -> FieldKind:
    """A statement in its envelope, inside another document; **its signature is not checked**."""

    def read(taken: Fields, field: str) -> bytes:
        envelope = taken.base64(field, longest=kind.longest + ENVELOPE_BYTES)
        kind.enclosed(envelope)  # refuses what is no such statement
        return envelope

    return FieldKind(read, base64_text)


@dataclass(frozen=True, kw_only=True)
class RelayedTerms(Statement):
    """The terms of one relay."""

    purpose: ClassVar[str] = RELAYED_TERMS_TYPE
    title: ClassVar[str] = "the relay's terms"
    longest: ClassVar[int] = 2048

    url: Annotated[str, text(longest=510, shortest=1)]
    operator: Annotated[str, text(longest=200, shortest=1)]
    role: Annotated[RelayRole, words(*ROLES)]
    #: Submissions of one client in a round.
    quota: Annotated[int, whole(1)]
    #: Cells of an experiment, of all kinds; D; and n₁: at most.
    cells: Annotated[int, whole(1)]
    packages: Annotated[int, whole(1)]
    capsules: Annotated[int, whole(1)]
    #: Seconds in which it seals or opens a million packages.
    seconds_per_million: Annotated[int, whole(1)]
