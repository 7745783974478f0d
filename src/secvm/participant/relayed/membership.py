"""One experiment with two relays on one device: its turns, its requests and its askings, put together for the host.

It starts nothing by itself: the host asks when it is to be woken, carries out what is due, and comes back. Whatever is
told to the session is stored before it is acted upon (``turns``); a request is sealed and stored before its first byte
leaves (``preparing``); what is heard may make the device stop (``hearing``).

No round is joined, and no request sent, while ``distrust`` says why (``stopping``). The person has to resume.
"""

from __future__ import annotations

from collections.abc import Iterator

from secvm.errors import LocalProtocolError
from secvm.learning.individual.dice import Dice
from secvm.participant.plain.rounds import RoundCounts
from secvm.participant.relayed.canaries import Canaries
from secvm.participant.relayed.distrust import Stopping
from secvm.participant.relayed.hearing import Hearing
from secvm.participant.relayed.preparing import Preparing
from secvm.participant.relayed.rounds import RelayedRounds
from secvm.participant.relayed.turns import Turns
from secvm.participant.sending.transport import OVERHEAD_BYTES
from secvm.participant.storage.state import Record, RoundHistory, Status
from secvm.participant.trust.fresh_looks import Looking
from secvm.participant.trust.polling import Polling
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.plain.session_events import Paused, Restarted, Resumed
from secvm.protocol.plain.session_memory import NEVER
from secvm.protocol.relays.sending.session import RelayedSession
from secvm.protocol.relays.sending.session_events import NotTaken, SendRequest, Stopped, Taken
from secvm.protocol.relays.sending.session_memory import Phase

#: Where an experiment takes nothing late, moments are spread over this.
_SHORTEST_MS = 1000


class RelayedMembership:
    """A device's part in one experiment with two relays."""

    def __init__(
        self, around: Surroundings, record: Record, document: ExperimentDocument, dice: Dice, *, now: int
    ) -> None:
        if record.person is None:
            raise LocalProtocolError("nobody has joined this experiment on this device")
        self._rounds = RelayedRounds(around, document, record.envelope)
        self._around = around = self._rounds.around
        self.document = document
        self._stopping = Stopping(around, document)
        self._rounds.settle = self._stopping.settle
        #: Over so many milliseconds moments are spread that nobody shall know a device by.
        spread = 1000 * document.windows.grace_s or _SHORTEST_MS
        log = self._rounds.log
        self._looking = None if log is None else Looking(around, document.digest, log)
        self._polling = Polling(document.windows, around.words)
        self._turns = Turns(around, document, self._looking)
        self._preparing = Preparing(
            around,
            document,
            self._turns,
            self._rounds,
            self._stopping,
            person=record.person,
            dice=dice,
            spread_ms=spread,
        )
        self._turns.prepare = self._preparing.plan
        self._hearing = Hearing(
            self._turns,
            self._rounds,
            self._stopping,
            polling=self._polling,
            looking=self._looking,
            canaries=Canaries(around, document, record.envelope, spread_ms=spread),
            ended=record.ending is not None,
        )
        self._busy = False
        model = around.state.model(record.digest)
        if model is not None:
            self._turns.hold(model.weights)
        self._start(record, now)

    def __repr__(self) -> str:
        return "RelayedMembership(...)"

    def _start(self, record: Record, now: int) -> None:
        self._hearing.begin(now)
        if self._turns.known:
            self._turns.tell(Restarted(), now)
            if self._turns.round_number in self.rounds:
                self._hearing.look_again(now)
        self._stopping.count_unopened()
        self._hearing.plan_canaries(now)
        self.set_status(record.status, now)
        self._hearing.check_looks(now)
        if self.distrust is not None and self.session.phase is not Phase.IDLE:
            # It was killed after it had stored why, and before it had given the round up.
            self._turns.tell(Stopped(self.distrust), now)

    # ── what is known ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def session(self) -> RelayedSession:
        """That decides."""
        return self._turns.session

    @property
    def rounds(self) -> dict[int, RoundHistory]:
        """What became of every round that was joined."""
        return self._turns.rounds

    @property
    def ended(self) -> bool:
        """Whether the experiment is over."""
        return self._hearing.ended

    @property
    def abstains(self) -> bool:
        """Whether the newest round that it knows goes on without it."""
        newest = self._turns.round_number
        return self.session.phase is Phase.IDLE and newest > 0 and newest not in self.rounds

    @property
    def distrust(self) -> str | None:
        """Why no round is joined for now."""
        return self._stopping.distrust

    @property
    def distrusts(self) -> bool:
        """Whether it takes no part because of what it has seen."""
        return self.distrust is not None

    @property
    def unanswered(self) -> int:
        """So many askings for a manifest in a row that nobody answered."""
        return 0 if self._turns.left or self.ended or self.session.paused else self._polling.unanswered

    @property
    def canaries(self) -> int:
        """So many are still to be looked for."""
        return self._around.state.relayed.count_canaries(self.document.digest)

    def counts(self) -> Iterator[RoundCounts]:
        """What became of every round it joined, the running one included."""
        sending = self.session.phase is Phase.SENDING
        for number, one in self.rounds.items():
            waits = sending and number == self._turns.round_number
            waiting = self.document.budget if waits else 0
            yield RoundCounts(number, waiting, one.acknowledged, one.lost, done=not waits)

    # ── what the host asks ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def wake_at(self) -> int:
        """When there is something to do next, if nothing happens before."""
        return min(self._turns.at, NEVER if self._busy else self._work_at)

    @property
    def _work_at(self) -> int:
        if self._turns.left or self.session.paused:
            return NEVER
        return min(NEVER if self.ended else self._preparing.at, self._hearing.at)

    def tick(self, now: int) -> None:
        """Let the session see the time."""
        self._turns.tick(now)

    @property
    def has_due(self) -> bool:
        """Whether a request is due that nobody has taken yet."""
        return bool(self._turns.outbox)

    def next_send(self) -> SendRequest | None:
        """The request that is due."""
        return self._turns.outbox.popleft() if self._turns.outbox else None

    async def send(self, due: SendRequest, now: Now) -> None:
        """Send a request, and tell the session what became of it."""
        manifest, tell = self.session.manifest, self._turns.tell
        sending = self.session.phase is Phase.SENDING and manifest is not None and manifest.label == due.label
        if self._turns.left or manifest is None or not sending:
            return
        if self.session.paused or now() >= manifest.instants.accept_until:
            tell(NotTaken(), now())
            return
        self._around.traffic.add(len(due.body) + OVERHEAD_BYTES, now())
        result = await self._around.transport.submit(
            due.body, due.label, self.document.entry_relay, anonymous=self._preparing.anonymous
        )
        if result.receipt is None:
            tell(NotTaken(result.retry_after_ms, result.final), now())
        else:
            tell(Taken(result.receipt), now())

    def wants_work(self, now: int) -> bool:
        """Whether ``work`` has something to fetch or compute."""
        return not self._busy and self._work_at <= now

    def begin_work(self) -> None:
        """Until ``work`` is done, it is not wanted again."""
        self._busy = True

    async def work(self, now: Now) -> None:
        """Seal the round's request if it is wanted, or ask for what is due."""
        try:
            moment = now()
            if self._work_at > moment:
                return
            if self.ended or self._preparing.at > moment:
                await self._hearing.ask(now)
            elif await self._preparing.prepare(now):
                self._hearing.look_again(now())
        finally:
            self._busy = False

    def set_status(self, status: Status, now: int) -> None:
        """What the person has decided."""
        self._stopping.reread()
        if self._looking is not None:
            self._looking.reread()
        if status is Status.PAUSED and not self.session.paused:
            self._turns.tell(Paused(), now)
        elif status is Status.JOINED and self.session.paused:
            self._turns.tell(Resumed(), now)
            if self.session.phase is Phase.IDLE:
                self._hearing.begin_at_once(now)
            else:
                self._hearing.begin(now)

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
