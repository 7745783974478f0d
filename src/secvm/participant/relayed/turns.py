"""Turns: the session of one experiment with two relays, told, stored, then acted upon.

The session decides. A turn has one order: tell the session, store what changed, then do what it says. So whatever has
left the device, or is about to, is on the disk before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from secvm.participant.storage.state import RoundHistory
from secvm.participant.trust.fresh_looks import Looking
from secvm.participant.trust.polling import last_moment
from secvm.participant.trust.surroundings import Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.plain.session_events import Abstain, Finished, Restarted, Tick, Wait
from secvm.protocol.plain.session_memory import NEVER
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.sending.session import RelayedSession
from secvm.protocol.relays.sending.session_events import (
    Prepare,
    RelayedAction,
    RelayedEvent,
    RequestReady,
    RoundAnnounced,
    RoundDone,
    SendRequest,
    Taken,
)
from secvm.protocol.relays.sending.session_memory import Phase


class Turns:
    """The session of one experiment, and what it wants done."""

    def __init__(self, around: Surroundings, document: ExperimentDocument, looking: Looking | None) -> None:
        self._around, self._document, self._looking = around, document, looking
        parts = around.state.relayed_session(document.digest)
        #: Whether there was a session before this process.
        self.known = parts is not None
        self.session = RelayedSession(document) if parts is None else RelayedSession.from_parts(*parts, document)
        #: What became of every round that was joined.
        self.rounds = {one.round_number: one for one in around.state.history(document.digest)}
        #: The person has forgotten the experiment while something of it was under way.
        self.left = False
        #: Requests that are due.
        self.outbox: deque[SendRequest] = deque()
        #: Told of a round whose request the session wants.
        self.prepare: Callable[[RelayedManifest, int], None] = lambda _manifest, _now: None
        #: Something that was deleted may still stand in SQLite's log.
        self.stale_log = True
        self._tick_at = NEVER
        self._hurried = 0
        self._pending: list[RoundDone | tuple[int, Abstain]] = []
        self._noted: tuple[int, Abstain] | None = None
        self._dirty = False

    def __repr__(self) -> str:
        return "Turns(...)"

    def hold(self, weights: str) -> None:
        """Keep the file of this model for the experiment, in place of the one before."""
        self._around.shelf.hold(self, weights)

    @property
    def round_number(self) -> int:
        """The newest round that the session knows; 0: none."""
        return 0 if self.session.manifest is None else self.session.manifest.round_number

    # ── the time ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def at(self) -> int:
        """When the session wants to see the time."""
        return min(self._tick_at, self._last_moment or NEVER)

    @property
    def _last_moment(self) -> int | None:
        manifest = self.session.manifest
        if manifest is None or self.session.phase is not Phase.SENDING or self._hurried == manifest.round_number:
            return None
        return None if self.session.paused else last_moment(manifest.window)

    def tick(self, now: int) -> None:
        """Let the session see the time."""
        moment, manifest = self._last_moment, self.session.manifest
        if moment is not None and moment <= now and manifest is not None:
            self._hurried = manifest.round_number
            self.tell(Tick(), max(now, manifest.instants.closes_at - 1))
        elif self._tick_at <= now:
            self.tell(Tick(), now)

    # ── telling, storing, acting ─────────────────────────────────────────────────────────────────────────────────────

    def tell(self, event: RelayedEvent, now: int) -> None:
        """One turn. What must not be lost is stored before anything is done about it."""
        if self.left:
            return
        actions = self.session.receive(event, now=now, words=self._around.words)
        self._dirty = True
        for action in actions:
            if isinstance(action, RoundDone):
                self._pending.append(action)
                self._count(action.round_number, receipt=action.receipt)
            elif isinstance(action, Abstain):
                self._pending.append((self.round_number, action))
        # That a request leaves is noted first: whoever is killed then sends it again also after the window.
        noted = any(isinstance(action, RoundDone | SendRequest) for action in actions)
        if noted or not isinstance(event, Tick | Restarted):
            with self._around.state.writing(durable=isinstance(event, RequestReady | RoundAnnounced | Taken)):
                self.write()
            self.cut_log()
        self._tick_at = NEVER
        self._act(actions, now)

    def _act(self, actions: Sequence[RelayedAction], now: int) -> None:
        for action in actions:
            match action:
                case SendRequest():
                    self.outbox.append(action)
                case Prepare(manifest):
                    self.prepare(manifest, now)
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
        return self._dirty or bool(self._pending) or (self._looking is not None and self._looking.unwritten)

    def write(self) -> None:
        """Write what has changed, inside a transaction of the state."""
        digest, state, changes = self._document.digest, self._around.state, self.session.take_changes()
        manifest = self.session.manifest
        state.put_relayed_session(digest, changes, b"" if manifest is None else manifest.data)
        self.stale_log = self.stale_log or changes.forget
        if changes.sealed is not None:
            # The token travels in the request.
            state.tokens.drop(digest)
            self.stale_log = True
        if self.session.phase is Phase.SENDING and self.round_number not in self.rounds:
            budget = self._document.budget
            state.put_joined(digest, self.round_number, budget)
            self.rounds[self.round_number] = RoundHistory(self.round_number, budget, 0, 0)
        for one in self._pending:
            if isinstance(one, RoundDone):
                done = self.rounds[one.round_number]
                state.put_finished(digest, Finished(one.round_number, done.acknowledged, done.lost))
            else:
                state.put_abstention(digest, *one)
        if self._looking is not None:
            self._looking.write()
        self._pending.clear()
        self._dirty = False

    def cut_log(self) -> None:
        """After something was deleted, and outside of a transaction: another process may be reading just now."""
        if self.stale_log:
            self.stale_log = not self._around.state.empty_log()

    def _count(self, round_number: int, *, receipt: bool) -> None:
        budget = self._document.budget
        self.rounds[round_number] = RoundHistory(
            round_number, budget, budget if receipt else 0, 0 if receipt else budget
        )

    def leave(self) -> None:
        """The person has left: nothing more is sent or written here."""
        self.left = True
        self.outbox.clear()
        self._tick_at = NEVER
