"""A device's part in one experiment: what plain experiments and those with two relays have in common.

``Turns`` holds the session, which decides. A turn has one order: tell the session, store what changed, then do what it
says. So whatever has left the device, or is about to, is on the disk before (``storage.state`` says what is synced).

``Membership`` puts turns, preparation and askings together for the host. It starts nothing by itself: the host asks
when it is to be woken, carries out what is due, and comes back with what became of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from secvm.learning.individual.contribution import Individual, contribute
from secvm.learning.individual.dice import Dice
from secvm.learning.package import Package
from secvm.learning.weights import Weights
from secvm.participant.consent.ledger import enter
from secvm.participant.storage.state import BelievedModel, DeviceState, ExperimentRecord, RoundHistory, Status
from secvm.participant.trust.fresh_looks import FreshLooks
from secvm.participant.trust.polling import Polling, last_moment
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.plain.session import ParticipantSession
from secvm.protocol.plain.session_events import (
    Abstain,
    Action,
    Compute,
    Finished,
    Paused,
    Resumed,
    SendPackage,
    Tick,
    Wait,
)
from secvm.protocol.plain.session_memory import NEVER
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.sending.session import Prepare, RelayedAction, RelayedSession, RoundDone, SendRequest

#: What a session sends: one capsule of a plain experiment, or all of a round with two relays.
Due = TypeVar("Due", bound=SendPackage | SendRequest)
Session = TypeVar("Session", bound=ParticipantSession | RelayedSession)


@dataclass(frozen=True, slots=True)
class RoundCounts:
    """How far a device is in a round, or was."""

    round_number: int
    waiting: int
    acknowledged: int
    lost: int
    done: bool


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


class Turns(ABC, Generic[Session, Due]):
    """The session of one experiment, and what it wants done."""

    def __init__(
        self,
        around: Surroundings,
        document: ExperimentDocument,
        session: Session,
        looking: FreshLooks | None,
        *,
        known: bool,
    ) -> None:
        """``looking`` is None where there is no log; ``known``: there was a session before this process."""
        self._around, self._document, self._looking = around, document, looking
        self.session: Session = session
        self.known = known
        #: What became of every round that was joined.
        self.rounds = {row.round_number: row for row in around.state.history(document.digest)}
        #: The person has forgotten the experiment while something of it was under way.
        self.left = False
        #: What is due.
        self.outbox: deque[Due] = deque()
        #: Told when the session wants a round's packages.
        self.prepare: Callable[[int], None] = lambda _now: None
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

    @property
    @abstractmethod
    def sending(self) -> bool:
        """Whether the session's round is joined and not over."""

    @abstractmethod
    def tell(self, event: Any, now: int) -> None:
        """One turn. What must not be lost is stored before anything is done about it."""

    @abstractmethod
    def _put_session(self) -> None:
        """Write what has changed of the session, inside a transaction of the state."""

    def _as_kept(self, abstain: Abstain) -> Abstain:
        """What is kept of an abstention of the session."""
        return abstain

    def hold(self, weights: str) -> None:
        """Keep the file of this model for the experiment, in place of the one before."""
        self._around.shelf.hold(self, weights)

    @property
    def round_number(self) -> int:
        """The newest round that the session knows; 0: none."""
        return 0 if self.manifest is None else self.manifest.round_number

    # ── the time ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def at(self) -> int:
        """When the session wants to see the time."""
        return min(self._tick_at, self._last_moment or NEVER)

    @property
    def _last_moment(self) -> int | None:
        """When the last moment of the window begins, if packages wait for it and it has not begun yet."""
        manifest = self.manifest
        if manifest is None or not self.sending or self._hurried == manifest.round_number:
            return None
        return None if self.session.paused else last_moment(manifest.window)

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
            match action:
                case Finished(number, acknowledged, lost):
                    self._pending.append(action)
                    self._count(number, acknowledged, lost)
                case RoundDone(number, receipt):
                    budget = self._document.budget
                    done = Finished(number, budget if receipt else 0, 0 if receipt else budget)
                    self._pending.append(done)
                    self._count(number, done.acknowledged, done.lost)
                case Abstain():
                    self._pending.append((self.round_number, self._as_kept(action)))
                case _:
                    pass
        if durable is not None:
            with self._around.state.writing(durable=durable):
                self.write()
        self._tick_at = NEVER
        for action in actions:
            match action:
                case SendPackage() | SendRequest():
                    self.outbox.append(cast("Due", action))
                case Compute() | Prepare():
                    self.prepare(now)
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
        digest, state = self._document.digest, self._around.state
        self._put_session()
        if self.sending and self.round_number not in self.rounds:
            state.put_joined(digest, self.round_number, self._document.budget)
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
        self.rounds[round_number] = RoundHistory(round_number, self._document.budget, acknowledged, lost)

    def leave(self) -> None:
        """The person has left: nothing more is sent or written here."""
        self.left = True
        self.outbox.clear()
        self._tick_at = NEVER


class Preparation(ABC):
    """Prepares what one person sends in the rounds of one experiment. It does not print itself."""

    def __init__(
        self, around: Surroundings, document: ExperimentDocument, distrust: Distrust, *, person: Individual, dice: Dice
    ) -> None:
        self._around, self._document, self._distrust = around, document, distrust
        self._person, self._dice = person, dice
        #: When a round's packages are to be computed.
        self.at = NEVER

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    @abstractmethod
    def plan(self, now: int) -> None:
        """The session wants the packages of its round."""

    @abstractmethod
    async def prepare(self, now: Now) -> bool:
        """Compute and seal the packages of the round that the session is in; whether they are there now."""

    def _contribute(self, round_number: int, training: Weights, evaluation: Weights) -> list[Package]:
        """The person's packages. The round is in the ledger, on the disk, before anything of it exists."""
        around, document = self._around, self._document
        # From here on it counts: nothing of the round exists before.
        enter(around.state, document, round_number, around.consent)
        return contribute(
            self._person,
            experiment=document.experiment,
            training=training,
            evaluation=evaluation,
            dice=self._dice,
            round_number=round_number,
        )

    def _keep_model(self, turns: Turns[Any, Any], manifest: RoundManifest | RelayedManifest) -> None:
        """The model of this round is the last one that the device believes, with its file."""
        turns.hold(manifest.evaluation_weights)
        with self._around.state.writing(durable=False):
            self._around.state.put_model(
                self._document.digest, BelievedModel(manifest.round_number, manifest.evaluation_weights)
            )


class RoundListener(ABC):
    """The askings of one experiment, each at a time that says nothing about the device."""

    def __init__(self, turns: Turns[Any, Any], polling: Polling, *, ended: bool) -> None:
        """``ended``: the experiment was over before this process."""
        self._turns, self._polling, self.ended = turns, polling, ended
        self._poll_at = NEVER

    @property
    @abstractmethod
    def at(self) -> int:
        """When something is to be asked next."""

    @abstractmethod
    def _next_manifest_at(self) -> int:
        """The earliest time at which a manifest after the newest known one can be there; 0: at any."""

    @abstractmethod
    async def ask(self, now: Now) -> None:
        """Ask whatever is due."""

    def begin(self, now: int) -> None:
        """Ask at a time after now; of a round that is known, after its end."""
        self._poll_at = self._polling.first(max(now, self._next_manifest_at()))

    def begin_at_once(self, now: int) -> None:
        """The same where no round runs: there may be something new."""
        self._poll_at = self._polling.first(now)


class Membership(ABC, Generic[Due]):
    """A device's part in one experiment, for the host."""

    _turns: Turns[Any, Due]
    _preparation: Preparation
    _listener: RoundListener

    def __init__(self, around: Surroundings, document: ExperimentDocument, distrust: Distrust) -> None:
        self._around, self.document, self._distrust = around, document, distrust
        self._polling = Polling(document.windows, around.words)
        self._looking: FreshLooks | None = None
        self._busy = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def _start(self, record: ExperimentRecord, now: int) -> None:
        """Take up where the process before this one has stopped."""
        self._turns.prepare = self._preparation.plan
        model = self._around.state.model(record.digest)
        if model is not None:
            self._turns.hold(model.weights)
        self._listener.begin(now)

    # ── what is known ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def rounds(self) -> dict[int, RoundHistory]:
        """What became of every round that was joined."""
        return self._turns.rounds

    @property
    def ended(self) -> bool:
        """Whether the experiment is over."""
        return self._listener.ended

    @property
    def abstains(self) -> bool:
        """Whether the newest round that it knows goes on without it."""
        newest = self._turns.round_number
        return self._idle and newest > 0 and newest not in self.rounds

    @property
    def distrust(self) -> str | None:
        """Why no round is joined for now."""
        return self._distrust.why

    @property
    def distrusts(self) -> bool:
        """Whether it takes no part because of what it has seen of the server."""
        return self.distrust is not None

    @property
    def unanswered(self) -> int:
        """How many askings for a manifest in a row nobody answered."""
        return 0 if self.ended or self._stands_still else self._polling.unanswered

    @property
    def canaries(self) -> int:
        """How many canaries are still to be looked for; a plain experiment has none."""
        return 0

    def counts(self) -> Iterator[RoundCounts]:
        """What became of every round it joined, the running one included."""
        for number, row in self.rounds.items():
            if self._turns.sending and number == self._turns.round_number:
                yield self._running(row)
            else:
                yield RoundCounts(number, 0, row.acknowledged, row.lost, done=True)

    @abstractmethod
    def _running(self, row: RoundHistory) -> RoundCounts:
        """How far the running round is."""

    @property
    @abstractmethod
    def _idle(self) -> bool:
        """Whether no round is joined now."""

    @property
    def _stands_still(self) -> bool:
        """Whether nothing at all is fetched or computed."""
        return self._turns.left or bool(self._turns.session.paused)

    # ── what the host asks ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def wake_at(self) -> int:
        """When there is something to do next, if nothing happens before."""
        return min(self._turns.at, NEVER if self._busy else self._work_at)

    @property
    def _work_at(self) -> int:
        """When something is to be fetched or computed next."""
        if self._stands_still:
            return NEVER
        return min(NEVER if self.ended else self._preparation.at, self._listener.at)

    def tick(self, now: int) -> None:
        """Let the session see the time."""
        self._turns.tick(now)

    @property
    def has_due(self) -> bool:
        """Whether something is due that nobody has taken yet: after a restart that may be so at once."""
        return bool(self._turns.outbox)

    def next_due(self, now: int) -> Due | None:  # noqa: ARG002  (whether it is too late depends on the kind)
        """Take one of what is due."""
        return self._turns.outbox.popleft() if self._turns.outbox else None

    @abstractmethod
    async def send(self, due: Due, now: Now) -> None:
        """Send this, if it may still leave, and tell the session what became of it."""

    def wants_work(self, now: int) -> bool:
        """Whether ``work`` has something to fetch or compute."""
        return not self._busy and self._work_at <= now

    def begin_work(self) -> None:
        """Until ``work`` is done, it is not wanted again."""
        self._busy = True

    async def work(self, now: Now) -> None:
        """Prepare the round's packages if they are wanted, or ask for what is due."""
        try:
            moment = now()
            if self._work_at > moment:
                return
            if self.ended or self._preparation.at > moment:
                await self._listener.ask(now)
            elif await self._preparation.prepare(now):
                self._look_again(now())
        finally:
            self._busy = False

    def _look_again(self, now: int) -> None:
        """A round is joined, or was before a restart: the log is looked at again in its window."""
        manifest = self._turns.manifest
        if self._looking is not None and manifest is not None:
            self._looking.joined(manifest.round_number, manifest.window, now)

    def set_status(self, status: Status, now: int) -> None:
        """What the person has decided."""
        self._distrust.reread()
        if self._looking is not None:
            self._looking.reread()
        paused = self._turns.session.paused
        if status is Status.PAUSED and not paused:
            self._turns.tell(Paused(), now)
        elif status is Status.JOINED and paused:
            self._turns.tell(Resumed(), now)
            # A round that runs is left to its end; else there may be something new.
            if self._idle:
                self._listener.begin_at_once(now)
            else:
                self._listener.begin(now)

    @property
    def unwritten(self) -> bool:
        """Whether ``write`` has something to do."""
        return self._turns.unwritten

    def write(self) -> None:
        """Write what has changed, inside a transaction of the state."""
        self._turns.write()

    def leave(self) -> None:
        """The person has left: nothing more is asked, sent or written here."""
        self._turns.leave()
