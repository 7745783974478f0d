"""One plain experiment on one device: its session, its packages and its askings, put together for the host.

It asks for newer manifests, and while a window is open it looks at the log again. Too many rounds in a row in which
nobody answered a look are remembered, and until the person resumes the device joins no further round. A round's
packages are computed once the person agrees and the weights are there; the round is in the ledger before anything of it
exists.
"""

from __future__ import annotations

from secvm.crypto.sealing.kem import public_key_bytes
from secvm.errors import ConsentRefusedError, SecVMError
from secvm.learning.individual.dice import Dice
from secvm.participant.membership import Membership, RoundCounts, RoundNews
from secvm.participant.plain.rounds import LoggedRounds, Rounds, UnloggedRounds
from secvm.participant.sending.transport import OVERHEAD_BYTES, relay_for
from secvm.participant.storage.state import ExperimentRecord, RoundHistory
from secvm.participant.trust.evidence import as_file
from secvm.participant.trust.fresh_looks import FreshLooks
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.participant.turns import Distrust
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.plain import session_events as events
from secvm.protocol.plain.session import ParticipantSession
from secvm.protocol.plain.session_memory import NEVER, Phase
from secvm.protocol.schedule import below

#: Weights that could not be had are asked for again within this time, doubled each time.
_FIRST_PATIENCE_MS = 2000
_LONGEST_PATIENCE_MS = 60_000
_UNBELIEVED = "the round that had begun was never held to the experiment's log"


class PlainMembership(Membership[events.SendPackage]):
    """A device's part in one plain experiment."""

    session: ParticipantSession
    _rounds: Rounds
    _patience = _FIRST_PATIENCE_MS

    def __init__(
        self, around: Surroundings, record: ExperimentRecord, document: ExperimentDocument, dice: Dice, *, now: int
    ) -> None:
        parts, seal = around.state.session_parts(document.digest), around.seal
        if parts is None:
            self.session = ParticipantSession(document, seal=seal)
        else:
            self.session = ParticipantSession.from_parts(*parts, document, seal=seal)
        #: For evidence.
        self._envelope = record.envelope
        super().__init__(around, record, document, dice, Distrust(around.state, document.digest), now=now)
        if document.log is None:
            self._rounds = UnloggedRounds(around, document)
        else:
            self._rounds = logged = LoggedRounds(around, document, record.envelope)
            self._looking = FreshLooks(around, document.digest, logged.trusted.log)
        if parts is not None:
            self._go_on(now)
        self._check_looks(now)
        self.set_status(record.status, now)

    def _go_on(self, now: int) -> None:
        """Take up where the process before this one has stopped."""
        self.tell(events.Restarted(), now)
        manifest = self.manifest
        if isinstance(self._rounds, LoggedRounds) and manifest is not None:
            if not self._rounds.believes(manifest):
                self._stop_unbelieved(now)
            elif manifest.round_number in self.rounds:
                self._look_again(now)

    def _stop_unbelieved(self, now: int) -> None:
        """What a version that knew of no log has begun is not gone on with: nobody has checked it."""
        if self.session.phase in (Phase.COMPUTING, Phase.SENDING):
            self.tell(events.Distrusted(_UNBELIEVED), now)
        self.outbox.clear()

    @property
    def manifest(self) -> RoundManifest | None:
        accepted = self.session.accepted
        return None if accepted is None else accepted.manifest

    def tell(self, event: events.Event, now: int) -> None:
        if self.left:
            return
        actions = self.session.receive(event, now=now, words=self._around.words)
        later = isinstance(event, events.Tick | events.SendSucceeded | events.SendFailed | events.Restarted)
        fresh = isinstance(event, events.PackagesReady) or self.session.phase is Phase.STOPPED
        self._carry_out(actions, now, durable=None if later else fresh)

    def _as_kept(self, abstain: events.Abstain) -> events.Abstain:
        return as_file(abstain, self._envelope)

    def _put_session(self) -> None:
        self._around.state.put_session(self.document.digest, self.session.take_changes())

    # ── preparing ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _plan(self, now: int) -> None:
        self._prepare_at, self._patience = now, _FIRST_PATIENCE_MS

    async def _prepare(self, now: Now) -> bool:
        accepted, session = self.session.accepted, self.session
        self._prepare_at = NEVER
        if accepted is None or session.phase is not Phase.COMPUTING:
            return False
        manifest = accepted.manifest
        if self._distrust.why is not None:
            self.tell(events.Distrusted(self._distrust.why), now())
            return False
        try:
            self._agree(manifest, now())
            weights = await self._rounds.weights(manifest, now)
            why = None if weights is None else self._too_large(*weights)
            if self.left or session.accepted is not accepted or session.phase is not Phase.COMPUTING:
                return False
            if why is not None:
                raise ConsentRefusedError(why)
            if weights is None:
                self._prepare_at = now() + below(self._patience, self._around.words)
                self._patience = min(2 * self._patience, _LONGEST_PATIENCE_MS)
                return False
            packages = self._contribute(*weights)
            self._keep_model(manifest)
            self.tell(events.PackagesReady(tuple(packages)), now())
        except SecVMError as fault:
            # Weights that are none, a gateway key that is none: nothing of the person is in these sentences.
            if session.phase is Phase.COMPUTING:
                self.tell(events.Declined(str(fault)), now())
        else:
            return True
        return False

    def _agree(self, manifest: RoundManifest, now: int) -> None:
        """Return if this device may take part in the round, as far as can be said before it is entered in the ledger.

        Raises
        ------
        ConsentRefusedError
            Why not, in one sentence.
        """
        around, document = self._around, self.document
        # Asked again, because the settings may be others than when the person joined.
        why = around.policy.unknown_relay(document)
        if why is None and public_key_bytes(document.kem) is None:
            why = (
                f"the experiment's gateway has keys of KEM {document.kem:#06x}, which the cryptography package of this"
                " machine lacks; a newer one has it"
            )
        why = why or self._untimely(manifest.opens_at, now)
        if why is not None:
            raise ConsentRefusedError(why)
        around.consent.check(document, around.state.ledger.accepted(document.digest))

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _next_manifest_at(self) -> int:
        manifest = self.manifest
        return 0 if manifest is None else manifest.accept_until

    async def _hear(self, news: RoundNews, now: Now) -> None:
        if self._stands_still:
            # Whoever is paused meanwhile has heard the ending all the same: it is believed once, and not a second time.
            if news.ending is not None:
                self._end(news.ending)
            return
        before = self.session.accepted
        if news.manifest is not None:
            self.tell(events.ManifestArrived(news.manifest, news.ahead), now())
        self._check_looks(now())
        accepted, ending = self.session.accepted, news.ending
        if accepted is not before and ending is None:
            self._ask_after_round(now())
            return
        self._poll_at = self._polling.again(now())
        if ending is None and accepted is not None and now() >= accepted.manifest.accept_until:
            ending = await self._rounds.ask_for_ending(accepted, now)
        if ending is not None:
            self._end(ending)

    def _convict(self, sentence: str, evidence: bytes | None, now: int) -> None:
        self.tell(events.Distrusted(sentence, evidence), now)

    def _stop_unseen(self, why: str, now: int) -> None:  # noqa: ARG002  (a round that runs goes on)
        if self._distrust.why is None:
            self._distrust.put(why)

    # ── sending ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _running(self, row: RoundHistory) -> RoundCounts:
        progress = self.session.progress
        return RoundCounts(row.round_number, progress.waiting, progress.acknowledged, progress.lost, done=False)

    def next_due(self, now: int) -> events.SendPackage | None:
        while (due := super().next_due(now)) is not None and not self._may_send(due, now):
            pass
        return due

    def _may_send(self, due: events.SendPackage, now: int) -> bool:
        """Whether this capsule may still leave; one that may not goes back to the session."""
        manifest = self.manifest
        if self.left or not self._sending or manifest is None or now >= manifest.closes_at:
            return False
        if self.session.paused:
            self.tell(events.SendFailed(due.package_id), now)
            return False
        return True

    async def send(self, due: events.SendPackage, now: Now) -> None:
        if not self._may_send(due, now()):
            return
        self._around.traffic.add(len(due.capsule) + OVERHEAD_BYTES, now())
        document, label = self.document, f"{self.document.digest}/{self.round_number}".encode()
        reply = await self._around.transport.send(due.capsule, relay_for(due.capsule, document.relays), label=label)
        if reply.content is not None:
            self.tell(events.SendSucceeded(due.package_id), now())
        else:
            self.tell(events.SendFailed(due.package_id, reply.retry_after_ms, reply.final), now())

    def leave(self) -> None:
        super().leave()
        self._around.believed.pop(self.document.digest, None)
