"""Turns: the session of one plain experiment, told, stored, then acted upon.

The session decides. A turn has one order: tell the session, store what changed, then do what it says (see ``state`` for
what is synced to the disk).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from secvm.participant.plain.watching import Watching
from secvm.participant.storage.state import RoundHistory
from secvm.participant.trust.evidence import as_file
from secvm.participant.trust.polling import last_moment
from secvm.participant.trust.surroundings import Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.plain.session import ParticipantSession, Phase
from secvm.protocol.plain.session_events import (
    Abstain,
    Compute,
    Event,
    Finished,
    PackagesReady,
    Restarted,
    SendFailed,
    SendPackage,
    SendSucceeded,
    Tick,
    Wait,
)
from secvm.protocol.plain.session_memory import NEVER


@dataclass(frozen=True, slots=True)
class Due:
    """A capsule that is to be sent now."""

    package_id: int
    capsule: bytes = field(repr=False)


class Turns:
    """The session of one experiment, and what it wants done."""

    def __init__(
        self, around: Surroundings, document: ExperimentDocument, envelope: bytes, watching: Watching | None
    ) -> None:
        """``watching`` is None where there is no log."""
        self._around, self._document, self._envelope, self._watching = around, document, envelope, watching
        parts = around.state.session_parts(document.digest)
        #: Whether there was a session before this process.
        self.known = parts is not None
        if parts is None:
            self.session = ParticipantSession(document, seal=around.seal)
        else:
            self.session = ParticipantSession.from_parts(*parts, document, seal=around.seal)
        #: What became of every round that was joined.
        self.rounds = {one.round_number: one for one in around.state.history(document.digest)}
        #: The person has forgotten the experiment while something of it was under way.
        self.left = False
        #: Capsules that are due.
        self.outbox: deque[Due] = deque()
        #: Told when the session wants a round's packages.
        self.compute: Callable[[int], None] = lambda _now: None
        self._pending: list[Finished | tuple[int, Abstain]] = []
        #: What was last noted about a server that could not be believed: once is enough.
        self._noted: tuple[int, Abstain] | None = None
        self._dirty = False
        self._tick_at = NEVER
        #: The round whose last moment has come.
        self._hurried = 0

    def __repr__(self) -> str:
        return "Turns(...)"

    def hold(self, weights: str) -> None:
        """Keep the file of this model for the experiment, in place of the one before."""
        self._around.shelf.hold(self, weights)

    @property
    def round_number(self) -> int:
        """The newest round that the session knows; 0: none."""
        accepted = self.session.accepted
        return 0 if accepted is None else accepted.manifest.round_number

    # ── the time ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def at(self) -> int:
        """When the session wants to see the time."""
        return min(self._tick_at, self._last_moment or NEVER)

    @property
    def _last_moment(self) -> int | None:
        """When the last moment of the window begins, if packages wait for it and it has not begun yet."""
        accepted = self.session.accepted
        if accepted is None or self.session.phase is not Phase.SENDING or self._hurried == self.round_number:
            return None
        return None if self.session.paused else last_moment(accepted.manifest.window)

    def tick(self, now: int) -> None:
        """Let the session see the time."""
        moment, accepted = self._last_moment, self.session.accepted
        if moment is not None and moment <= now and accepted is not None:
            self._hurried = self.round_number
            self.tell(Tick(), max(now, accepted.manifest.closes_at - 1))
        elif self._tick_at <= now:
            self.tell(Tick(), now)

    # ── telling, storing, acting ─────────────────────────────────────────────────────────────────────────────────────

    def tell(self, event: Event, now: int) -> None:
        """One turn. What must not be lost is stored before anything is done about it."""
        if self.left:
            return
        actions = self.session.receive(event, now=now, words=self._around.words)
        self._dirty = True
        for action in actions:
            if isinstance(action, Finished):
                self._pending.append(action)
                self._count(action.round_number, action.acknowledged, action.lost)
            elif isinstance(action, Abstain):
                self._pending.append((self.round_number, as_file(action, self._envelope)))
        if not isinstance(event, Tick | SendSucceeded | SendFailed | Restarted):
            fresh = isinstance(event, PackagesReady) or self.session.phase is Phase.STOPPED
            with self._around.state.writing(durable=fresh):
                self.write()
        self._tick_at = NEVER
        for action in actions:
            match action:
                case SendPackage(package_id=package_id, capsule=capsule):
                    self.outbox.append(Due(package_id, capsule))
                case Compute():
                    self.compute(now)
                case Wait(until):
                    self._tick_at = until
                case _:
                    pass

    def note(self, abstain: Abstain) -> None:
        """Keep why a round is not joined, once."""
        noted = (self.round_number, abstain)
        if self._noted != noted and not self.left:
            self._noted = noted
            self._pending.append(noted)

    @property
    def unwritten(self) -> bool:
        """Whether ``write`` has something to do."""
        return self._dirty or bool(self._pending) or (self._watching is not None and self._watching.unwritten)

    def write(self) -> None:
        """Write what has changed, inside a transaction of the state."""
        digest, state, changes = self._document.digest, self._around.state, self.session.take_changes()
        state.put_session(digest, changes)
        if self.session.phase is Phase.SENDING and self.round_number not in self.rounds:
            state.put_joined(digest, self.round_number, self._document.budget)
            self._count(self.round_number, 0, 0)
        if self._watching is not None:
            self._watching.write()
        for one in self._pending:
            if isinstance(one, Finished):
                state.put_finished(digest, one)
            else:
                state.put_abstention(digest, *one)
        self._pending.clear()
        self._dirty = False

    def _count(self, round_number: int, acknowledged: int, lost: int) -> None:
        self.rounds[round_number] = RoundHistory(round_number, self._document.budget, acknowledged, lost)

    def leave(self) -> None:
        """The person has left: nothing more is sent or written here."""
        self.left = True
        self.outbox.clear()
        self._tick_at = NEVER
