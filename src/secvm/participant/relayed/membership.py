"""One experiment with two relays on one device: its session, its requests and its askings, put together.

It asks for a newer manifest, looks at the log again while a window is open, and looks for its canaries. What it hears
goes to the session; what cannot be makes it stop. A round is prepared in this order, each step durably: its one label
and its place in the ledger; the sealed request with its canary, before its first byte leaves.

**Distrust** (docs/protocol.md §32). Four things make a device stop: its canary is missing; two of any ten consecutive
rounds for which it holds a receipt were never opened; the coordinator signed what cannot be; the log is not what it
was, or nobody answers looks at it. Each follows from the canary and from public files, and from nothing else that this
device knows. No round is joined, and no request sent, until the person resumes. Evidence against the coordinator or its
log stops it for good: a person who resumes does not change what was signed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from secvm.errors import (
    CheatingError,
    ConsentRefusedError,
    InconsistentManifestError,
    OverLimitError,
    RemoteProtocolError,
    SecVMError,
    UnreachableError,
)
from secvm.learning.individual.dice import Dice
from secvm.participant.membership import Membership, RoundCounts, RoundNews, spread_ms
from secvm.participant.relayed.canaries import Canaries, CanaryLoss
from secvm.participant.relayed.preparation import RoundToken, agree, bind
from secvm.participant.relayed.refusals import Refusals
from secvm.participant.relayed.rounds import RelayedRounds
from secvm.participant.sending.transport import OVERHEAD_BYTES, NotNowError
from secvm.participant.storage.books import MISSING
from secvm.participant.storage.state import ExperimentRecord, RoundHistory
from secvm.participant.trust.evidence import convicts
from secvm.participant.trust.fresh_looks import FreshLooks
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.participant.turns import Distrust
from secvm.protocol.documents.experiment import ExperimentDocument, Relay
from secvm.protocol.plain.session_events import Abstain, Declined, Reason, Restarted, Tick
from secvm.protocol.plain.session_memory import NEVER, Phase
from secvm.protocol.relays import session as turn
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.statements import RelayedTerms
from secvm.protocol.relays.submission import SECRETS_BYTES, draw_order, seal_submission
from secvm.protocol.schedule import below
from secvm.protocol.trust.relayed_chain import Ended

#: Two unopened rounds among so many consecutive numbers are too many.
UNOPENED_AMONG = 10
_CONVICTED = "this device holds evidence against the coordinator or its log"
_UNOPENED = "rounds {} and {} had this device's request and were never opened"


class RelayedDistrust(Distrust):
    """What has made one experiment stop, or may."""

    def reread(self) -> None:
        """See whether the person has resumed, and whether that is enough."""
        super().reread()
        if self.why is None and self.convicted:
            self.why = _CONVICTED

    @property
    def convicted(self) -> bool:
        """Whether evidence is held that stops it for good."""
        return convicts(self._state, self._digest)

    def convict(self, round_number: int, sentence: str, evidence: bytes | None) -> None:
        """Stop because of the log; with what shows it, in one transaction."""
        with self._state.writing(durable=True):
            self._stop(round_number, sentence, evidence)

    def lose(self, loss: CanaryLoss) -> None:
        """Stop because of a canary; with what shows it, in one transaction."""
        state, digest = self._state, self._digest
        with state.writing(durable=True):
            state.relayed.drop_canary(digest, loss.round_number)
            state.trust.count(digest, MISSING)
            self._stop(loss.round_number, loss.sentence, loss.evidence)

    def _stop(self, round_number: int, sentence: str, evidence: bytes | None) -> None:
        shows = () if evidence is None else (evidence,)
        self.why = sentence
        self._state.put_abstention(self._digest, round_number, Abstain(Reason.DISTRUST, sentence, shows))
        self._state.trust.put_distrust(self._digest, sentence)

    def settle(self, ended: Sequence[Ended]) -> None:
        """How rounds ended, inside the transaction that stores what is believed; of those with a receipt."""
        book = self._state.relayed
        kept = {end.round_number for end in book.canaries(self._digest)}
        for end in ended:
            number = end.manifest.round_number
            if number in kept and end.opened:
                book.put_opening(self._digest, number, end.opening.data)
            elif number in kept:
                book.put_unopened(self._digest, number)

    def without_opening(self, number: int) -> None:
        """No opening of this round was served, as often as it was looked for."""
        book = self._state.relayed
        if any(canary.round_number == number and canary.opening is None for canary in book.canaries(self._digest)):
            with self._state.writing(durable=True):
                book.put_unopened(self._digest, number)

    def count_unopened(self) -> None:
        """Stop where two of any ten rounds with a receipt stayed unopened."""
        numbers = sorted(self._state.relayed.unopened(self._digest))
        near = [pair for pair in pairwise(numbers) if pair[1] - pair[0] < UNOPENED_AMONG]
        if self.why is None and near:
            self.put(_UNOPENED.format(*near[0]))


class RelayedMembership(Membership[turn.SendRequest]):
    """A device's part in one experiment with two relays."""

    session: turn.RelayedSession
    _rounds: RelayedRounds
    _distrust: RelayedDistrust

    def __init__(
        self, around: Surroundings, record: ExperimentRecord, document: ExperimentDocument, dice: Dice, *, now: int
    ) -> None:
        self._rounds = rounds = RelayedRounds(around, document, record.envelope)
        around, state = rounds.around, around.state
        parts = state.relayed_session(document.digest)
        self.session = (
            turn.RelayedSession(document) if parts is None else turn.RelayedSession.from_parts(*parts, document)
        )
        distrust = RelayedDistrust(state, document.digest)
        rounds.settle = distrust.settle
        super().__init__(around, record, document, dice, distrust, now=now)
        if rounds.log is not None:
            self._looking = FreshLooks(around, document.digest, rounds.log.trusted)
        self._refusals = Refusals(around)
        self._token = RoundToken(around, document, self._refusals)
        self._canaries = Canaries(around, document, record.envelope)
        #: Askings that were answered.
        self._answered = 0
        #: Something that was deleted may still stand in SQLite's log.
        self._stale_log = True
        if parts is not None:
            self.tell(Restarted(), now)
            if self.round_number in self.rounds:
                self._look_again(now)
        distrust.count_unopened()
        self._canaries.plan(now=now)
        self.set_status(record.status, now)
        self._check_looks(now)
        if distrust.why is not None and not self._idle:
            # It was killed after it had stored why, and before it had given the round up.
            self.tell(turn.Stopped(distrust.why), now)

    @property
    def manifest(self) -> RelayedManifest | None:
        return self.session.manifest

    def tell(self, event: turn.RelayedEvent, now: int) -> None:
        if self.left:
            return
        actions = self.session.receive(event, now=now, words=self._around.words)
        # That a request leaves is noted first: whoever is killed then sends it again also after the window.
        noted = any(isinstance(action, turn.RoundDone | turn.SendRequest) for action in actions)
        later = isinstance(event, Tick | Restarted) and not noted
        fresh = isinstance(event, turn.RequestReady | turn.RoundAnnounced | turn.Taken)
        self._carry_out(actions, now, durable=None if later else fresh)
        if not later:
            self._cut_log()

    def _put_session(self) -> None:
        digest, state, changes = self.document.digest, self._around.state, self.session.take_changes()
        state.put_relayed_session(digest, changes, b"" if self.manifest is None else self.manifest.data)
        self._stale_log = self._stale_log or changes.forget
        if changes.sealed is not None:
            # The token travels in the request.
            state.relayed.drop_token_seed(digest)
            self._stale_log = True

    def _cut_log(self) -> None:
        """After something was deleted, and outside of a transaction: another process may be reading just now."""
        if self._stale_log:
            self._stale_log = not self._around.state.empty_log()

    @property
    def canaries(self) -> int:
        return self._around.state.relayed.count_canaries(self.document.digest)

    # ── preparing ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _plan(self, now: int) -> None:
        self._prepare_at = NEVER if self.manifest is None else self._token.when(self.manifest, now)

    def _wanted(self, manifest: RelayedManifest) -> bool:
        """Whether the session still wants it: it may be over, or another, since something was asked."""
        return self.manifest is manifest and self.session.phase is Phase.COMPUTING

    async def _prepare(self, now: Now) -> bool:
        manifest, around, document = self.manifest, self._around, self.document
        self._prepare_at = NEVER
        if manifest is None or not self._wanted(manifest):
            return False
        if self._distrust.why is not None:
            self.tell(Declined(self._distrust.why), now())
            return False
        # Where each package goes, the canary too, before anything of the person is looked at.
        order = draw_order(document.budget, around.words)
        try:
            untimely = self._untimely(manifest.instants.opens_at, now())
            await agree(around, document, untimely, lambda relay: self._terms_of(relay, manifest))
            token = await self._token.ask(manifest, now)
            model = self._rounds.model()
            why = self._too_large(model.training, model.evaluation)
            if self.left or not self._wanted(manifest):
                return False
            if why is not None:
                raise ConsentRefusedError(why)
            if token is None:
                # Asked again, with the same bytes, until the window closes.
                again = self._token.again(manifest, now())
                if again is None:
                    raise ConsentRefusedError(_silence(document.entry_relay))
                self._prepare_at = again
                return False
            bind(around.state, document, manifest)
            packages = self._contribute(model.training, model.evaluation)
            secrets = around.random_bytes(SECRETS_BYTES * document.budget)
            submission = seal_submission(
                document, manifest, packages, order=order, ephemerals=secrets, token=token, sealer=around.sealer
            )
            self._keep_model(manifest)
            self.tell(turn.RequestReady(submission), now())
        except UnreachableError as fault:
            self._prepare_later(manifest, str(fault), now())
        except SecVMError as fault:
            # Terms that do not do, a budget that is spent: nothing of the person is in these sentences.
            if self.session.phase is Phase.COMPUTING:
                self.tell(Declined(str(fault)), now())
        else:
            return True
        return False

    def _prepare_later(self, manifest: RelayedManifest, why: str, now: int) -> None:
        """A relay that is away for a moment costs nobody a round: it is asked again as long as the window is not over,
        each time after a random while.
        """
        if not self._wanted(manifest):
            return
        document, refusals = self.document, self._refusals
        refused = any(refusals.is_refused(relay, manifest) for relay in (document.entry_relay, document.mix_relay))
        soon = refusals.wait(manifest, now) if refused else below(spread_ms(document.windows), self._around.words)
        at = now + soon
        if at < manifest.instants.closes_at:
            self._prepare_at = at
        else:
            self.tell(Declined(why), now)

    async def _terms_of(self, relay: Relay, manifest: RelayedManifest) -> RelayedTerms | None:
        checks = self._around.checks
        return await checks.relay_terms(relay, manifest.label, lambda asked: self._ask_terms(asked, manifest))

    async def _ask_terms(self, relay: Relay, manifest: RelayedManifest) -> RelayedTerms | None:
        refusals = self._refusals
        if refusals.is_silent(relay, manifest):
            raise ConsentRefusedError(_silence(relay))
        try:
            terms = await self._around.transport.relayed_terms(relay)
        except UnreachableError as fault:
            refusals.heard(relay, manifest, answered=isinstance(fault, NotNowError))
            if refusals.is_silent(relay, manifest):
                raise ConsentRefusedError(_silence(relay)) from None
            raise
        refusals.heard(relay, manifest, answered=True)
        return terms

    # ── sending ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _running(self, row: RoundHistory) -> RoundCounts:
        return RoundCounts(row.round_number, self.document.budget, row.acknowledged, row.lost, done=False)

    async def send(self, due: turn.SendRequest, now: Now) -> None:
        manifest, tell = self.manifest, self.tell
        if self.left or manifest is None or not self._sending or manifest.label != due.label:
            return
        if self.session.paused or now() >= manifest.instants.accept_until:
            tell(turn.NotTaken(), now())
            return
        relay, refusals = self.document.entry_relay, self._refusals
        if refusals.is_silent(relay, manifest):
            self._give_up(now())
            return
        self._around.traffic.add(len(due.body) + OVERHEAD_BYTES, now())
        reply = await self._around.transport.submit(due.body, due.label, relay, anonymous=self.document.tokens)
        refusals.heard(relay, manifest, answered=reply.answered)
        if refusals.is_silent(relay, manifest):
            self._give_up(now())
        elif not reply.answered:
            tell(turn.NotTaken(refusals.wait(manifest, now())), now())
        elif reply.content is None:
            tell(turn.NotTaken(reply.retry_after_ms, reply.final), now())
        else:
            tell(turn.Taken(reply.content), now())

    def _give_up(self, now: int) -> None:
        """Nobody answers: nothing more of the round leaves."""
        self.note(Abstain(Reason.DECLINED, _silence(self.document.entry_relay)))
        self.tell(turn.NotTaken(final=True), now)

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _ask_at(self) -> int:
        return min(super()._ask_at, self._canary_at)

    @property
    def _look_at(self) -> int:
        return NEVER if self.ended or self.distrusts else super()._look_at

    @property
    def _canary_at(self) -> int:
        return NEVER if self.distrusts else self._canaries.at

    @property
    def _next_manifest_at(self) -> int:
        # At the earliest when the mixing relay has handed on.
        manifest = self.manifest
        return 0 if manifest is None else manifest.instants.mix_by

    async def _ask(self, now: Now) -> None:
        if self._canary_at <= now() < self._look_at:
            await self._look_for_canary(now)
        else:
            await super()._ask(now)

    async def _hear(self, news: RoundNews, now: Now) -> None:
        self._answered += 1
        if news.unopened is not None:
            self._distrust.without_opening(news.unopened)
        self._distrust.count_unopened()
        self._check_looks(now())
        # A round that stayed unopened takes its canary along.
        self._stale_log = True
        before = self.session.manifest
        if news.ending is not None:
            self._end(news.ending)
        elif news.manifest is not None and not self.session.paused:
            self.tell(turn.RoundAnnounced(news.manifest, news.ahead), now())
        if self.session.manifest is before:
            self._poll_at = self._polling.again(now())
        else:
            self._ask_after_round(now())
        self._canaries.plan(now=now())

    async def _look_for_canary(self, now: Now) -> None:
        loss = None
        try:
            loss = await self._canaries.look(now, answered=self._answered, ended=self.ended)
        except CheatingError as fault:
            self._convict(str(fault), fault.evidence, now())
        self._stale_log = True
        if loss is not None and not self.left:
            self._distrust.lose(loss)
            self.tell(turn.Stopped(loss.sentence), now())
        self._cut_log()

    # ── stopping ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _disbelieve(self, fault: RemoteProtocolError | OverLimitError, now: int) -> None:
        if not isinstance(fault, InconsistentManifestError):
            super()._disbelieve(fault, now)
        elif self._distrust.why is None:
            # The coordinator signed what cannot be.
            self._distrust.put(str(fault))
            self.tell(turn.Stopped(str(fault)), now)

    def _stop_unseen(self, why: str, now: int) -> None:
        self._convict(why, None, now)

    def _convict(self, sentence: str, evidence: bytes | None, now: int) -> None:
        if self.left:
            return
        first = self._distrust.why is None
        # Evidence is kept whatever has stopped the device before; one piece is enough.
        if first or (evidence is not None and not self._distrust.convicted):
            self._distrust.convict(self.round_number, sentence, evidence)
        if first:
            self.tell(turn.Stopped(sentence), now)


def _silence(relay: Relay) -> str:
    return f"the {relay.role} relay {relay.host} has not answered three times, so it is left alone until the next round"
