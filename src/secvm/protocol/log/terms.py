"""Whose log it is, and whose cosignatures count (docs/protocol.md §20).

A coordinator has one log for all its experiments, with one origin, ``name/secvm/v2``; its entries are lines
(``log.entries``). ``LogTerms`` stand in the experiment document: the log's name and key, the witnesses, and
how many of them are enough. Experiments of one log may name different witnesses, and never another log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.errors import MalformedMessageError
from secvm.protocol.log.checkpoints import Quorum, SignedCheckpoint, check_quorum
from secvm.protocol.log.entries import Entry
from secvm.protocol.log.proofs import LogProof
from secvm.protocol.records import Record, SignerKey, listed, text, whole
from secvm.protocol.version import LOG_ORIGIN

MAX_WITNESSES = 16
#: A week: an older view is no view.
MAX_FRESHNESS_S = 7 * 86_400
#: A host and a path, as they stand in a URL without its scheme.
_LOG_NAME = r"[a-z0-9][a-z0-9.:-]*(/[a-z0-9._-]+)*"
#: Anything that is seen, but no plus: witnesses run elsewhere have the names they have.
_WITNESS_NAME = r"[!-*,-~]+"


@dataclass(frozen=True, slots=True)
class Witness(Record):
    """Somebody else, who cosigns what extends what they have seen."""

    name: Annotated[str, text(longest=200, pattern=_WITNESS_NAME)]
    key: SignerKey

    @property
    def note_key(self) -> NoteKey:
        """The key as it stands under checkpoints."""
        return NoteKey(self.name, self.key, SignatureKind.COSIGNATURE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTerms(Record):
    """Whose log it is, and whose cosignatures count. Part of the experiment; never changes."""

    #: What the log's origin begins with: host and path.
    name: Annotated[str, text(longest=200, pattern=_LOG_NAME)]
    key: SignerKey
    witnesses: Annotated[tuple[Witness, ...], listed(Witness, shortest=1, longest=MAX_WITNESSES)]
    #: So many of the witnesses must have cosigned: more than half, else two halves could be shown two logs.
    quorum: Annotated[int, whole(1)]
    #: How long ago that may have been.
    freshness_s: Annotated[int, whole(1, MAX_FRESHNESS_S)]

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

    def _check_whole(self) -> None:
        keys, names = {witness.key for witness in self.witnesses}, {witness.name for witness in self.witnesses}
        count = len(self.witnesses)
        if {len(keys), len(names)} != {count}:
            raise MalformedMessageError("a witness of the log stands there twice")
        if not count // 2 < self.quorum <= count:
            raise MalformedMessageError(
                f"a quorum of {self.quorum} of {count} witnesses; it must be from {count // 2 + 1} to {count}"
            )
        if self.key in keys:
            raise MalformedMessageError("a log cannot be its own witness")


def check_logged(data: bytes, entry: Entry, *, terms: LogTerms, now: int) -> SignedCheckpoint:
    """That an entry stands in the log, and that enough witnesses saw it lately. ``data`` is a proof file.

    Origin and log's signature first, then the inclusion, then the quorum. It does not show that the log has no second
    entry of the kind, experiment and round: who must know that reads all lines (``trust.trusted_log``).

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
