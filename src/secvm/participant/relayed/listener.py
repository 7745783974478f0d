"""What a device asks of an experiment with two relays, and what it makes of the answers.

It asks for a newer manifest, looks at the log again while a window is open, and looks for its canaries. What it hears
goes to the session; what cannot be makes it stop (``distrust``), and no round is joined until the person resumes.
"""

from __future__ import annotations

from secvm.errors import CheatingError, InconsistentManifestError, OverLimitError, RemoteProtocolError
from secvm.participant.membership import RoundListener
from secvm.participant.relayed.canaries import Canaries
from secvm.participant.relayed.distrust import RelayedDistrust
from secvm.participant.relayed.rounds import RelayedNews, RelayedRounds
from secvm.participant.relayed.turns import RelayedTurns
from secvm.participant.trust.fresh_looks import FreshLooks
from secvm.participant.trust.polling import Polling
from secvm.participant.trust.surroundings import Now
from secvm.protocol.plain.session_events import Abstain, Distrusted, Reason
from secvm.protocol.plain.session_memory import NEVER
from secvm.protocol.relays.sending.session import RoundAnnounced, Stopped


class RelayedListener(RoundListener):
    """The askings of one experiment with two relays: for manifests, the log and canaries."""

    _turns: RelayedTurns

    def __init__(
        self,
        turns: RelayedTurns,
        rounds: RelayedRounds,
        distrust: RelayedDistrust,
        looking: FreshLooks | None,
        *,
        polling: Polling,
        canaries: Canaries,
        ended: bool,
    ) -> None:
        super().__init__(turns, polling, ended=ended)
        self._rounds, self._distrust, self._looking, self._canaries = rounds, distrust, looking, canaries
        #: Askings that were answered.
        self._answered = 0

    # ── when ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def at(self) -> int:
        rounds = NEVER if self.ended else min(self._poll_at, self._look_at)
        return min(rounds, self._canary_at)

    @property
    def _look_at(self) -> int:
        """When the log is looked at again."""
        return NEVER if self._looking is None or self._distrust.why is not None else self._looking.at

    @property
    def _canary_at(self) -> int:
        return NEVER if self._distrust.why is not None else self._canaries.at

    def _next_manifest_at(self) -> int:
        # At the earliest when the mixing relay has handed on.
        manifest = self._turns.manifest
        return 0 if manifest is None else manifest.instants.mix_by

    def plan_canaries(self, now: int) -> None:
        """Choose when canaries are looked for, of the rounds that are known to be over."""
        self._canaries.plan(now=now)

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def ask(self, now: Now) -> None:
        moment = now()
        if not self.ended and self._look_at <= moment:
            await self._look_at_log(now)
        elif self._canary_at <= moment:
            await self._look_for_canary(now)
        else:
            await self.poll(now)

    async def poll(self, now: Now) -> None:
        """Ask for a newer manifest, and for what came of the rounds since."""
        try:
            news = await self._rounds.ask(now)
        except CheatingError as fault:
            self._convict(str(fault), fault.evidence, now())
            self._poll_at = self._polling.again(now())
            return
        except InconsistentManifestError as fault:
            self._stop(str(fault), now())
            self._poll_at = self._polling.again(now())
            return
        except (RemoteProtocolError, OverLimitError) as fault:
            # Nothing has changed: it is asked again, and no round is joined meanwhile.
            ours = isinstance(fault, OverLimitError)
            self._turns.note(Abstain(Reason.DECLINED if ours else Reason.BAD_MANIFEST, str(fault)))
            self._poll_at = self._polling.again(now())
            return
        if self._turns.left:
            return
        if news is None:
            self._poll_at = self._polling.failed(now())
            return
        self._answered += 1
        self._hear(news, now())

    def _hear(self, news: RelayedNews, now: int) -> None:
        if news.unopened is not None:
            self._distrust.without_opening(news.unopened)
        self._distrust.count_unopened()
        self.check_looks(now)
        # A round that stayed unopened takes its canary along.
        self._turns.stale_log = True
        session = self._turns.session
        before = session.manifest
        if news.ending is not None:
            self.ended = True
            self._turns.hold(news.ending.evaluation_weights)
        elif news.manifest is not None and not session.paused:
            self._turns.tell(RoundAnnounced(news.manifest, news.ahead), now)
        if session.manifest is before:
            self._poll_at = self._polling.again(now)
        else:
            self.begin(now)
        self.plan_canaries(now)

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def check_looks(self, now: int) -> None:
        """Stop where too many rounds in a row were without an answered look."""
        why = None if self._looking is None else self._looking.too_many_unseen()
        if why is not None:
            self._convict(why, None, now)

    async def _look_at_log(self, now: Now) -> None:
        if self._looking is None:
            return
        finding = await self._looking.look(now)
        if self._turns.left:
            return
        if isinstance(finding, Distrusted):
            self._convict(finding.sentence, finding.evidence, now())
        elif finding is not None:
            self._turns.note(finding)

    async def _look_for_canary(self, now: Now) -> None:
        loss = None
        try:
            loss = await self._canaries.look(now, answered=self._answered, ended=self.ended)
        except CheatingError as fault:
            self._convict(str(fault), fault.evidence, now())
        self._turns.stale_log = True
        if loss is not None and not self._turns.left:
            self._distrust.lose(loss)
            self._turns.tell(Stopped(loss.sentence), now())
        self._turns.cut_log()

    # ── stopping ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _stop(self, sentence: str, now: int) -> None:
        """The coordinator signed what cannot be."""
        if self._distrust.why is None:
            self._distrust.put(sentence)
            self._turns.tell(Stopped(sentence), now)

    def _convict(self, sentence: str, evidence: bytes | None, now: int) -> None:
        """The log is not what it was, or holds what contradicts a signed document; with what shows it."""
        if self._turns.left:
            return
        first = self._distrust.why is None
        # Evidence is kept whatever has stopped the device before; one piece is enough.
        if first or (evidence is not None and not self._distrust.convicted):
            self._distrust.convict(self._turns.round_number, sentence, evidence)
        if first:
            self._turns.tell(Stopped(sentence), now)
