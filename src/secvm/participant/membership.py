"""One experiment on one device: the session, and all it needs from outside, turn by turn.

The session decides; this owns its storing, its askings for manifests, its computing, and the capsules that are due. It
starts nothing by itself: ``due`` gives the jobs of this moment, and whoever carries one out comes back with what became
of it. Order of every turn: tell the session, store, then act (see ``state`` for what is synced to the disk).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from secvm.errors import LocalProtocolError, SecVMError
from secvm.learning.individual.contribution import contribute
from secvm.learning.individual.dice import Dice
from secvm.participant.models import ModelShelf
from secvm.participant.polling import Polling
from secvm.participant.sealing import CAPSULE_BYTES
from secvm.participant.state import DeviceState, Model, Record, RoundHistory, Status
from secvm.participant.traffic import Traffic
from secvm.participant.transport import OVERHEAD_BYTES, SendResult, Transport
from secvm.protocol.ending import accept_ending
from secvm.protocol.events import (
    Abstain,
    Compute,
    Declined,
    Event,
    Finished,
    ManifestArrived,
    PackagesReady,
    Paused,
    Restarted,
    Resumed,
    SendFailed,
    SendPackage,
    SendSucceeded,
    Tick,
    Wait,
)
from secvm.protocol.experiment_document import ExperimentDocument, Windows
from secvm.protocol.manifest import RoundManifest
from secvm.protocol.schedule import below
from secvm.protocol.session import ParticipantSession, Phase
from secvm.protocol.session_memory import NEVER, Seal

#: A clock's ``now``.
Now = Callable[[], int]
#: A timer is never exact, and nothing may leave after the window. So what is due in the last moment of a window is sent
#: at the beginning of that moment: a tenth of a second, or a two-hundredth of a short window.
_LAST_MOMENT_MS = 100
_LAST_PART = 200
#: Weights that could not be had are asked for again within this time, doubled each time.
_FIRST_PATIENCE_MS = 2000
_LONGEST_PATIENCE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Due:
    """A capsule that is to be sent now."""

    package_id: int
    capsule: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RoundCounts:
    """How far a device is in a round, or was."""

    round_number: int
    waiting: int
    acknowledged: int
    lost: int
    done: bool


@dataclass(frozen=True, slots=True, repr=False)
class Surroundings:
    """What all experiments of a device share."""

    state: DeviceState
    transport: Transport
    shelf: ModelShelf
    traffic: Traffic
    #: The system's dice, for times, orders and phases.
    words: Iterator[int]
    seal: Seal


class Membership:
    """A device's part in one experiment."""

    def __init__(
        self, around: Surroundings, record: Record, document: ExperimentDocument, dice: Dice, *, now: int
    ) -> None:
        if record.person is None:
            raise LocalProtocolError("nobody has joined this experiment on this device")
        self._around = around
        self._person = record.person
        self._dice = dice
        self.document = document
        self.ended = record.ending is not None
        #: The person has forgotten the experiment while something of it was under way.
        self.left = False
        self.rounds = {one.round_number: one for one in around.state.history(record.digest)}
        self._polling = Polling(document.windows, around.words)
        self._pending: list[Finished | tuple[int, Abstain]] = []
        self._dirty = False
        self._outbox: deque[Due] = deque()
        self._tick_at = self._compute_at = NEVER
        self._patience = _FIRST_PATIENCE_MS
        self._busy = False
        #: The round whose last moment has come.
        self._hurried = 0
        model = around.state.model(record.digest)
        if model is not None:
            around.shelf.hold(self, model.weights)
        self._start(record, now)

    def __repr__(self) -> str:
        return "Membership(...)"

    def _start(self, record: Record, now: int) -> None:
        parts = self._around.state.session_parts(record.digest)
        seal = self._around.seal
        if parts is None:
            self.session = ParticipantSession(self.document, seal=seal)
            self._poll_at = self._polling.first(now)
        else:
            self.session = ParticipantSession.from_parts(*parts, self.document, seal=seal)
            accepted = self.session.accepted
            self._poll_at = (
                self._polling.first(now) if accepted is None else self._polling.after(accepted.manifest, now)
            )
            self.tell(Restarted(), now)
        self.set_status(record.status, now)

    # ── what the host asks ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def wake_at(self) -> int:
        """When there is something to do next, if nothing happens before."""
        waiting = NEVER if self._busy or not self._asks else min(self._poll_at, self._compute_at)
        return min(self._tick_at, self._last_moment or NEVER, waiting)

    @property
    def _asks(self) -> bool:
        """Whether anything at all is fetched."""
        return not (self.left or self.ended or self.session.paused or self.session.phase is Phase.STOPPED)

    def tick(self, now: int) -> None:
        """Let the session see the time."""
        moment, accepted = self._last_moment, self.session.accepted
        if moment is not None and moment <= now and accepted is not None:
            self._hurried = self._round
            self.tell(Tick(), max(now, accepted.manifest.closes_at - 1))
        elif self._tick_at <= now:
            self.tell(Tick(), now)

    @property
    def has_due(self) -> bool:
        """Whether capsules are due that nobody has taken yet: after a restart there may be some at once."""
        return bool(self._outbox)

    @property
    def _last_moment(self) -> int | None:
        """When the last moment of the window begins, if packages wait for it and it has not begun yet."""
        accepted = self.session.accepted
        if accepted is None or self.session.phase is not Phase.SENDING or self._hurried == self._round:
            return None
        window = accepted.manifest.window
        length = window.closes_at - window.opens_at
        return None if self.session.paused else window.closes_at - min(_LAST_MOMENT_MS, length // _LAST_PART)

    def next_send(self, now: int) -> Due | None:
        """One of the capsules that are due."""
        if not self._outbox:
            return None
        due = self._outbox.popleft()
        return due if self.may_send(due, now) else self.next_send(now)

    def may_send(self, due: Due, now: int) -> bool:
        """Whether this capsule may still leave; one that may not goes back to the session."""
        accepted = self.session.accepted
        if self.left or self.session.phase is not Phase.SENDING or accepted is None:
            return False
        if now >= accepted.manifest.closes_at:
            return False
        if self.session.paused:
            self.tell(SendFailed(due.package_id), now)
            return False
        return True

    def wants_work(self, now: int) -> bool:
        """Whether ``work`` has something to fetch or compute."""
        return not self._busy and self._asks and min(self._poll_at, self._compute_at) <= now

    def begin_work(self) -> None:
        """Until ``work`` is done, it is not wanted again."""
        self._busy = True

    def sent(self, due: Due, result: SendResult, now: int) -> None:
        """What became of a capsule."""
        if result.acknowledged:
            self.tell(SendSucceeded(due.package_id), now)
        else:
            self.tell(SendFailed(due.package_id, result.retry_after_ms, result.final), now)

    def set_status(self, status: Status, now: int) -> None:
        """What the person has decided."""
        if status is Status.PAUSED and not self.session.paused:
            self.tell(Paused(), now)
        elif status is Status.JOINED and self.session.paused:
            self.tell(Resumed(), now)
            accepted = self.session.accepted
            # A round that runs is left to its end; else there may be something new.
            self._poll_at = (
                self._polling.after(accepted.manifest, now)
                if accepted is not None and self.session.phase is not Phase.IDLE
                else self._polling.first(now)
            )

    @property
    def abstains(self) -> bool:
        """Whether the newest round that it knows goes on without it."""
        return self.session.phase is Phase.IDLE and self._round > 0 and self._round not in self.rounds

    @property
    def unanswered(self) -> int:
        """So many askings for a manifest in a row that nobody answered."""
        return self._polling.unanswered if self._asks else 0

    def counts(self) -> Iterator[RoundCounts]:
        """What became of every round it joined, the running one included."""
        sending = self.session.phase is Phase.SENDING
        for number, one in self.rounds.items():
            if sending and number == self._round:
                progress = self.session.progress
                yield RoundCounts(number, progress.waiting, progress.acknowledged, progress.lost, done=False)
            else:
                yield RoundCounts(number, 0, one.acknowledged, one.lost, done=True)

    def leave(self) -> None:
        """The person has left: nothing more is asked, sent or written here."""
        self.left = True
        self._outbox.clear()
        self._tick_at = self._compute_at = NEVER

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
                self._pending.append((self._round, action))
        if not isinstance(event, Tick | SendSucceeded | SendFailed | Restarted):
            fresh = isinstance(event, PackagesReady) or self.session.phase is Phase.STOPPED
            with self._around.state.writing(durable=fresh):
                self.write()
        self._tick_at = NEVER
        for action in actions:
            match action:
                case SendPackage(package_id=package_id, capsule=capsule):
                    self._outbox.append(Due(package_id, capsule))
                case Compute():
                    self._compute_at, self._patience = now, _FIRST_PATIENCE_MS
                case Wait(until):
                    self._tick_at = until
                case _:
                    pass

    @property
    def unwritten(self) -> bool:
        """Whether ``write`` has something to do."""
        return self._dirty or bool(self._pending)

    def write(self) -> None:
        """Write what has changed, inside a transaction of the state."""
        digest, state = self.document.digest, self._around.state
        state.put_session(digest, self.session.take_changes())
        if self.session.phase is Phase.SENDING and self._round not in self.rounds:
            state.put_joined(digest, self._round, self.document.budget)
            self._count(self._round, 0, 0)
        for one in self._pending:
            if isinstance(one, Finished):
                state.put_finished(digest, one)
            else:
                state.put_abstention(digest, *one)
        self._pending.clear()
        self._dirty = False

    @property
    def _round(self) -> int:
        accepted = self.session.accepted
        return 0 if accepted is None else accepted.manifest.round_number

    def _count(self, round_number: int, acknowledged: int, lost: int) -> None:
        self.rounds[round_number] = RoundHistory(round_number, self.document.budget, acknowledged, lost)

    # ── fetching and computing ───────────────────────────────────────────────────────────────────────────────────────

    async def work(self, now: Now) -> None:
        """Compute the round's packages if they are wanted, else ask for a newer manifest."""
        try:
            if not self._asks:
                return
            if self._compute_at <= now():
                await self._compute(now)
            elif self._poll_at <= now():
                await self._poll(now)
        finally:
            self._busy = False

    async def _poll(self, now: Now) -> None:
        around, before = self._around, self.session.accepted
        path = f"/v1/experiment/{self.document.digest}"
        fetched = await around.transport.fetch(f"{path}/manifest/latest")
        around.traffic.add(OVERHEAD_BYTES if fetched is None else len(fetched.content) + OVERHEAD_BYTES, now())
        if not self._asks:
            return
        if fetched is not None:
            self.tell(ManifestArrived(fetched.content, fetched.server_time), now())
        accepted = self.session.accepted
        if accepted is not None and accepted is not before:
            self._poll_at = self._polling.after(accepted.manifest, now())
            return
        if fetched is None:
            self._poll_at = self._polling.failed(now())
            return
        self._poll_at = self._polling.again(now())
        if accepted is not None and now() >= accepted.manifest.accept_until:
            await self._ask_for_ending(path, now)

    async def _ask_for_ending(self, path: str, now: Now) -> None:
        around, digest = self._around, self.document.digest
        fetched = await around.transport.fetch(f"{path}/ending")
        around.traffic.add(OVERHEAD_BYTES if fetched is None else len(fetched.content) + OVERHEAD_BYTES, now())
        if fetched is None:
            return
        try:
            ending = accept_ending(fetched.content, document=self.document, last=self.session.accepted)
            weights = await around.shelf.weights(ending.evaluation_weights, self.document, around.transport)
        except SecVMError:
            # Not one to believe, or its weights are none: rounds may still come.
            return
        if weights is None or not self._asks:
            return
        self.ended = True
        around.shelf.hold(self, ending.evaluation_weights)
        with around.state.writing(durable=True):
            around.state.put_ending(digest, fetched.content)
            around.state.put_model(digest, Model(ending.round_number, ending.evaluation_weights))

    async def _compute(self, now: Now) -> None:
        accepted = self.session.accepted
        self._compute_at = NEVER
        if accepted is None or self.session.phase is not Phase.COMPUTING:
            return
        manifest, around, document = accepted.manifest, self._around, self.document
        why = self._why_not(manifest, now())
        if why is not None:
            self.tell(Declined(why), now())
            return
        try:
            training = await around.shelf.weights(manifest.training_weights, document, around.transport)
            evaluation = await around.shelf.weights(manifest.evaluation_weights, document, around.transport)
            if self.left or self.session.accepted is not accepted or self.session.phase is not Phase.COMPUTING:
                return
            if training is None or evaluation is None:
                self._compute_at = now() + below(self._patience, around.words)
                self._patience = min(2 * self._patience, _LONGEST_PATIENCE_MS)
                return
            around.traffic.add(4 * training.mantissas.size * 2 + 2 * OVERHEAD_BYTES, now())
            packages = contribute(
                self._person,
                experiment=document.experiment,
                training=training,
                evaluation=evaluation,
                dice=self._dice,
                round_number=manifest.round_number,
            )
            self._believe(Model(manifest.round_number, manifest.evaluation_weights))
            self.tell(PackagesReady(tuple(packages)), now())
        except SecVMError as fault:
            # Weights that are none, a gateway key that is none: nothing of the person is in these sentences.
            if self.session.phase is Phase.COMPUTING:
                self.tell(Declined(str(fault)), now())

    def _believe(self, model: Model) -> None:
        self._around.shelf.hold(self, model.weights)
        with self._around.state.writing(durable=False):
            self._around.state.put_model(self.document.digest, model)

    def _why_not(self, manifest: RoundManifest, now: int) -> str | None:
        """Why the device takes no part in a round that it could take part in."""
        if not opens_in_hours(self.document.windows, manifest.opens_at):
            return "the window opens outside the experiment's hours of the day"
        needed = self.document.budget * (CAPSULE_BYTES + OVERHEAD_BYTES)
        if not self._around.traffic.allows(needed, now):
            return "this round would go beyond the device's limit of traffic for a day"
        return None


def opens_in_hours(windows: Windows, opens_at: int) -> bool:
    """Whether a window may open at this instant, by the time zone database of this device."""
    if windows.hours == ((0, 24),):
        return True
    try:
        offset = datetime.fromtimestamp(opens_at / 1000, UTC).astimezone(ZoneInfo(windows.time_zone)).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OverflowError, OSError):
        return False
    return offset is not None and windows.open_at_hour(opens_at, offset_s=int(offset.total_seconds()))
