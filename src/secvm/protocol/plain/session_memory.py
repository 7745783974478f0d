"""What a session remembers between two events, and how its owner stores it: by what has changed.

Written whole it would be B capsules at every event. ``take_changes`` gives what is another since it was last asked: a
header, which is short, and rows, one a capsule. With a true seal nothing in them says what the packages are. Whoever
applies every ``Changes`` in one transaction each, in order, has the session. Several events may lie between two of
them: what was sent and acknowledged meanwhile is then only a row less.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.learning.declared import MAX_BUDGET
from secvm.protocol.canonical import base64_text
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import MAX_MANIFEST_BYTES, AcceptedManifest, accept
from secvm.protocol.plain.session_events import (
    Abstain,
    Action,
    Declined,
    Event,
    Paused,
    Reason,
    Restarted,
    Resumed,
    Tick,
)
from secvm.protocol.records import Digest, FieldKind, Flag, TypedRecord, choice, listed, long_bytes, whole
from secvm.protocol.schedule import Window, below
from secvm.protocol.version import SESSION_HEADER_TYPE

#: When nothing is later than this, what is due is sent: an owner's timer is never exact. Else all of it is drawn anew.
GRACE_MS = 10_000
#: So far may this device's clock be from the server's, or fall back, before it joins nothing.
CLOCK_TOLERANCE_MS = 60_000
#: The first retry comes within this time; the bound doubles up to the second number.
FIRST_BACKOFF_MS = 4_000
LONGEST_BACKOFF_MS = 15 * 60_000
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


@dataclass(frozen=True, kw_only=True)
class SessionHeader(TypedRecord):
    """What is stored of every session, whatever its rounds are like."""

    title: ClassVar[str] = "the session"

    experiment: Digest
    #: Envelope of the manifest that was accepted last.
    accepted: Annotated[bytes, long_bytes(MAX_ENVELOPE_BYTES)] | None
    phase: Annotated[Phase, choice(Phase)]
    paused: Flag
    #: The latest instant seen, to notice a clock that falls back.
    latest: Annotated[int, whole(0)]


E = TypeVar("E")
A = TypeVar("A")


class AnySession(Generic[E, A]):
    """A device in an experiment, whatever its rounds are like: events come in, actions go out."""

    #: Of what the owner tells, whatever is as good as coming back: what is overdue then is no timer's fault.
    ready: ClassVar[type]

    def __init__(self, document: ExperimentDocument) -> None:
        self._document = document
        self._phase = Phase.IDLE
        self._paused = False
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

    def receive(self, event: E, *, now: int, words: Iterator[int]) -> list[A]:
        """What to do about an event. ``now`` in milliseconds; ``words`` are fresh dice, uniform 64-bit words.

        Raises
        ------
        LocalProtocolError
            The owner told something that cannot be, such as packages nobody asked for. Nothing has changed then.
        """
        if now < 0:
            raise LocalProtocolError(f"the time is {now}, and begins at zero")
        actions = self._handle(event, now, words)
        self._latest = max(self._latest, now)
        # The owner was away, or is late by itself: what is overdue now is no timer's fault.
        came_back = isinstance(event, Restarted | Resumed | self.ready)
        return [*actions, *self._go_on(now, words, grace=0 if came_back else GRACE_MS)]

    def _handle(self, event: Any, now: int, words: Iterator[int]) -> list[Any]:  # noqa: ARG002  (others draw)
        """What an event that every session knows brings about."""
        match event:
            case Declined(why):
                if self._phase is not Phase.COMPUTING:
                    raise LocalProtocolError("there is nothing to decline")
                self._phase = Phase.IDLE
                return [Abstain(Reason.DECLINED, why)]
            case Paused() | Resumed():
                self._paused = isinstance(event, Paused)
            case Restarted():
                return self._restarted(now)
            case Tick():
                pass
        return []

    def _restarted(self, now: int) -> list[Any]:
        """What was under way is lost from sight; what was computed is computed again."""
        raise NotImplementedError

    def _go_on(self, now: int, words: Iterator[int], *, grace: int) -> list[Any]:
        """What time alone brings about."""
        raise NotImplementedError

    def _reason_against(self, window: Window, closed: int | None, *, ahead: int | None, now: int) -> Reason | None:
        """Why the device should not join a round with this window; None: it may.

        ``closed``: when the window before closed, if there was one; ``ahead``: how far the server's clock is ahead,
        where that is known.
        """
        if self._paused:
            return Reason.PAUSED
        # Without the server's word, a clock that falls back is noticed; and the next manifest is signed after the round
        # before has ended, so who has it earlier has a slow clock.
        wrong = now < self._latest - CLOCK_TOLERANCE_MS if ahead is None else abs(ahead) > CLOCK_TOLERANCE_MS
        if wrong or (closed is not None and now < closed - CLOCK_TOLERANCE_MS):
            return Reason.CLOCK
        return Reason.LATE if now >= window.opens_at else None

    @staticmethod
    def _retry_at(earliest: int, until: int, attempts: int, words: Iterator[int]) -> int:
        """When to send again what failed after so many attempts."""
        patience = min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS << min(max(attempts - 1, 0), 20))
        return earliest + below(min(patience, until - earliest), words)

    def _common(self) -> dict[str, Any]:
        """What stands in every header, but for the manifest."""
        standing = {"phase": self._phase, "paused": self._paused, "latest": self._latest}
        return {"experiment": self._document.digest, **standing}

    def _take_common(self, header: SessionHeader) -> None:
        if header.experiment != self._document.digest:
            raise MalformedMessageError(f"experiment of the session must be {self._document.digest}")
        self._phase, self._paused, self._latest = header.phase, header.paused, header.latest


@dataclass(frozen=True, kw_only=True)
class PlainHeader(SessionHeader):
    """All of a session but its capsules."""

    purpose: ClassVar[str] = SESSION_HEADER_TYPE
    longest: ClassVar[int] = MAX_SESSION_BYTES

    acknowledged: Annotated[int, whole(0, MAX_BUDGET)]
    lost: Annotated[int, whole(0, MAX_BUDGET)]
    evidence: Annotated[tuple[bytes, ...], _EVIDENCE]


class SessionMemory(AnySession[Event, Action]):
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
        header = PlainHeader(
            accepted=None if self._accepted is None else self._accepted.envelope,
            acknowledged=self._acknowledged,
            lost=self._lost,
            evidence=self._evidence,
            **self._common(),
        ).to_bytes()
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

    @classmethod
    def from_parts(cls, header: bytes, rows: Iterable[WaitingRow], document: ExperimentDocument, *, seal: Seal) -> Self:
        """The session whose changes were stored as they came. Tell it ``Restarted`` first of all."""
        kept = PlainHeader.from_bytes(header)
        session = cls(document, seal=seal)
        session._take_common(kept)
        session._accepted = None if kept.accepted is None else accept(kept.accepted, document=document)
        session._acknowledged, session._lost, session._evidence = kept.acknowledged, kept.lost, kept.evidence
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
