"""One experiment with two relays on one device: its turns, its requests and its askings, put together for the host.

It starts nothing by itself: the host asks when it is to be woken, carries out what is due, and comes back. Whatever is
told to the session is stored before it is acted upon (``turns``); a request is sealed and stored before its first byte
leaves (``preparation``); what is heard may make the device stop (``listener``).

No round is joined, and no request sent, while ``distrust`` says why. The person has to resume.
"""

from __future__ import annotations

from secvm.errors import LocalProtocolError
from secvm.learning.individual.dice import Dice
from secvm.participant.membership import Membership, RoundCounts
from secvm.participant.relayed.canaries import Canaries
from secvm.participant.relayed.distrust import RelayedDistrust
from secvm.participant.relayed.listener import RelayedListener
from secvm.participant.relayed.preparation import RequestPreparation
from secvm.participant.relayed.rounds import RelayedRounds
from secvm.participant.relayed.turns import RelayedTurns
from secvm.participant.sending.transport import OVERHEAD_BYTES
from secvm.participant.storage.state import ExperimentRecord, RoundHistory
from secvm.participant.trust.fresh_looks import FreshLooks
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.plain.session_events import Restarted
from secvm.protocol.relays.sending.session import NotTaken, RelayedSession, SendRequest, Stopped, Taken
from secvm.protocol.relays.sending.session_memory import RelayedPhase

#: Where an experiment takes nothing late, moments are spread over this.
_SHORTEST_MS = 1000


class RelayedMembership(Membership[SendRequest]):
    """A device's part in one experiment with two relays."""

    _turns: RelayedTurns
    _distrust: RelayedDistrust

    def __init__(
        self, around: Surroundings, record: ExperimentRecord, document: ExperimentDocument, dice: Dice, *, now: int
    ) -> None:
        if record.person is None:
            raise LocalProtocolError("nobody has joined this experiment on this device")
        self._rounds = rounds = RelayedRounds(around, document, record.envelope)
        around = rounds.around
        distrust = RelayedDistrust(around.state, document.digest)
        super().__init__(around, document, distrust)
        rounds.settle = distrust.settle
        #: Over so many milliseconds moments are spread that nobody shall know a device by.
        spread = 1000 * document.windows.grace_s or _SHORTEST_MS
        if rounds.log is not None:
            self._looking = FreshLooks(around, document.digest, rounds.log)
        self._turns = turns = RelayedTurns(around, document, self._looking)
        self._preparation: RequestPreparation = RequestPreparation(
            around, document, distrust, turns, rounds, person=record.person, dice=dice, spread_ms=spread
        )
        self._listener: RelayedListener = RelayedListener(
            turns,
            rounds,
            distrust,
            self._looking,
            polling=self._polling,
            canaries=Canaries(around, document, record.envelope, spread_ms=spread),
            ended=record.ending is not None,
        )
        self._start(record, now)

    def _start(self, record: ExperimentRecord, now: int) -> None:
        super()._start(record, now)
        if self._turns.known:
            self._turns.tell(Restarted(), now)
            if self._turns.round_number in self.rounds:
                self._look_again(now)
        self._distrust.count_unopened()
        self._listener.plan_canaries(now)
        self.set_status(record.status, now)
        self._listener.check_looks(now)
        if self.distrust is not None and not self._idle:
            # It was killed after it had stored why, and before it had given the round up.
            self._turns.tell(Stopped(self.distrust), now)

    @property
    def session(self) -> RelayedSession:
        """That decides."""
        return self._turns.session

    @property
    def canaries(self) -> int:
        return self._around.state.relayed.count_canaries(self.document.digest)

    @property
    def _idle(self) -> bool:
        return self.session.phase is RelayedPhase.IDLE

    def _running(self, row: RoundHistory) -> RoundCounts:
        return RoundCounts(row.round_number, self.document.budget, row.acknowledged, row.lost, done=False)

    async def send(self, due: SendRequest, now: Now) -> None:
        manifest, tell = self._turns.manifest, self._turns.tell
        if self._turns.left or manifest is None or not self._turns.sending or manifest.label != due.label:
            return
        if self.session.paused or now() >= manifest.instants.accept_until:
            tell(NotTaken(), now())
            return
        self._around.traffic.add(len(due.body) + OVERHEAD_BYTES, now())
        result = await self._around.transport.submit(
            due.body, due.label, self.document.entry_relay, anonymous=self._preparation.anonymous
        )
        if result.receipt is None:
            tell(NotTaken(result.retry_after_ms, result.final), now())
        else:
            tell(Taken(result.receipt), now())
