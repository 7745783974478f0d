"""What a session remembers between two events, and how its owner stores it: by what has changed.

Written whole it would be B capsules at every event. ``take_changes`` gives what is another since it was last asked: a
header, which is short, and rows, one a capsule. With a true seal nothing in them says what the packages are. Whoever
applies every ``Changes`` in one transaction each, in order, has the session. Several events may lie between two of
them: what was sent and acknowledged meanwhile is then only a row less.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.learning.declared import MAX_BUDGET
from secvm.protocol.canonical import Fields, base64_text, decode_document, encode_document
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import MAX_MANIFEST_BYTES, AcceptedManifest, accept
from secvm.protocol.plain.session_events import Abstain, Reason
from secvm.protocol.records import FieldKind, listed
from secvm.protocol.version import SESSION_HEADER_TYPE

#: Later than every instant.
NEVER = 2**63
MAX_CAPSULE_BYTES = 2**14
MAX_SESSION_BYTES = 2**28
#: A manifest with its signatures.
MAX_ENVELOPE_BYTES = MAX_MANIFEST_BYTES + 2**12

#: Envelopes of manifests, each in an object of its own.
_EVIDENCE = listed(
    FieldKind(
        lambda taken, field: taken.inner(field).base64("envelope", longest=MAX_ENVELOPE_BYTES),
        lambda data: {"envelope": base64_text(data)},
    ),
    longest=2,
)

#: (32 bytes, the manifest's gateway keys) → the capsule to send.
Seal = Callable[[bytes, bytes], bytes]


class Phase(enum.Enum):
    """Where a device stands in its current round."""

    #: No round, or done with it.
    IDLE = "idle"
    #: Joined; the owner computes.
    COMPUTING = "computing"
    #: There are capsules to send.
    SENDING = "sending"
    #: What the server signed convicts it: never again.
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Waiting:
    """One capsule that was not acknowledged yet."""

    at: int
    attempts: int
    under_way: bool
    capsule: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """One capsule that was not acknowledged yet, as an owner stores it."""

    package_id: int
    at: int
    attempts: int
    capsule: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Changes:
    """What an owner that stores header and rows has to write, in one transaction."""

    #: All but the capsules; None: as it was.
    header: bytes | None = field(repr=False)
    #: Rows that are new or have changed.
    put: tuple[WaitingRow, ...]
    #: Rows that are gone; some of them the owner may never have seen.
    removed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a device is in its round."""

    waiting: int
    acknowledged: int
    lost: int


class AnyMemory:
    """What a session remembers, whatever its rounds are like."""

    def __init__(self, document: ExperimentDocument) -> None:
        self._document = document
        self._phase = Phase.IDLE
        self._paused = False
        #: The latest instant seen, to notice a clock that falls back.
        self._latest = 0
        #: The header that the owner was told last.
        self._told: bytes | None = None

    @property
    def phase(self) -> Phase:
        """Where the device stands."""
        return self._phase

    @property
    def paused(self) -> bool:
        """Whether the person has paused."""
        return self._paused

    def _declined(self, why: str) -> Abstain:
        """Somebody says no to the round that was to be computed."""
        if self._phase is not Phase.COMPUTING:
            raise LocalProtocolError("there is nothing to decline")
        self._phase = Phase.IDLE
        return Abstain(Reason.DECLINED, why)


class SessionMemory(AnyMemory):
    """The part of a session that is stored. What it decides is ``ParticipantSession``'s."""

    def __init__(self, document: ExperimentDocument, *, seal: Seal) -> None:
        super().__init__(document)
        self._seal = seal
        self._accepted: AcceptedManifest | None = None
        self._evidence: tuple[bytes, ...] = ()
        self._waiting: dict[int, Waiting] = {}
        #: Times of those that are not under way, the next one first; some are out of date, and passed over.
        self._order: list[tuple[int, int]] = []
        self._acknowledged = 0
        self._lost = 0
        #: Which rows are another since the owner was told.
        self._touched: set[int] = set()

    @property
    def evidence(self) -> tuple[bytes, ...]:
        """After an equivocation: both manifests, as they were served. Other evidence is its owner's."""
        return self._evidence

    @property
    def accepted(self) -> AcceptedManifest | None:
        """The newest manifest that this device believes."""
        return self._accepted

    @property
    def progress(self) -> Progress:
        """Of the current round, or of the last one."""
        return Progress(len(self._waiting), self._acknowledged, self._lost)

    # ── capsules ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _next_time(self) -> int:
        """When the next package is due, of those that are not under way."""
        while self._order:
            at, package_id = self._order[0]
            waiting = self._waiting.get(package_id)
            if waiting is not None and not waiting.under_way and waiting.at == at:
                return at
            heapq.heappop(self._order)
        return NEVER

    def _put(self, package_id: int, waiting: Waiting) -> None:
        self._waiting[package_id] = waiting
        self._touched.add(package_id)
        if not waiting.under_way:
            heapq.heappush(self._order, (waiting.at, package_id))

    def _drop(self, package_id: int) -> bool:
        """Forget a capsule; whether there was one."""
        self._touched.add(package_id)
        return self._waiting.pop(package_id, None) is not None

    def _drop_all(self) -> None:
        self._touched.update(self._waiting)
        self._waiting, self._order = {}, []

    # ── between restarts ─────────────────────────────────────────────────────────────────────────────────────────────

    def take_changes(self) -> Changes:
        """What has changed since this was last asked, or since the session was made.

        Whoever stores this, and nothing else, has the session (``from_parts``) but for what is under way, which a
        restart forgets anyway.
        """
        header = encode_document({**self._header(), "type": SESSION_HEADER_TYPE})
        touched = sorted(self._touched)
        changes = Changes(
            header=None if header == self._told else header,
            put=tuple(
                WaitingRow(i, self._waiting[i].at, self._waiting[i].attempts, self._waiting[i].capsule)
                for i in touched
                if i in self._waiting
            ),
            removed=tuple(i for i in touched if i not in self._waiting),
        )
        self._told, self._touched = header, set()
        return changes

    def _header(self) -> dict[str, Any]:
        return {
            "accepted": None if self._accepted is None else base64_text(self._accepted.envelope),
            "acknowledged": self._acknowledged,
            "evidence": _EVIDENCE.write(self._evidence),
            "experiment": self._document.digest,
            "latest": self._latest,
            "lost": self._lost,
            "paused": self._paused,
            "phase": self._phase.value,
        }

    @classmethod
    def from_parts(cls, header: bytes, rows: Iterable[WaitingRow], document: ExperimentDocument, *, seal: Seal) -> Self:
        """The session whose changes were stored as they came. Tell it ``Restarted`` first of all."""
        fields = Fields(decode_document(header, max_bytes=MAX_SESSION_BYTES), "the session")
        fields.constant("type", SESSION_HEADER_TYPE)
        session = cls(document, seal=seal)
        session._read_header(fields)
        fields.done()
        for row in sorted(rows, key=lambda row: row.package_id):
            if not 0 <= row.package_id < document.budget or min(row.at, row.attempts) < 0:
                raise MalformedMessageError(
                    f"a stored capsule has number {row.package_id}, time {row.at} and {row.attempts} attempts;"
                    f" numbers are from 0 to {document.budget - 1}, times and attempts from 0"
                )
            if not row.capsule:
                raise MalformedMessageError(f"the stored capsule {row.package_id} is empty")
            session._waiting[row.package_id] = Waiting(row.at, row.attempts, under_way=False, capsule=row.capsule)
        session._told = header
        return session._checked()

    def _read_header(self, fields: Fields) -> None:
        document = self._document
        fields.constant("experiment", document.digest)
        if not fields.is_null("accepted"):
            envelope = fields.base64("accepted", longest=MAX_ENVELOPE_BYTES)
            self._accepted = accept(envelope, document=document)
        self._evidence = _EVIDENCE.read(fields, "evidence")
        self._phase = Phase(fields.one_of("phase", [phase.value for phase in Phase]))
        self._paused = fields.flag("paused")
        self._latest = fields.integer("latest", 0)
        self._acknowledged = fields.integer("acknowledged", 0, MAX_BUDGET)
        self._lost = fields.integer("lost", 0, MAX_BUDGET)

    def _checked(self) -> Self:
        """Itself, if what was read hangs together."""
        together = len(self._waiting) + self._acknowledged + self._lost
        sending = self._phase is Phase.SENDING
        if (
            (self._phase in (Phase.COMPUTING, Phase.SENDING) and self._accepted is None)
            or (sending and together != self._document.budget)
            or (self._waiting and not sending)
            or len(self._evidence) not in (0, 2)
            or (self._evidence and self._phase is not Phase.STOPPED)
        ):
            raise MalformedMessageError("the session's parts do not fit together")
        self._order = sorted((waiting.at, i) for i, waiting in self._waiting.items() if not waiting.under_way)
        return self
