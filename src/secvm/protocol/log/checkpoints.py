"""Checkpoints: what a log says it holds, signed by it and cosigned by witnesses (c2sp.org/tlog-checkpoint).

A checkpoint is a note (``crypto.notes``) of three lines: the log's origin, its size in decimal, its root in base64.
C2SP allows further lines; here they are refused: nobody audits them, and a server could say something else in them to
each device. A witness alone takes them, from logs of others, and cosigns them without a word about what they say
(``Checkpoint.of_any_log``). The log's key has the origin as its name.

A cosignature of a witness says: at that time this was the largest tree of that origin I had seen, and it has grown out
of all that I had seen before. ``check_enough`` counts each witness once, whatever stands under the note.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from secvm.crypto.merkle import HASH_BYTES, MAX_SIZE, check_consistency
from secvm.crypto.notes import MAX_NOTE_BYTES, Note, NoteKey, NoteSignature, SignatureKind, cosign_note, sign_note
from secvm.crypto.signing import SigningKey, VerifyKey
from secvm.errors import (
    BadInputError,
    BadSignatureError,
    LocalProtocolError,
    MalformedMessageError,
    StaleCheckpointError,
)

#: How far a witness's clock may be ahead of ours (docs/protocol.md §16 has the same minute for servers).
MAX_AHEAD_S = 60
MAX_ORIGIN_BYTES = 500
Encoded = TypeVar("Encoded", bytes, str)

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A log's size and root. Who signed it stands elsewhere."""

    origin: str
    size: int
    root: bytes

    def to_text(self) -> str:
        """The text of the note."""
        text = f"{self.origin}\n{self.size}\n{hash_line(self.root)}"
        return check_written(text, Checkpoint.from_text, self, "this is no checkpoint that could be read again")

    @classmethod
    def from_text(cls, text: str) -> Checkpoint:
        """From the text of a note."""
        lines = text.split("\n")
        if len(lines) != 4 or lines[3]:
            raise MalformedMessageError("a checkpoint has three lines")
        origin, size, root = lines[:3]
        if not origin or len(origin.encode(errors="replace")) > MAX_ORIGIN_BYTES:
            raise MalformedMessageError("a checkpoint's origin is empty, or too long")
        return cls(origin, read_number(size), read_hash(root))

    @classmethod
    def of_any_log(cls, text: str) -> Checkpoint:
        """From the text of a note under which other lines may stand than ours, none of them empty."""
        lines = text.split("\n")
        if not all(lines[3:-1]):
            raise MalformedMessageError("a further line of a checkpoint is empty")
        return cls.from_text("\n".join([*lines[:3], lines[-1]]))

    def sign(self, key: SigningKey) -> bytes:
        """In its note, signed by the log."""
        text = self.to_text()
        return Note(text, (sign_note(text, name=self.origin, key=key),)).to_bytes()

    def cosign(self, key: SigningKey, *, name: str, time_s: int) -> NoteSignature:
        """A witness's line under it."""
        return cosign_note(self.to_text(), name=name, key=key, time_s=time_s)


@dataclass(frozen=True, slots=True)
class Quorum:
    """How many of these must have cosigned: witnesses' keys, or quorums themselves (groups of c2sp.org/tlog-policy)."""

    least: int
    of: tuple[VerifyKey | Quorum, ...]

    @property
    def keys(self) -> frozenset[VerifyKey]:
        """All whose cosignatures count."""
        return frozenset(
            key for member in self.of for key in (member.keys if isinstance(member, Quorum) else (member,))
        )

    def met_by(self, keys: Iterable[VerifyKey]) -> bool:
        """Whether these are enough."""
        return self.met_at(dict.fromkeys(keys, 0)) is not None

    def met_at(self, times: Mapping[VerifyKey, int]) -> int | None:
        """The earliest time by which enough of them had, of those who did; None: they are too few."""
        each = (member.met_at(times) if isinstance(member, Quorum) else times.get(member) for member in self.of)
        met = sorted(time for time in each if time is not None)
        return met[self.least - 1] if len(met) >= self.least else None


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A checkpoint that its log has signed; ``read_checkpoint`` makes it. Cosignatures are not checked yet."""

    checkpoint: Checkpoint
    note: Note

    @property
    def data(self) -> bytes:
        """As it was served: the evidence, should another one turn up."""
        return self.note.to_bytes()

    def cosigned(self, *lines: NoteSignature) -> SignedCheckpoint:
        """With these cosignatures under it, unchecked."""
        return SignedCheckpoint(self.checkpoint, self.note.signed_by(*lines))

    def times(self, witnesses: Sequence[NoteKey]) -> dict[NoteKey, int]:
        """When each of these witnesses cosigned it last, in seconds; who did not is left out.

        Raises ``BadSignatureError`` for a wrong cosignature in the name of one of them.
        """
        times = {}
        for witness in dict.fromkeys(witnesses):
            if witness.kind is not SignatureKind.COSIGNATURE:
                raise LocalProtocolError("a witness has a key for cosignatures")
            if any((made.name, made.key_id) == (witness.name, witness.key_id) for made in self.note.signatures):
                time_s = witness.check(self.note)
                assert time_s is not None
                times[witness] = time_s
        return times


def read_checkpoint(data: bytes, *, log: NoteKey) -> SignedCheckpoint:
    """The checkpoint in this note, if it is of this log and the log signed it.

    Raises
    ------
    MalformedMessageError
        No checkpoint, or that of another log.
    BadSignatureError
        The log did not sign it.
    """
    note = Note.from_bytes(data)
    checkpoint = Checkpoint.from_text(note.text)
    if log.kind is not SignatureKind.PLAIN:
        raise LocalProtocolError("a log has a key for plain signatures")
    if checkpoint.origin != log.name:
        raise MalformedMessageError("this is the checkpoint of another log")
    log.check(note)
    return SignedCheckpoint(checkpoint, note)


def check_enough(times: dict[NoteKey, int], quorum: Quorum, *, now: int, freshness_s: int | None) -> dict[NoteKey, int]:
    """That enough witnesses have cosigned a checkpoint, not longer ago than ``freshness_s``; ``now`` in milliseconds.

    ``times``: when each of them did (``SignedCheckpoint.times``); those that are fresh come back. A witness is its key:
    the same key under two names counts once. What lies more than a minute ahead does not count: it would stay fresh for
    as long as its witness likes. Without ``freshness_s`` they count whenever they did: for a log that has ended.

    Raises
    ------
    BadSignatureError
        Too few have, at any time.
    StaleCheckpointError
        Enough have, but too few of them lately.
    """
    if not quorum.met_by(witness.key for witness in times):
        raise BadSignatureError("too few witnesses have cosigned the checkpoint")
    if freshness_s is None:
        return times
    oldest, latest = now - 1000 * freshness_s, now + 1000 * MAX_AHEAD_S
    fresh = {witness: time_s for witness, time_s in times.items() if oldest <= 1000 * time_s <= latest}
    if not quorum.met_by(witness.key for witness in fresh):
        raise StaleCheckpointError
    return fresh


def check_growth(old: Checkpoint, new: Checkpoint, proof: Sequence[bytes]) -> None:
    """That the new checkpoint's log is the old one's, with leaves added or none. Raises ``BadProofError``."""
    if old.origin != new.origin:
        raise LocalProtocolError("these are checkpoints of two logs")
    check_consistency(first=old.size, second=new.size, first_root=old.root, second_root=new.root, proof=proof)


# ── lines that checkpoints and proofs are made of ────────────────────────────────────────────────────────────────────


def hash_line(digest: bytes) -> str:
    """A hash in base64, with its line feed."""
    return base64.b64encode(digest).decode() + "\n"


def read_hash(line: str) -> bytes:
    """A hash of a line, in its one spelling."""
    try:
        digest = base64.b64decode(line, validate=True)
    except ValueError:
        digest = b""
    if len(digest) != HASH_BYTES or hash_line(digest) != line + "\n":
        raise MalformedMessageError("a line is no hash in base64")
    return digest


def read_number(text: str) -> int:
    """A size or index in decimal, in its one spelling."""
    if not _DECIMAL.fullmatch(text) or int(text) > MAX_SIZE:
        raise MalformedMessageError("a line is no number")
    return int(text)


def text_of(data: bytes) -> str:
    """Bytes of lines as text."""
    if len(data) > 2 * MAX_NOTE_BYTES:
        raise MalformedMessageError(f"{len(data)} bytes of text; at most {2 * MAX_NOTE_BYTES} are read")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise MalformedMessageError("these bytes are no text") from None


def check_written(data: Encoded, read: Callable[[Encoded], object], made: object, sentence: str) -> Encoded:
    """``data``, if it is read as what it was made of; else ``LocalProtocolError`` with this sentence."""
    try:
        same = read(data) == made
    except (MalformedMessageError, BadInputError):
        same = False
    if not same:
        raise LocalProtocolError(sentence)
    return data
