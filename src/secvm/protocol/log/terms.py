"""Whose log it is, and whose cosignatures count (docs/protocol.md §20).

A coordinator has one log for all its experiments, with one origin, ``name/secvm/v2``; its entries are lines
(``protocol.log_entries``). ``LogTerms`` stand in the experiment document: the log's name and key, the witnesses, and
how many of them are enough. Experiments of one log may name different witnesses, and never another log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.crypto.signing import PUBLIC_KEY_BYTES, VerifyKey
from secvm.errors import MalformedMessageError
from secvm.protocol.canonical import Fields
from secvm.protocol.log.checkpoints import Quorum, SignedCheckpoint, check_quorum
from secvm.protocol.log.entries import Entry
from secvm.protocol.log.proofs import LogProof
from secvm.protocol.version import LOG_ORIGIN

MAX_WITNESSES = 16
#: A week: an older view is no view.
MAX_FRESHNESS_S = 7 * 86_400
#: A host and a path, as they stand in a URL without its scheme.
_LOG_NAME = r"[a-z0-9][a-z0-9.:-]*(/[a-z0-9._-]+)*"
#: Anything that is seen, but no plus: witnesses run elsewhere have the names they have.
_WITNESS_NAME = r"[!-*,-~]+"


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

    #: What the log's origin begins with: host and path.
    name: str
    key: VerifyKey
    witnesses: tuple[Witness, ...]
    #: So many of the witnesses must have cosigned: more than half, else two halves could be shown two logs.
    quorum: int
    #: How long ago that may have been.
    freshness_s: int

    @property
    def log_key(self) -> NoteKey:
        """The key of the log; its name is the log's origin."""
        return NoteKey(f"{self.name}/{LOG_ORIGIN}", self.key)

    @property
    def witness_keys(self) -> tuple[NoteKey, ...]:
        """The witnesses' keys as they stand under checkpoints."""
        return tuple(witness.note_key for witness in self.witnesses)

    @property
    def rule(self) -> Quorum:
        """Who must have cosigned."""
        return Quorum(self.quorum, tuple(witness.key for witness in self.witnesses))

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


def check_logged(data: bytes, entry: Entry, *, terms: LogTerms, now: int) -> SignedCheckpoint:
    """That an entry stands in the log, and that enough witnesses saw it lately. ``data`` is a proof file.

    Origin and log's signature first, then the inclusion, then the quorum. It does not show that the log has no second
    entry of the kind, experiment and round: who must know that reads all lines (``protocol.trusted_log``).

    Raises
    ------
    MalformedMessageError
        No proof file, or one of another log.
    BadSignatureError
        The log did not sign, too few witnesses did, or a signature is wrong.
    StaleCheckpointError
        Enough witnesses did, but too long ago.
    BadProofError
        The entry is not there.
    """
    signed = LogProof.from_bytes(data).check(entry.to_bytes(), log=terms.log_key)
    terms.check_quorum(signed, now=now)
    return signed


def _read_key(fields: Fields) -> VerifyKey:
    return VerifyKey(fields.hexadecimal("key", shortest=PUBLIC_KEY_BYTES, longest=PUBLIC_KEY_BYTES))
