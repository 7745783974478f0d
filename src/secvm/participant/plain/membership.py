"""One plain experiment on one device: its turns, its packages and its askings, put together for the host.

It starts nothing by itself: the host asks when it is to be woken, carries out what is due, and comes back with what
became of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from secvm.errors import LocalProtocolError
from secvm.learning.individual.dice import Dice
from secvm.participant.plain.hearing import Hearing
from secvm.participant.plain.preparing import Preparing
from secvm.participant.plain.rounds import LoggedRounds, RoundCounts, Rounds, UnloggedRounds
from secvm.participant.plain.turns import Due, Turns
from secvm.participant.plain.watching import Watching
from secvm.participant.sending.transport import SendResult
from secvm.participant.storage.state import Record, RoundHistory, Status
from secvm.participant.trust.polling import Polling
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.plain.session import ParticipantSession, Phase
from secvm.protocol.plain.session_events import Distrusted, Paused, Restarted, Resumed, SendFailed, SendSucceeded
from secvm.protocol.plain.session_memory import NEVER

_UNBELIEVED = "the round that had begun was never held to the experiment's log"


class Membership:
    """A device's part in one experiment."""

    def __init__(
        self, around: Surroundings, record: Record, document: ExperimentDocument, dice: Dice, *, now: int
    ) -> None:
        if record.person is None:
            raise LocalProtocolError("nobody has joined this experiment on this device")
        self._around, self.document = around, document
        self._polling = Polling(document.windows, around.words)
        self._rounds: Rounds
        self._watching: Watching | None = None
        if document.log is None:
            self._rounds = UnloggedRounds(around, document)
        else:
            self._rounds = logged = LoggedRounds(around, document, record.envelope)
            self._watching = Watching(around, document, logged)
        self._turns = Turns(around, document, record.envelope, self._watching)
        self._preparing = Preparing(
            around, document, self._turns, self._rounds, self._watching, person=record.person, dice=dice
        )
        self._turns.compute = self._preparing.plan
        self._hearing = Hearing(
            self._turns, self._rounds, self._watching, polling=self._polling, ended=record.ending is not None
        )
        self._busy = False
        model = around.state.model(record.digest)
        if model is not None:
            self._turns.hold(model.weights)
        self._start(record, now)

    def __repr__(self) -> str:
        return "Membership(...)"

    def _start(self, record: Record, now: int) -> None:
        self._hearing.begin(now)
        accepted, watching = self.session.accepted, self._watching
        if self._turns.known:
            self._turns.tell(Restarted(), now)
            if watching is not None and accepted is not None and not watching.believes(accepted.manifest):
                self._stop_unbelieved(now)
            elif watching is not None and accepted is not None and self._turns.round_number in self.rounds:
                watching.joined(accepted.manifest, now)
        if watching is not None:
            watching.believed()
        self.set_status(record.status, now)

    def _stop_unbelieved(self, now: int) -> None:
        """What a version that knew of no log has begun is not gone on with: nobody has checked it."""
        if self.session.phase in (Phase.COMPUTING, Phase.SENDING):
            self._turns.tell(Distrusted(_UNBELIEVED), now)
        self._turns.outbox.clear()

    # ── what is known ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def session(self) -> ParticipantSession:
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
    def distrusts(self) -> bool:
        """Whether it takes no part because of what it has seen of the server."""
        unseen = self._watching is not None and self._watching.distrust is not None
        return unseen or self.session.phase is Phase.STOPPED

    @property
    def unanswered(self) -> int:
        """So many askings for a manifest in a row that nobody answered."""
        return self._polling.unanswered if self._hearing.asks else 0

    def counts(self) -> Iterator[RoundCounts]:
        """What became of every round it joined, the running one included."""
        sending = self.session.phase is Phase.SENDING
        for number, one in self.rounds.items():
            if sending and number == self._turns.round_number:
                progress = self.session.progress
                yield RoundCounts(number, progress.waiting, progress.acknowledged, progress.lost, done=False)
            else:
                yield RoundCounts(number, 0, one.acknowledged, one.lost, done=True)

    # ── what the host asks ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def wake_at(self) -> int:
        """When there is something to do next, if nothing happens before."""
        return min(self._turns.at, NEVER if self._busy else self._work_at)

    @property
    def _work_at(self) -> int:
        """When something is to be fetched or computed next."""
        if self._turns.left or self.session.paused or self.session.phase is Phase.STOPPED:
            return NEVER
        return min(NEVER if self.ended else self._preparing.at, self._hearing.at)

    def tick(self, now: int) -> None:
        """Let the session see the time."""
        self._turns.tick(now)

    @property
    def has_due(self) -> bool:
        """Whether capsules are due that nobody has taken yet: after a restart there may be some at once."""
        return bool(self._turns.outbox)

    def next_send(self, now: int) -> Due | None:
        """One of the capsules that are due."""
        if not self._turns.outbox:
            return None
        due = self._turns.outbox.popleft()
        return due if self.may_send(due, now) else self.next_send(now)

    def may_send(self, due: Due, now: int) -> bool:
        """Whether this capsule may still leave; one that may not goes back to the session."""
        accepted = self.session.accepted
        if self._turns.left or self.session.phase is not Phase.SENDING or accepted is None:
            return False
        if now >= accepted.manifest.closes_at:
            return False
        if self.session.paused:
            self._turns.tell(SendFailed(due.package_id), now)
            return False
        return True

    def sent(self, due: Due, result: SendResult, now: int) -> None:
        """What became of a capsule."""
        if result.acknowledged:
            self._turns.tell(SendSucceeded(due.package_id), now)
        else:
            self._turns.tell(SendFailed(due.package_id, result.retry_after_ms, result.final), now)

    def wants_work(self, now: int) -> bool:
        """Whether ``work`` has something to fetch or compute."""
        return not self._busy and self._work_at <= now

    def begin_work(self) -> None:
        """Until ``work`` is done, it is not wanted again."""
        self._busy = True

    async def work(self, now: Now) -> None:
        """Compute the round's packages if they are wanted, or ask for what is due."""
        try:
            moment = now()
            if self._work_at > moment:
                return
            if self.ended or self._preparing.at > moment:
                await self._hearing.ask(now)
            else:
                await self._preparing.prepare(now)
        finally:
            self._busy = False

    def set_status(self, status: Status, now: int) -> None:
        """What the person has decided."""
        if self._watching is not None:
            self._watching.reread()
        if status is Status.PAUSED and not self.session.paused:
            self._turns.tell(Paused(), now)
        elif status is Status.JOINED and self.session.paused:
            self._turns.tell(Resumed(), now)
            # A round that runs is left to its end; else there may be something new.
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
        self._around.believed.pop(self.document.digest, None)
