r"""Signed notes (c2sp.org/signed-note) and cosignatures (c2sp.org/tlog-cosignature): text with signatures under it.

    text, ends in a line feed
                                                                  an empty line
    — name base64( key id, 4 bytes ‖ signature )                  one line for each signature

Two kinds of signatures are known here, both Ed25519. A *plain* one is over the text. A *cosignature* is a witness's: it
carries the time, 8 bytes big-endian, in seconds, and is over "cosignature/v1\ntime N\n" and the text. A key id is the
first four bytes of SHA-256( name ‖ "\n" ‖ kind ‖ public key ): name and id together say which key is meant, and prove
nothing. These signatures have no purpose inside, as envelopes (``signing``) have: what is signed must say itself what
it is. A key that signs notes signs nothing else.

``Note.from_bytes`` checks the form alone. ``NoteKey.check`` believes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass, replace
from enum import IntEnum

from secvm.crypto.signing import PUBLIC_KEY_BYTES, SIGNATURE_BYTES, SigningKey, VerifyKey
from secvm.errors import BadSignatureError, LocalProtocolError, MalformedMessageError

NOTE_KEY_ID_BYTES = 4
TIME_BYTES = 8
#: C2SP demands room for at least 16; other people's keys may be post-quantum and have long signatures.
MAX_NOTE_BYTES = 2**17
MAX_NOTE_SIGNATURES = 64
MAX_TIME_S = 2**63 - 1
_DASH = "\u2014 "
#: What a note's text has not, and what a key's name has not.
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")
_UNNAMEABLE = re.compile(r"[\s+\x00-\x1f]")


class SignatureKind(IntEnum):
    """What a key signs in a note; the byte that C2SP assigns to it."""

    PLAIN = 0x01
    COSIGNATURE = 0x04


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """One line under a note. **Nothing in it is checked.**"""

    name: str
    key_id: bytes
    #: Without the key id.
    data: bytes

    def to_line(self) -> str:
        """The line, with its line feed."""
        _check_name(self.name)
        if len(self.key_id) != NOTE_KEY_ID_BYTES or not self.data:
            raise LocalProtocolError("a note's signature is a key id and more")
        return f"{_DASH}{self.name} {_written(self.key_id + self.data)}\n"

    @classmethod
    def from_line(cls, line: str) -> NoteSignature:
        """From the line, without its line feed."""
        name, space, text = line.removeprefix(_DASH).partition(" ")
        data = _read(text)
        if not line.startswith(_DASH) or not space or not is_key_name(name) or len(data) <= NOTE_KEY_ID_BYTES:
            raise MalformedMessageError("a line under a note is no signature")
        return cls(name, data[:NOTE_KEY_ID_BYTES], data[NOTE_KEY_ID_BYTES:])


@dataclass(frozen=True, slots=True)
class Note:
    """Text with signatures under it. **Nothing in it is checked**: ``NoteKey.check`` does that."""

    text: str
    signatures: tuple[NoteSignature, ...]

    def to_bytes(self) -> bytes:
        """The one encoding."""
        lines = [signature.to_line() for signature in self.signatures]
        data = f"{self.text}\n{''.join(lines)}".encode(errors="replace")
        try:
            same = Note.from_bytes(data) == self
        except MalformedMessageError:
            same = False
        if not same:
            raise LocalProtocolError("this is no text that a note can hold, or it has no signatures")
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Note:
        """Take a note apart without checking its signatures; anything but a whole encoding is refused."""
        if len(data) > MAX_NOTE_BYTES:
            raise MalformedMessageError("the note is too long")
        try:
            whole = data.decode()
        except UnicodeDecodeError:
            raise MalformedMessageError("the note is no text") from None
        if _CONTROL.search(whole):
            raise MalformedMessageError("the note holds control characters")
        # The text may have empty lines; the last one is the border.
        text, border, below = whole.rpartition("\n\n")
        if not border:
            raise MalformedMessageError("the note has no signatures")
        return cls(text + "\n", read_signature_lines(below))

    def signed_by(self, *more: NoteSignature) -> Note:
        """The same note with further signatures; one that it has already is not put there twice."""
        return replace(self, signatures=tuple(dict.fromkeys((*self.signatures, *more))))


def read_signature_lines(text: str) -> tuple[NoteSignature, ...]:
    """Lines as they stand under a note, at least one."""
    *lines, rest = text.split("\n")
    if rest or not 1 <= len(lines) <= MAX_NOTE_SIGNATURES:
        raise MalformedMessageError("there are no signatures, too many, or the last one is not whole")
    return tuple(NoteSignature.from_line(line) for line in lines)


@dataclass(frozen=True, slots=True)
class NoteKey:
    """A public key with its name, and with what it signs."""

    name: str
    key: VerifyKey
    kind: SignatureKind = SignatureKind.PLAIN

    def __post_init__(self) -> None:
        _check_name(self.name)

    @property
    def key_id(self) -> bytes:
        """Which key this is, on a line under a note."""
        named = self.name.encode() + b"\n" + bytes([self.kind]) + self.key.data
        return hashlib.sha256(named).digest()[:NOTE_KEY_ID_BYTES]

    def to_text(self) -> str:
        """As people hand keys to each other: name, key id and key, joined by plus signs."""
        return f"{self.name}+{self.key_id.hex()}+{_written(bytes([self.kind]) + self.key.data)}"

    @classmethod
    def from_text(cls, text: str) -> NoteKey:
        """The key that ``to_text`` wrote; anything else is refused."""
        name, _, rest = text.partition("+")
        data = _read(rest.partition("+")[2])
        if not is_key_name(name) or len(data) != 1 + PUBLIC_KEY_BYTES or data[0] not in list(SignatureKind):
            raise MalformedMessageError("this is no key of a note")
        key = cls(name, VerifyKey(data[1:]), SignatureKind(data[0]))
        if key.to_text() != text:
            raise MalformedMessageError("the id of a note's key is another key's")
        return key

    def check(self, note: Note) -> int | None:
        """Whether this key signed the note; of cosignatures the latest time comes back, in seconds, of others none.

        Signatures of other keys are passed over. A wrong one in the name of this key never is.

        Raises
        ------
        BadSignatureError
            This key did not sign it, or a signature is wrong.
        """
        key_id = self.key_id
        mine = [made for made in note.signatures if (made.name, made.key_id) == (self.name, key_id)]
        if not mine:
            raise BadSignatureError("the note is not signed by the key that is trusted for it")
        times = [self._check_one(note.text, made.data) for made in mine]
        return max((time for time in times if time is not None), default=None)

    def _check_one(self, text: str, data: bytes) -> int | None:
        time_s = None
        if self.kind is SignatureKind.COSIGNATURE:
            time_s, data = int.from_bytes(data[:TIME_BYTES], "big"), data[TIME_BYTES:]
        if len(data) != SIGNATURE_BYTES or (time_s or 0) > MAX_TIME_S:
            raise BadSignatureError("a signature under a note has no proper form")
        self.key.check(data, signed_text(text, time_s))
        return time_s


def signed_text(text: str, time_s: int | None) -> bytes:
    """What a plain signature, or the cosignature of this time, is over."""
    return (text if time_s is None else f"cosignature/v1\ntime {time_s}\n{text}").encode()


def sign_note(text: str, *, name: str, key: SigningKey) -> NoteSignature:
    """A plain signature under this text."""
    return NoteSignature(name, NoteKey(name, key.public).key_id, key.sign(signed_text(text, None)))


def cosign_note(text: str, *, name: str, key: SigningKey, time_s: int) -> NoteSignature:
    """A witness's signature under this text: seen at this time, in seconds."""
    if not 0 <= time_s <= MAX_TIME_S:
        raise LocalProtocolError("a cosignature cannot say this time")
    key_id = NoteKey(name, key.public, SignatureKind.COSIGNATURE).key_id
    return NoteSignature(name, key_id, time_s.to_bytes(TIME_BYTES, "big") + key.sign(signed_text(text, time_s)))


def is_key_name(name: str) -> bool:
    """Whether a key can have this name: no spaces of any kind, no plus, no control characters, not empty."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return bool(name) and not _UNNAMEABLE.search(name)


def _check_name(name: str) -> None:
    if not is_key_name(name):
        raise LocalProtocolError("a key cannot have this name")


def _written(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _read(text: str) -> bytes:
    """Base64 in its one spelling; anything else gives nothing."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
    return data if _written(data) == text else b""
