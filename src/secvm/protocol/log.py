"""What an experiment's log is, and what it holds (docs/protocol.md §20).

One log per experiment. Entry 0 is the experiment, entry t the manifest of round t, abandoned rounds included; the
ending, where there is one, is the last. Each manifest tells how the round before it ended, so nothing is told outside
the log. A **directory** log lists a coordinator's experiments: entry i is the i-th.

An entry is a line: the document's type, a space, its digest. The document itself, which may be larger than a tile's
entry, is public under its digest already.

``LogTerms`` stand in the experiment document: the log's name and key, the witnesses, and how many of them are enough.
The origin cannot stand there, because the experiment's digest is in it:

    name/secvm/v1/digest          the experiment's log
    name/secvm/v1/directory       the directory
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.crypto.signing import PUBLIC_KEY_BYTES, VerifyKey
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.checkpoints import SignedCheckpoint, check_quorum
from secvm.protocol.documents import DIGEST_BYTES, Fields
from secvm.protocol.log_proofs import LogProof
from secvm.protocol.version import ENDING_TYPE, EXPERIMENT_TYPE, LOG_ORIGIN, MANIFEST_TYPE

MAX_WITNESSES = 16
#: A week: an older view is no view.
MAX_FRESHNESS_S = 7 * 86_400
#: A host and a path, as they stand in a URL without its scheme.
_LOG_NAME = r"[a-z0-9][a-z0-9.:-]*(/[a-z0-9._-]+)*"
#: Anything that is seen, but no plus: witnesses run elsewhere have the names they have.
_WITNESS_NAME = r"[!-*,-~]+"


class EntryKind(enum.Enum):
    """What an entry of a log names; the document's type."""

    EXPERIMENT = EXPERIMENT_TYPE
    MANIFEST = MANIFEST_TYPE
    ENDING = ENDING_TYPE


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry: which kind of document, and its digest."""

    kind: EntryKind
    digest: str

    def to_bytes(self) -> bytes:
        """The one encoding."""
        data = f"{self.kind.value} {self.digest}\n".encode()
        try:
            LogEntry.from_bytes(data)
        except MalformedMessageError as fault:
            raise LocalProtocolError(str(fault)) from None
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> LogEntry:
        """The entry of these bytes; anything else is refused."""
        for kind in EntryKind:
            start = f"{kind.value} ".encode()
            text = data[len(start) : -1]
            if data == start + text + b"\n" and len(text) == 2 * DIGEST_BYTES and not text.strip(b"0123456789abcdef"):
                return cls(kind, text.decode())
        raise MalformedMessageError("this is no entry of a log")


def experiment_entry(digest: str) -> LogEntry:
    """Entry 0 of an experiment's log, and any entry of a directory."""
    return LogEntry(EntryKind.EXPERIMENT, digest)


def manifest_entry(digest: str) -> LogEntry:
    """Entry t, for the manifest of round t."""
    return LogEntry(EntryKind.MANIFEST, digest)


def ending_entry(digest: str) -> LogEntry:
    """The entry after the last round's."""
    return LogEntry(EntryKind.ENDING, digest)


@dataclass(frozen=True, slots=True)
class Witness:
    """Somebody else, who cosigns what extends what they have seen."""

    name: str
    key: VerifyKey

    @property
    def note_key(self) -> NoteKey:
        """The key as it stands under checkpoints."""
        return NoteKey(self.name, self.key, SignatureKind.COSIGNATURE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTerms:
    """Whose log it is, and whose cosignatures count. Part of the experiment; never changes."""

    #: What the origins of its logs begin with: host and path.
    name: str
    key: VerifyKey
    witnesses: tuple[Witness, ...]
    #: So many of the witnesses must have cosigned: more than half, else two halves could be shown two logs.
    quorum: int
    #: How long ago that may have been.
    freshness_s: int

    def log_key(self, experiment: str) -> NoteKey:
        """The key of the log of the experiment with this digest; its name is the log's origin."""
        return NoteKey(f"{self.name}/{LOG_ORIGIN}/{experiment}", self.key)

    @property
    def directory_key(self) -> NoteKey:
        """The key of the directory; its name is the directory's origin."""
        return NoteKey(f"{self.name}/{LOG_ORIGIN}/directory", self.key)

    @property
    def witness_keys(self) -> tuple[NoteKey, ...]:
        """The witnesses' keys as they stand under checkpoints."""
        return tuple(witness.note_key for witness in self.witnesses)

    def check_quorum(self, signed: SignedCheckpoint, *, now: int) -> dict[NoteKey, int]:
        """That enough of the witnesses have cosigned lately; see ``checkpoints.check_quorum``."""
        return check_quorum(
            signed, witnesses=self.witness_keys, quorum=self.quorum, now=now, freshness_s=self.freshness_s
        )

    def to_content(self) -> dict[str, Any]:
        """As it stands in the experiment document."""
        return {
            "freshness_s": self.freshness_s,
            "key": self.key.data.hex(),
            "name": self.name,
            "quorum": self.quorum,
            "witnesses": [{"key": witness.key.data.hex(), "name": witness.name} for witness in self.witnesses],
        }

    @classmethod
    def from_fields(cls, fields: Fields) -> LogTerms:
        """Out of the experiment document."""
        witnesses = []
        for witness in fields.inner_list("witnesses", shortest=1, longest=MAX_WITNESSES):
            name = witness.text("name", longest=200, pattern=_WITNESS_NAME)
            witnesses.append(Witness(name, _read_key(witness)))
            witness.done()
        keys = {witness.key for witness in witnesses}
        if len(keys) != len(witnesses) or len({witness.name for witness in witnesses}) != len(witnesses):
            raise MalformedMessageError("a witness of the log stands there twice")
        terms = cls(
            name=fields.text("name", longest=200, pattern=_LOG_NAME),
            key=_read_key(fields),
            witnesses=tuple(witnesses),
            quorum=fields.integer("quorum", len(witnesses) // 2 + 1, len(witnesses)),
            freshness_s=fields.integer("freshness_s", 1, MAX_FRESHNESS_S),
        )
        fields.done()
        if terms.key in keys:
            raise MalformedMessageError("a log cannot be its own witness")
        return terms


def check_logged(
    data: bytes, entry: LogEntry, *, index: int, experiment: str, terms: LogTerms, now: int
) -> SignedCheckpoint:
    """That an entry stands at this index of the log of this experiment, and that enough witnesses saw it lately.

    ``data`` is a proof file. Origin and log's signature first, then the inclusion, then the quorum. What is left to
    check of the checkpoint that comes back is that it extends the one that was believed before (``check_growth``).

    Raises
    ------
    MalformedMessageError
        No proof file, or one of another log or index.
    BadSignatureError
        The log did not sign, too few witnesses did, or a signature is wrong.
    StaleCheckpointError
        Enough witnesses did, but too long ago.
    BadProofError
        The entry is not there.
    """
    signed = LogProof.from_bytes(data).check(entry.to_bytes(), index=index, log=terms.log_key(experiment))
    terms.check_quorum(signed, now=now)
    return signed


def _read_key(fields: Fields) -> VerifyKey:
    return VerifyKey(fields.hexadecimal("key", shortest=PUBLIC_KEY_BYTES, longest=PUBLIC_KEY_BYTES))
