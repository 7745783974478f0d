"""Watching: what a device does beside taking part, to see whether the server goes on being honest.

While a window is open it looks at the log again (``refetching``); after a round it looks for its capsules
(``receipts``). Both come to a ``Distrusted`` for the session, or to nothing. A missing capsule is remembered over
restarts, and until the person resumes the device joins no further round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from secvm.errors import CheatingError, RemoteProtocolError
from secvm.participant.receipts import Receipts
from secvm.participant.refetching import Refetching
from secvm.participant.surroundings import Now, Surroundings
from secvm.participant.trust_book import REFETCHED, UNANSWERED
from secvm.participant.trusting import LoggedRounds
from secvm.protocol.events import Abstain, Distrusted, Reason
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.protocol.manifest import RoundManifest
from secvm.protocol.session import WaitingRow
from secvm.protocol.session_memory import NEVER

#: Where an experiment takes nothing late, receipts are spread over this.
_SHORTEST_MS = 1000


class Watching:
    """The watch over one experiment that has a log."""

    def __init__(self, around: Surroundings, document: ExperimentDocument, rounds: LoggedRounds) -> None:
        self._around, self._document, self._rounds = around, document, rounds
        self._refetching = Refetching(around.words, around.policy.refetches)
        self._receipts = Receipts(around, document, spread_ms=1000 * document.windows.grace_s or _SHORTEST_MS)
        rounds.settle = self._receipts.settle
        #: Fresh looks by what became of them, not written yet.
        self._counted = Counter[str]()
        #: Why no round is joined for now.
        self.distrust: str | None = None
        self.reread()

    def reread(self) -> None:
        """See whether the person has resumed."""
        self.distrust = self._around.state.trust.distrust(self._document.digest)

    def believes(self, manifest: RoundManifest) -> bool:
        """Whether this manifest was believed: it is the newest of them, or an older one."""
        last = self._rounds.trusted.last
        if last is None or last.manifest.round_number < manifest.round_number:
            return False
        return last.manifest.round_number > manifest.round_number or last.manifest.digest == manifest.digest

    # ── a round ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def choose(self, round_number: int, rows: Sequence[WaitingRow]) -> None:
        """A round's capsules are sealed; inside the transaction that stores them."""
        self._receipts.choose(round_number, rows)

    def joined(self, manifest: RoundManifest, now: int) -> None:
        """A round is joined, or was before a restart."""
        self._refetching.plan(manifest.window, now=now)

    def acknowledged(self, capsule: bytes) -> None:
        """A capsule was acknowledged."""
        self._receipts.acknowledged(capsule)

    @property
    def unwritten(self) -> bool:
        """Whether ``write`` has something to do."""
        return self._receipts.unwritten or bool(self._counted)

    def write(self) -> None:
        """Write what has changed, inside a transaction of the state."""
        self._receipts.write()
        for name, count in self._counted.items():
            self._around.state.trust.count(self._document.digest, name, count)
        self._counted.clear()

    def believed(self, now: int) -> None:
        """Something new is believed, or a device has started: there may be capsules to look for."""
        last = self._rounds.trusted.last
        self._receipts.plan(None if last is None else last.manifest, now=now)

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def refetch_at(self) -> int:
        """When the log is looked at again."""
        return self._refetching.at

    def receipt_at(self) -> int:
        """When a capsule is looked for."""
        return self._receipts.at if self.distrust is None else NEVER

    async def refetch(self, now: Now) -> Distrusted | Abstain | None:
        """Look at the log again."""
        refetching, digest = self._refetching, self._document.digest
        before = (refetching.answered, refetching.unanswered)
        found: Distrusted | Abstain | None = None
        try:
            await refetching.look(self._around, self._rounds.trusted, digest, now)
        except CheatingError as fault:
            found = Distrusted(str(fault), fault.evidence)
        except RemoteProtocolError as fault:
            found = Distrusted(str(fault))
        if found is not None:
            refetching.stop()
        answered, unanswered = refetching.answered - before[0], refetching.unanswered - before[1]
        if answered or unanswered:
            self._counted[REFETCHED if answered else UNANSWERED] += 1
        if found is None and unanswered and refetching.blind:
            found = Abstain(Reason.UNSEEN, Reason.UNSEEN.value)
        return found

    async def look_for_capsule(self, now: Now) -> Distrusted | None:
        """Look for one capsule under its root."""
        sentence = await self._receipts.look(now)
        if sentence is None:
            return None
        self.distrust = sentence
        return Distrusted(sentence)
