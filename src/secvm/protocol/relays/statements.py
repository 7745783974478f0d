"""Statement: a small document that one relay signs, and nobody else (docs/protocol.md §27, §28, §30, §31).

Each kind has a type, which is also the purpose of its signature, and a most number of bytes. In its envelope stands
exactly one signature: so the envelope's size is known wherever it is kept inside another document.

Digests of documents are hexadecimal text, as everywhere in ``secvm.protocol``; labels, roots, keys, seeds and nonces
are bytes.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Self

from secvm.crypto.signing import Envelope, SigningKey, VerifyKey, sign, verify
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.canonical import Fields, decode_document, digest_of, encode_document

#: What an envelope with one signature has beside its payload: its first line, a count, key id and signature, a length.
ENVELOPE_BYTES = 18 + 1 + 80 + 4


class Statement:
    """What a kind of statement tells of itself; its fields are a frozen dataclass's."""

    #: Type of the document and purpose of the signature.
    kind: ClassVar[str]
    #: How it is called in an error.
    name: ClassVar[str]
    #: Most bytes of its payload.
    longest: ClassVar[int] = 1024

    def _content(self) -> dict[str, Any]:
        raise NotImplementedError

    @classmethod
    def _taken(cls, fields: Fields) -> Self:
        raise NotImplementedError

    @cached_property
    def data(self) -> bytes:
        """The payload. What a reader would refuse cannot be written either."""
        data = encode_document({**self._content(), "type": self.kind})
        try:
            type(self).from_bytes(data)
        except MalformedMessageError as fault:
            raise LocalProtocolError(f"{self.name} cannot be written: {fault}") from None
        return data

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the payload, as other statements name it."""
        return digest_of(self.data)

    def signed(self, key: SigningKey) -> bytes:
        """In its envelope."""
        return sign(self.data, purpose=self.kind, keys=[key])

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The statement of a payload, whoever signed it. Raises ``MalformedMessageError``."""
        fields = Fields(decode_document(data, max_bytes=cls.longest), cls.name)
        fields.constant("type", cls.kind)
        found = cls._taken(fields)
        fields.done()
        return found

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
        found = cls.enclosed(envelope)
        verify(envelope, purpose=cls.kind, keys=[key])
        return found

    @classmethod
    def enclosed(cls, envelope: bytes) -> Self:
        """The statement in an envelope with one signature, **which is not checked**. Raises as ``from_bytes``."""
        most = cls.longest + ENVELOPE_BYTES
        if len(envelope) > most:
            raise MalformedMessageError(f"{cls.name} has {len(envelope)} bytes in its envelope; at most are {most}")
        parts = Envelope.from_bytes(envelope)
        if len(parts.signatures) != 1:
            raise MalformedMessageError(f"{cls.name} has {len(parts.signatures)} signatures; its relay's is the one")
        return cls.from_bytes(parts.payload)


def taken_bytes(fields: Fields, name: str) -> bytes:
    """Thirty-two bytes, in hexadecimal: a label, a root, a key, a seed."""
    return bytes.fromhex(fields.digest(name))
