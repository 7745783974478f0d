"""One plain experiment on one device: its turns, its packages and its askings, put together for the host.

It asks for newer manifests, and while a window is open it looks at the log again. Too many rounds in a row in which
nobody answered a look are remembered, and until the person resumes the device joins no further round.
"""

from __future__ import annotations

from secvm.errors import CheatingError, LocalProtocolError, OverLimitError, RemoteProtocolError
from secvm.learning.individual.dice import Dice
from secvm.participant.membership import Distrust, Membership, RoundCounts, RoundListener
from secvm.participant.plain.preparation import PlainPreparation
from secvm.participant.plain.rounds import LoggedRounds, RoundNews, Rounds, UnloggedRounds
from secvm.participant.plain.turns import PlainTurns
from secvm.participant.sending.transport import OVERHEAD_BYTES, relay_for
from secvm.participant.storage.state import ExperimentRecord, RoundHistory
from secvm.participant.trust.fresh_looks import FreshLooks
from secvm.participant.trust.polling import Polling
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.documents.ending import Ending
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.plain.session import ParticipantSession, Phase
from secvm.protocol.plain.session_events import (
    Abstain,
    Distrusted,
    ManifestArrived,
    Reason,
    Restarted,
    SendFailed,
    SendPackage,
    SendSucceeded,
)
from secvm.protocol.plain.session_memory import NEVER

_UNBELIEVED = "the round that had begun was never held to the experiment's log"


class PlainListener(RoundListener):
    """The askings of one plain experiment: for manifests, and for the log while a window is open."""

    _turns: PlainTurns

    def __init__(
        self,
        turns: PlainTurns,
        rounds: Rounds,
        distrust: Distrust,
        looking: FreshLooks | None,
        *,
        polling: Polling,
        ended: bool,
    ) -> None:
        super().__init__(turns, polling, ended=ended)
        self._rounds, self._distrust, self._looking = rounds, distrust, looking

    @property
    def _asks(self) -> bool:
        """Whether anything at all is fetched."""
        session = self._turns.session
        return not (self._turns.left or self.ended or session.paused or session.phase is Phase.STOPPED)

    @property
    def at(self) -> int:
        return min(NEVER if self.ended else self._poll_at, self._look_at)

    @property
    def _look_at(self) -> int:
        return NEVER if self._looking is None else self._looking.at

    def _next_manifest_at(self) -> int:
        manifest = self._turns.manifest
        return 0 if manifest is None else manifest.accept_until

    async def ask(self, now: Now) -> None:
        if self._looking is None or self._look_at > now():
            await self._poll(now)
            return
        seen = await self._looking.look(now)
        self.check_looks()
        if isinstance(seen, Distrusted):
            self._turns.tell(seen, now())
        elif seen is not None:
            self._turns.note(seen)

    def check_looks(self) -> None:
        """Take no part from now on, where too many rounds in a row were without an answered look."""
        why = None if self._looking is None else self._looking.too_many_unseen()
        if self._distrust.why is None and why is not None:
            self._distrust.put(why)

    async def _poll(self, now: Now) -> None:
        before = self._turns.session.accepted
        try:
            news = await self._rounds.ask(now)
        except CheatingError as fault:
            self._turns.tell(Distrusted(str(fault), fault.evidence), now())
            return
        except (RemoteProtocolError, OverLimitError) as fault:
            # Nothing has changed: it is asked again, and no round is joined meanwhile.
            ours = isinstance(fault, OverLimitError)
            self._turns.note(Abstain(Reason.DECLINED if ours else Reason.BAD_MANIFEST, str(fault)))
            self._poll_at = self._polling.again(now())
            return
        if not self._asks:
            # Whoever is paused meanwhile has heard the ending all the same: it is believed once, and not a second time.
            if news is not None and news.ending is not None and not self._turns.left:
                self._end(news.ending)
            return
        if news is None:
            self._poll_at = self._polling.failed(now())
            return
        if news.manifest is not None:
            self._turns.tell(ManifestArrived(news.manifest, news.ahead), now())
        self.check_looks()
        await self._go_on(news, before is not self._turns.session.accepted, now)

    async def _go_on(self, news: RoundNews, new: bool, now: Now) -> None:
        """After an asking that was answered: when the next is, and whether it is the last."""
        accepted, ending = self._turns.session.accepted, news.ending
        if new and accepted is not None and ending is None:
            self.begin(now())
            return
        self._poll_at = self._polling.again(now())
        if ending is None and accepted is not None and now() >= accepted.manifest.accept_until:
            ending = await self._rounds.ask_for_ending(accepted, now)
        if ending is not None:
            self._end(ending)

    def _end(self, ending: Ending) -> None:
        self.ended = True
        self._turns.hold(ending.evaluation_weights)


class PlainMembership(Membership[SendPackage]):
    """A device's part in one plain experiment."""

    _turns: PlainTurns

    def __init__(
        self, around: Surroundings, record: ExperimentRecord, document: ExperimentDocument, dice: Dice, *, now: int
    ) -> None:
        if record.person is None:
            raise LocalProtocolError("nobody has joined this experiment on this device")
        super().__init__(around, document, Distrust(around.state, document.digest))
        self._rounds: Rounds
        if document.log is None:
            self._rounds = UnloggedRounds(around, document)
        else:
            self._rounds = logged = LoggedRounds(around, document, record.envelope)
            self._looking = FreshLooks(around, document.digest, logged.trusted)
        self._turns = turns = PlainTurns(around, document, record.envelope, self._looking)
        self._preparation = PlainPreparation(
            around, document, self._distrust, turns, self._rounds, person=record.person, dice=dice
        )
        self._listener: PlainListener = PlainListener(
            turns,
            self._rounds,
            self._distrust,
            self._looking,
            polling=self._polling,
            ended=record.ending is not None,
        )
        self._start(record, now)

    def _start(self, record: ExperimentRecord, now: int) -> None:
        super()._start(record, now)
        manifest = self._turns.manifest
        if self._turns.known:
            self._turns.tell(Restarted(), now)
            if isinstance(self._rounds, LoggedRounds) and manifest is not None:
                if not self._rounds.believes(manifest):
                    self._stop_unbelieved(now)
                elif manifest.round_number in self.rounds:
                    self._look_again(now)
        self._listener.check_looks()
        self.set_status(record.status, now)

    def _stop_unbelieved(self, now: int) -> None:
        """What a version that knew of no log has begun is not gone on with: nobody has checked it."""
        if self.session.phase in (Phase.COMPUTING, Phase.SENDING):
            self._turns.tell(Distrusted(_UNBELIEVED), now)
        self._turns.outbox.clear()

    @property
    def session(self) -> ParticipantSession:
        """That decides."""
        return self._turns.session

    @property
    def distrusts(self) -> bool:
        return self.distrust is not None or self.session.phase is Phase.STOPPED

    @property
    def _idle(self) -> bool:
        return self.session.phase is Phase.IDLE

    @property
    def _stands_still(self) -> bool:
        return super()._stands_still or self.session.phase is Phase.STOPPED

    def _running(self, row: RoundHistory) -> RoundCounts:
        progress = self.session.progress
        return RoundCounts(row.round_number, progress.waiting, progress.acknowledged, progress.lost, done=False)

    def next_due(self, now: int) -> SendPackage | None:
        while (due := super().next_due(now)) is not None and not self._may_send(due, now):
            pass
        return due

    def _may_send(self, due: SendPackage, now: int) -> bool:
        """Whether this capsule may still leave; one that may not goes back to the session."""
        manifest = self._turns.manifest
        if self._turns.left or not self._turns.sending or manifest is None or now >= manifest.closes_at:
            return False
        if self.session.paused:
            self._turns.tell(SendFailed(due.package_id), now)
            return False
        return True

    async def send(self, due: SendPackage, now: Now) -> None:
        if not self._may_send(due, now()):
            return
        self._around.traffic.add(len(due.capsule) + OVERHEAD_BYTES, now())
        result = await self._around.transport.send(due.capsule, relay_for(due.capsule, self.document.relays))
        if result.acknowledged:
            self._turns.tell(SendSucceeded(due.package_id), now())
        else:
            self._turns.tell(SendFailed(due.package_id, result.retry_after_ms, result.final), now())

    def leave(self) -> None:
        super().leave()
        self._around.believed.pop(self.document.digest, None)
