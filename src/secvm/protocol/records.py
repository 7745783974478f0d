"""Records: parts of documents that declare their fields once, and are read and written by that declaration.

A record is a dataclass. The type of each field says how it stands in a document:

    >>> @dataclass(frozen=True)
    ... class Seat(Record):
    ...     row: Annotated[int, whole(1, 40)]
    ...     holder: Annotated[str, text(longest=80)] | None = None
    >>> Seat(3).to_content()
    {'holder': None, 'row': 3}
    >>> Seat.from_fields(Fields({"row": 41, "holder": None}, "the seat"))
    Traceback (most recent call last):
    secvm.errors.MalformedMessageError: row of the seat must be an integer from 1 to 40, not 41

A field that may be None is null in the document. With ``OMITTED`` a field is left out where it has its default. The
fields of an inner record marked ``BESIDE`` stand beside the others. A field whose type has no ``FieldKind`` is not part
of the document. What no single field can tell is checked by ``_check_whole``.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache, cached_property
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeGuard, Union, get_args, get_origin, get_type_hints

from secvm.crypto.merkle import MAX_PROOF_HASHES
from secvm.crypto.signing import PUBLIC_KEY_BYTES, VerifyKey
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.canonical import (
    DIGEST_BYTES,
    MAX_INTEGER,
    Fields,
    base64_text,
    decode_document,
    digest_of,
    encode_document,
)
from secvm.protocol.version import MAX_ROUND

#: Marks a field that is left out of the document where it has its default.
OMITTED = "omitted"
#: Marks an inner record whose fields stand beside the others, instead of in an object of their own.
BESIDE = "beside"


@dataclass(frozen=True, slots=True)
class FieldKind:
    """How one kind of value is read from a document, and written into one."""

    #: Takes the field of this name.
    read: Callable[[Fields, str], Any]
    write: Callable[[Any], object] = lambda value: value
    #: The field's name in documents, where it is not the attribute's.
    name: str = ""


def whole(low: int, high: int = MAX_INTEGER, *, name: str = "") -> FieldKind:
    """An integer in this range."""
    return FieldKind(lambda taken, field: taken.integer(field, low, high), name=name)


def text(*, longest: int, shortest: int = 0, pattern: str | None = None) -> FieldKind:
    """One line of printable characters."""
    return FieldKind(lambda taken, field: taken.text(field, longest=longest, shortest=shortest, pattern=pattern))


def short_bytes(size: int, *, name: str = "") -> FieldKind:
    """Bytes of this number, in hexadecimal."""
    return FieldKind(
        lambda taken, field: taken.hexadecimal(field, shortest=size, longest=size), lambda data: data.hex(), name=name
    )


def long_bytes(longest: int) -> FieldKind:
    """At most this number of bytes, in base64."""
    return FieldKind(lambda taken, field: taken.base64(field, longest=longest), base64_text)


def choice(kind: type[Enum]) -> FieldKind:
    """A member of an enumeration, by its value."""
    values = [member.value for member in kind]
    return FieldKind(lambda taken, field: kind(taken.one_of(field, values)), lambda member: member.value)


def words(*allowed: str) -> FieldKind:
    """One of these words."""
    return FieldKind(lambda taken, field: taken.one_of(field, allowed))


def listed(kind: Any, *, longest: int, shortest: int = 0) -> FieldKind:
    """A list of records, or of another kind of values: a tuple."""
    item = _kind_of(kind)
    return FieldKind(
        lambda taken, field: tuple(
            item.read(wrapped, "item") for wrapped in taken.each(field, longest=longest, shortest=shortest)
        ),
        lambda values: [item.write(value) for value in values],
    )


#: SHA-256 of a document, as text.
Digest = Annotated[str, FieldKind(lambda taken, field: taken.digest(field))]
#: Thirty-two bytes: a label, a root, a key, a seed.
Hash = Annotated[bytes, short_bytes(DIGEST_BYTES)]
Flag = Annotated[bool, FieldKind(lambda taken, field: taken.flag(field))]
#: The number of a round, from 1 on.
RoundNumber = Annotated[int, whole(1, MAX_ROUND, name="round")]
#: The key of a party that signs.
SignerKey = Annotated[
    VerifyKey,
    FieldKind(
        lambda taken, field: VerifyKey(taken.hexadecimal(field, shortest=PUBLIC_KEY_BYTES, longest=PUBLIC_KEY_BYTES)),
        lambda key: key.data.hex(),
    ),
]


class _Declared(NamedTuple):
    attribute: str
    name: str
    kind: FieldKind
    optional: bool
    omitted: bool
    default: object
    #: The inner record, where its fields stand beside the others.
    beside: type[Record] | None = None

    def is_missing(self, fields: Fields) -> bool:
        """Whether the document says that there is none."""
        if self.beside is not None:
            return self.optional and not any(fields.has(inner.name) for inner in _declared(self.beside))
        return not fields.has(self.name) if self.omitted else self.optional and fields.is_null(self.name)

    def is_default(self, value: object) -> bool:
        """Whether the document has no such field."""
        return self.omitted and value == self.default


def _declared(record: Any) -> tuple[_Declared, ...]:
    """How each field of a record stands in a document."""
    return _read_declaration(record)


@cache
def _read_declaration(record: Any) -> tuple[_Declared, ...]:
    hints, declared = get_type_hints(record, include_extras=True), []
    for field in fields(record):
        hint = hints[field.name]
        marks = getattr(hint, "__metadata__", ())
        if OMITTED in marks or BESIDE in marks:
            hint = next((mark for mark in marks if isinstance(mark, FieldKind)), get_args(hint)[0])
        optional = get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)
        if optional:
            hint = next(option for option in get_args(hint) if option is not type(None))
        if isinstance(hint, FieldKind) or _is_record(hint) or hasattr(hint, "__metadata__"):
            kind = _kind_of(hint)
            beside = hint if BESIDE in marks else None
            omitted, name = OMITTED in marks, kind.name or field.name
            declared.append(_Declared(field.name, name, kind, optional, omitted, field.default, beside))
    return tuple(declared)


def _is_record(hint: object) -> TypeGuard[type[Record]]:
    """Whether a type is that of an inner record."""
    return isinstance(hint, type) and issubclass(hint, Record)


def _kind_of(hint: Any) -> FieldKind:
    if isinstance(hint, FieldKind):
        return hint
    if _is_record(hint):
        return FieldKind(lambda taken, field: hint.from_fields(taken.inner(field)), lambda part: part.to_content())
    return next(part for part in hint.__metadata__ if isinstance(part, FieldKind))


class Record:
    """A part of a document, whose fields are a dataclass's."""

    __slots__ = ()

    def to_content(self) -> dict[str, Any]:
        """As documents write it, in the order of the names."""
        content: dict[str, Any] = {}
        for declared in _declared(type(self)):
            value = getattr(self, declared.attribute)
            if declared.beside is not None:
                content |= {} if value is None else value.to_content()
            elif not declared.is_default(value):
                content[declared.name] = None if value is None else declared.kind.write(value)
        return dict(sorted(content.items()))

    @classmethod
    def from_fields(cls, fields: Fields) -> Self:
        """As documents tell it: these fields and no others. Raises ``MalformedMessageError``."""
        record = cls.take(fields)
        fields.done()
        return record

    @classmethod
    def take(cls, fields: Fields, **others: object) -> Self:
        """The same where further fields stand beside these; ``others`` are what does not stand in the document."""
        record = cls(**cls.take_values(fields), **others)
        record._check_whole()
        return record

    @classmethod
    def take_values(cls, fields: Fields) -> dict[str, Any]:
        """What the document says, by attribute: for a record whose other parts follow from these."""
        values: dict[str, Any] = {}
        for declared in _declared(cls):
            if declared.is_missing(fields):
                values[declared.attribute] = declared.default if declared.omitted else None
            elif declared.beside is not None:
                values[declared.attribute] = declared.beside.take(fields)
            else:
                values[declared.attribute] = declared.kind.read(fields, declared.name)
        return values

    def _check_whole(self) -> None:
        """What must hold of all fields together. Raises ``MalformedMessageError``."""


class TypedRecord(Record):
    """A whole document, which carries its type."""

    __slots__ = ()

    #: Type of the document, and purpose of its signatures.
    purpose: ClassVar[str]
    #: What an error calls it.
    title: ClassVar[str]
    #: Most bytes that are read.
    longest: ClassVar[int]
    #: Places that are kept for later versions: null.
    reserved: ClassVar[tuple[str, ...]] = ()

    def to_bytes(self) -> bytes:
        """The canonical bytes."""
        return encode_document({**self.to_content(), **dict.fromkeys(self.reserved), "type": self.purpose})

    @classmethod
    def from_bytes(cls, data: bytes, **others: object) -> Self:
        """The document of canonical bytes, complete in itself; nothing is checked against anything else.

        ``others``: what is a part of the value and does not stand in the document.
        """
        fields = Fields(decode_document(data, max_bytes=cls.longest), cls.title)
        fields.constant("type", cls.purpose)
        for name in cls.reserved:
            fields.null(name)
        record = cls.take(fields, **others)
        fields.done()
        return record


class FixedRecord(TypedRecord):
    """A document that others name by its digest, and whose bytes are made once."""

    @cached_property
    def data(self) -> bytes:
        """The canonical bytes. What a reader would refuse cannot be written either."""
        data = self.to_bytes()
        try:
            type(self).from_bytes(data)
        except MalformedMessageError as fault:
            raise LocalProtocolError(f"{self.title} cannot be published: {fault}") from None
        return data

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical bytes: what other documents and the log call it."""
        return digest_of(self.data)


#: The hashes of a proof, from the leaf upwards.
HashPath = Annotated[tuple[bytes, ...], listed(Hash, longest=MAX_PROOF_HASHES)]
