"""One experiment on one device: the session, and all it needs from outside, turn by turn.

The session decides; this owns its storing, its askings for manifests, its computing, and the capsules that are due. It
starts nothing by itself: ``due`` gives the jobs of this moment, and whoever carries one out comes back with what became
of it. Order of every turn: tell the session, store, then act (see ``state`` for what is synced to the disk).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from secvm.errors import CheatingError, LocalProtocolError, OverLimitError, RemoteProtocolError, SecVMError
from secvm.learning.individual.contribution import contribute
from secvm.learning.individual.dice import Dice
from secvm.participant.declining import agree
from secvm.participant.evidence import as_file
from secvm.participant.ledger import enter
from secvm.participant.polling import Polling
from secvm.participant.rounds import News, RoundCounts, Rounds, UnloggedRounds
from secvm.participant.state import Model, Record, RoundHistory, Status
from secvm.participant.surroundings import Now, Surroundings
from secvm.participant.token_asking import TokenAsking
from secvm.participant.transport import SendResult
from secvm.participant.trusting import LoggedRounds
from secvm.participant.watching import Watching
from secvm.protocol.ending import Ending
from secvm.protocol.events import (
    Abstain,
    Compute,
    Declined,
    Distrusted,
    Event,
    Finished,
    ManifestArrived,
    PackagesReady,
    Paused,
    Reason,
    Restarted,
    Resumed,
    SendFailed,
    SendPackage,
    SendSucceeded,
    Tick,
    Wait,
)
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.protocol.schedule import below
from secvm.protocol.session import ParticipantSession, Phase
from secvm.protocol.session_memory import NEVER

#: A timer is never exact, and nothing may leave after the window. So what is due in the last moment of a window is sent
#: at the beginning of that moment: a tenth of a second, or a two-hundredth of a short window.
_LAST_MOMENT_MS = 100
_LAST_PART = 200
#: Weights that could not be had are asked for again within this time, doubled each time.
_FIRST_PATIENCE_MS = 2000
_LONGEST_PATIENCE_MS = 60_000
_UNBELIEVED = "the round that had begun was never held to the experiment's log"


@dataclass(frozen=True, slots=True)
class Due:
    """A capsule that is to be sent now."""

    package_id: int
    capsule: bytes = field(repr=False)


class Membership:
    """A device's part in one experiment."""

    def __init__(
        self, around: Surroundings, record: Record, document: ExperimentDocument, dice: Dice, *, now: int
    ) -> None:
        if record.person is None:
            raise LocalProtocolError("nobody has joined this experiment on this device")
        self._around = around
        self._person, self._envelope = record.person, record.envelope
        self._dice = dice
        self.document = document
        self.ended = record.ending is not None
        #: The person has forgotten the experiment while something of it was under way.
        self.left = False
        self.rounds = {one.round_number: one for one in around.state.history(record.digest)}
        self._polling = Polling(document.windows, around.words)
        self._rounds: Rounds
        self._watching: Watching | None = None
        if document.log is None:
            self._rounds = UnloggedRounds(around, document)
        else:
            self._rounds = logged = LoggedRounds(around, document, record.envelope)
            self._watching = Watching(around, document, logged)
        self._asking = None if document.tokens is None else TokenAsking(around, document, document.tokens)
        self._pending: list[Finished | tuple[int, Abstain]] = []
        #: What was last noted about a server that could not be believed: once is enough.
        self._noted: tuple[int, Abstain] | None = None
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
            if self._watching is not None and accepted is not None and not self._watching.believes(accepted.manifest):
                self._stop_unbelieved(now)
            elif self._watching is not None and accepted is not None and self._round in self.rounds:
                self._watching.joined(accepted.manifest, now)
        if self._watching is not None:
            self._watching.believed(now)
        self.set_status(record.status, now)

    def _stop_unbelieved(self, now: int) -> None:
        """What a version that knew of no log has begun is not gone on with: nobody has checked it."""
        if self.session.phase in (Phase.COMPUTING, Phase.SENDING):
            self.tell(Distrusted(_UNBELIEVED), now)
        self._outbox.clear()

    # ── what the host asks ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def wake_at(self) -> int:
        """When there is something to do next, if nothing happens before."""
        return min(self._tick_at, self._last_moment or NEVER, NEVER if self._busy else self._work_at)

    @property
    def _work_at(self) -> int:
        """When something is to be fetched or computed next."""
        if self.left or self.session.paused or self.session.phase is Phase.STOPPED:
            return NEVER
        rounds = NEVER if self.ended else min(self._poll_at, self._compute_at)
        watching = self._watching
        # An experiment that is over still owes receipts.
        return rounds if watching is None else min(rounds, watching.refetch_at(), watching.receipt_at())

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
        return not self._busy and self._work_at <= now

    def begin_work(self) -> None:
        """Until ``work`` is done, it is not wanted again."""
        self._busy = True

    def sent(self, due: Due, result: SendResult, now: int) -> None:
        """What became of a capsule."""
        if result.acknowledged:
            accepted = self.session.accepted
            # What is acknowledged later may have come too late to be counted.
            if self._watching is not None and accepted is not None and now < accepted.manifest.accept_until:
                self._watching.acknowledged(due.capsule)
            self.tell(SendSucceeded(due.package_id), now)
        else:
            self.tell(SendFailed(due.package_id, result.retry_after_ms, result.final), now)

    def set_status(self, status: Status, now: int) -> None:
        """What the person has decided."""
        if self._watching is not None:
            self._watching.reread()
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
    def distrusts(self) -> bool:
        """Whether it takes no part because of what it has seen of the server."""
        missing = self._watching is not None and self._watching.distrust is not None
        return missing or self.session.phase is Phase.STOPPED

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
                self._pending.append((self._round, as_file(action, self._envelope)))
        if not isinstance(event, Tick | SendSucceeded | SendFailed | Restarted):
            fresh = isinstance(event, PackagesReady) or self.session.phase is Phase.STOPPED
            with self._around.state.writing(durable=fresh):
                self.write()
        self._tick_at = NEVER
        for action in actions:
            match action:
                case SendPackage(package_id=package_id, capsule=capsule):
                    self._outbox.append(Due(package_id, capsule))
                case Compute(manifest):
                    self._compute_at = now if self._asking is None else self._asking.when(manifest, now)
                    self._patience = _FIRST_PATIENCE_MS
                case Wait(until):
                    self._tick_at = until
                case _:
                    pass

    @property
    def unwritten(self) -> bool:
        """Whether ``write`` has something to do."""
        return self._dirty or bool(self._pending) or (self._watching is not None and self._watching.unwritten)

    def write(self) -> None:
        """Write what has changed, inside a transaction of the state."""
        digest, state, changes = self.document.digest, self._around.state, self.session.take_changes()
        state.put_session(digest, changes)
        if self.session.phase is Phase.SENDING and self._round not in self.rounds:
            state.put_joined(digest, self._round, self.document.budget)
            self._count(self._round, 0, 0)
            state.tokens.drop(digest)
            if self._watching is not None:
                self._watching.choose(self._round, changes.put)
        if self._watching is not None:
            self._watching.write()
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
        """Compute the round's packages if they are wanted, look after the server, or ask for a newer manifest."""
        try:
            watching, moment = self._watching, now()
            if self._work_at > moment:
                return
            if not self.ended and self._compute_at <= moment:
                await self._compute(now)
            elif watching is not None and watching.refetch_at() <= moment:
                self._take(await watching.refetch(now), now())
            elif watching is not None and watching.receipt_at() <= moment:
                self._take(await watching.look_for_capsule(now), now())
            else:
                await self._poll(now)
        finally:
            self._busy = False

    def _take(self, seen: Distrusted | Abstain | None, now: int) -> None:
        """What the watch has come to."""
        if isinstance(seen, Distrusted):
            self.tell(seen, now)
        elif seen is not None:
            self._note(seen)

    def _note(self, abstain: Abstain) -> None:
        """Keep why, once."""
        noted = (self._round, abstain)
        if self._noted != noted and not self.left:
            self._noted = noted
            self._pending.append(noted)

    async def _poll(self, now: Now) -> None:
        before = self.session.accepted
        try:
            news = await self._rounds.ask(now)
        except CheatingError as fault:
            self.tell(Distrusted(str(fault), fault.evidence), now())
            return
        except (RemoteProtocolError, OverLimitError) as fault:
            # Nothing has changed: it is asked again, and no round is joined meanwhile.
            ours = isinstance(fault, OverLimitError)
            self._note(Abstain(Reason.DECLINED if ours else Reason.BAD_MANIFEST, str(fault)))
            self._poll_at = self._polling.again(now())
            return
        if not self._asks:
            # Whoever is paused meanwhile has heard the ending all the same: it is believed once, and not a second time.
            if news is not None and news.ending is not None and not self.left:
                self._end(news.ending)
            return
        if news is None:
            self._poll_at = self._polling.failed(now())
            return
        if news.manifest is not None:
            self.tell(ManifestArrived(news.manifest, news.server_time), now())
        if self._watching is not None:
            self._watching.believed(now())
        await self._go_on(news, before is not self.session.accepted, now)

    async def _go_on(self, news: News, new: bool, now: Now) -> None:
        """After an asking that was answered: when the next is, and whether it is the last."""
        accepted, ending = self.session.accepted, news.ending
        if new and accepted is not None and ending is None:
            self._poll_at = self._polling.after(accepted.manifest, now())
            return
        self._poll_at = self._polling.again(now())
        if ending is None and accepted is not None and now() >= accepted.manifest.accept_until:
            ending = await self._rounds.ask_for_ending(accepted, now)
        if ending is not None:
            self._end(ending)

    def _end(self, ending: Ending) -> None:
        self.ended = True
        self._around.shelf.hold(self, ending.evaluation_weights)

    async def _compute(self, now: Now) -> None:
        accepted = self.session.accepted
        self._compute_at = NEVER
        if accepted is None or self.session.phase is not Phase.COMPUTING:
            return
        manifest, around, document = accepted.manifest, self._around, self.document
        if self._watching is not None and self._watching.distrust is not None:
            self.tell(Distrusted(self._watching.distrust), now())
            return
        try:
            await agree(around, document, manifest, now)
            weights = await self._rounds.weights(manifest, now)
            why = None if weights is None else next(filter(None, map(around.policy.caps.refuses, weights)), None)
            tokens: tuple[bytes, ...] | None = ()
            if self._asking is not None and weights is not None and why is None:
                tokens = await self._asking.ask(manifest, now)
            if self.left or self.session.accepted is not accepted or self.session.phase is not Phase.COMPUTING:
                return
            if why is not None:
                self.tell(Declined(why), now())
                return
            if weights is None or tokens is None:
                self._compute_at = now() + below(self._patience, around.words)
                self._patience = min(2 * self._patience, _LONGEST_PATIENCE_MS)
                return
            training, evaluation = weights
            # From here on it counts: nothing of the round exists before.
            enter(around.state, document, manifest.round_number, around.consent)
            packages = contribute(
                self._person,
                experiment=document.experiment,
                training=training,
                evaluation=evaluation,
                dice=self._dice,
                round_number=manifest.round_number,
            )
            self._believe(Model(manifest.round_number, manifest.evaluation_weights))
            self.tell(PackagesReady(tuple(packages), tokens), now())
            if self._watching is not None:
                self._watching.joined(manifest, now())
        except SecVMError as fault:
            # Weights that are none, a gateway key that is none: nothing of the person is in these sentences.
            if self.session.phase is Phase.COMPUTING:
                self.tell(Declined(str(fault)), now())

    def _believe(self, model: Model) -> None:
        self._around.shelf.hold(self, model.weights)
        with self._around.state.writing(durable=False):
            self._around.state.put_model(self.document.digest, model)
