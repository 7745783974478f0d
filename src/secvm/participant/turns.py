"""The session of one experiment, which decides: told, stored, then acted upon.

A turn has one order: tell the session, store what changed, then do what it says. So whatever has left the device, or is
about to, is on the disk before (``storage.state`` says what is synced). Both kinds of experiments have it in common.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast

from secvm.participant.storage.state import DeviceState, RoundHistory
from secvm.participant.trust.fresh_looks import FreshLooks
from secvm.participant.trust.surroundings import Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.plain.session_events import Abstain, Action, Compute, Finished, SendPackage, Tick, Wait
from secvm.protocol.plain.session_memory import NEVER, Phase
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.session import Prepare, RelayedAction, RoundDone, SendRequest

#: What a session sends: one capsule of a plain experiment, or all of a round with two relays.
Due = TypeVar("Due", bound=SendPackage | SendRequest)
#: A timer is never exact, and nothing may leave after the window: what is due within its last moment, which is a tenth
#: of a second, or a two-hundredth of a short window, is sent when that begins.
_LAST_MOMENT_MS, _LAST_PART = 100, 200


class Distrust:
    """Why a device joins no further round of one experiment, until its person resumes."""

    def __init__(self, state: DeviceState, digest: str) -> None:
        self._state, self._digest = state, digest
        #: In one sentence; None: it takes part.
        self.why: str | None = None
        self.reread()

    def reread(self) -> None:
        """See whether the person has resumed."""
        self.why = self._state.trust.distrust(self._digest)

    def put(self, sentence: str) -> None:
        """Take no part from now on."""
        self.why = sentence
        with self._state.writing(durable=True):
            self._state.trust.put_distrust(self._digest, sentence)


class Turns(ABC, Generic[Due]):
    """The session of one experiment, and what it wants done. It does not print itself."""

    #: That decides.
    session: Any
    #: None: there is no log.
    _looking: FreshLooks | None = None

    def __init__(self, around: Surroundings, document: ExperimentDocument) -> None:
        self._around, self.document = around, document
        #: What became of every round that was joined.
        self.rounds = {row.round_number: row for row in around.state.history(document.digest)}
        #: The person has forgotten the experiment while something of it was under way.
        self.left = False
        #: What is due.
        self.outbox: deque[Due] = deque()
        self._pending: list[Finished | tuple[int, Abstain]] = []
        #: What was last noted about a server that could not be believed: once is enough.
        self._noted: tuple[int, Abstain] | None = None
        self._dirty = False
        self._tick_at = NEVER
        #: The round whose last moment has come.
        self._hurried = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    @property
    @abstractmethod
    def manifest(self) -> RoundManifest | RelayedManifest | None:
        """Of the newest round that the session knows."""

    @abstractmethod
    def tell(self, event: Any, now: int) -> None:
        """One turn. What must not be lost is stored before anything is done about it."""

    @abstractmethod
    def _plan(self, now: int) -> None:
        """The session wants the packages of its round."""

    @abstractmethod
    def _put_session(self) -> None:
        """Write what has changed of the session, inside a transaction of the state."""

    def _as_kept(self, abstain: Abstain) -> Abstain:
        """What is kept of an abstention of the session."""
        return abstain

    @property
    def round_number(self) -> int:
        """The newest round that the session knows; 0: none."""
        return 0 if self.manifest is None else self.manifest.round_number

    @property
    def _idle(self) -> bool:
        """Whether no round is joined now."""
        return bool(self.session.phase is Phase.IDLE)

    @property
    def _sending(self) -> bool:
        """Whether the session's round is joined and not over."""
        return bool(self.session.phase is Phase.SENDING)

    # ── the time ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _last_moment(self) -> int | None:
        """When the last moment of the window begins, if packages wait for it and it has not begun yet."""
        manifest = self.manifest
        if manifest is None or not self._sending or self.session.paused or self._hurried == manifest.round_number:
            return None
        window = manifest.window
        return window.closes_at - min(_LAST_MOMENT_MS, (window.closes_at - window.opens_at) // _LAST_PART)

    def tick(self, now: int) -> None:
        """Let the session see the time."""
        moment, manifest = self._last_moment, self.manifest
        if moment is not None and moment <= now and manifest is not None:
            self._hurried = manifest.round_number
            self.tell(Tick(), max(now, manifest.window.closes_at - 1))
        elif self._tick_at <= now:
            self.tell(Tick(), now)

    # ── storing, acting ──────────────────────────────────────────────────────────────────────────────────────────────

    def _carry_out(self, actions: Sequence[Action | RelayedAction], now: int, *, durable: bool | None) -> None:
        """Store what came of an event, then do what the session says; ``durable`` None: it is stored later."""
        self._dirty = True
        for action in actions:
            if isinstance(action, RoundDone):
                budget = self.document.budget
                self._finish(Finished(action.round_number, *((budget, 0) if action.receipt else (0, budget))))
            elif isinstance(action, Finished):
                self._finish(action)
            elif isinstance(action, Abstain):
                self._pending.append((self.round_number, self._as_kept(action)))
        if durable is not None:
            with self._around.state.writing(durable=durable):
                self.write()
        self._tick_at = NEVER
        for action in actions:
            match action:
                case SendPackage() | SendRequest():
                    self.outbox.append(cast("Due", action))
                case Compute() | Prepare():
                    self._plan(now)
                case Wait(until):
                    self._tick_at = until
                case _:
                    pass

    def _finish(self, finished: Finished) -> None:
        self._pending.append(finished)
        self._count(finished.round_number, finished.acknowledged, finished.lost)

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
        digest, state = self.document.digest, self._around.state
        self._put_session()
        if self._sending and self.round_number not in self.rounds:
            state.put_joined(digest, self.round_number, self.document.budget)
            self._count(self.round_number, 0, 0)
        if self._looking is not None:
            self._looking.write()
        for pending in self._pending:
            if isinstance(pending, Finished):
                state.put_finished(digest, pending)
            else:
                state.put_abstention(digest, *pending)
        self._pending.clear()
        self._dirty = False

    def _count(self, round_number: int, acknowledged: int, lost: int) -> None:
        self.rounds[round_number] = RoundHistory(round_number, self.document.budget, acknowledged, lost)

    def leave(self) -> None:
        """The person has left: nothing more is sent or written here."""
        self.left = True
        self.outbox.clear()
        self._tick_at = NEVER
