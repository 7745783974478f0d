"""Watching: what a device does beside taking part, to see whether the server goes on being honest.

While a window is open it looks at the log again (``looking``). That comes to a ``Distrusted`` for the session, or to
nothing. Too many rounds in a row in which nobody answered a look are remembered over restarts, and until the person
resumes the device joins no further round.
"""

from __future__ import annotations

from secvm.participant.plain.rounds import LoggedRounds
from secvm.participant.trust.fresh_looks import Looking
from secvm.participant.trust.surroundings import Now, Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.plain.session_events import Abstain, Distrusted


class Watching:
    """The watch over one experiment that has a log."""

    def __init__(self, around: Surroundings, document: ExperimentDocument, rounds: LoggedRounds) -> None:
        self._around, self._document, self._rounds = around, document, rounds
        self._looking = Looking(around, document.digest, rounds.trusted)
        #: Why no round is joined for now.
        self.distrust: str | None = None
        self.reread()

    def reread(self) -> None:
        """See whether the person has resumed."""
        self.distrust = self._around.state.trust.distrust(self._document.digest)
        self._looking.reread()

    def believes(self, manifest: RoundManifest) -> bool:
        """Whether this manifest was believed: it is the newest of them, or an older one."""
        last = self._rounds.trusted.last
        if last is None or last.manifest.round_number < manifest.round_number:
            return False
        return last.manifest.round_number > manifest.round_number or last.manifest.digest == manifest.digest

    # ── a round ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def joined(self, manifest: RoundManifest, now: int) -> None:
        """A round is joined, or was before a restart."""
        self._looking.joined(manifest.round_number, manifest.window, now)

    @property
    def unwritten(self) -> bool:
        """Whether ``write`` has something to do."""
        return self._looking.unwritten

    def write(self) -> None:
        """Write what has changed, inside a transaction of the state."""
        self._looking.write()

    def believed(self) -> None:
        """Something new is believed, or a device has started: the looks of the rounds before are over."""
        self._distrust_unseen()

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def refetch_at(self) -> int:
        """When the log is looked at again."""
        return self._looking.at

    async def refetch(self, now: Now) -> Distrusted | Abstain | None:
        """Look at the log again."""
        found = await self._looking.look(now)
        self._distrust_unseen()
        return found

    def _distrust_unseen(self) -> None:
        """Take no part from now on, where too many rounds in a row were without an answered look."""
        why = self._looking.too_many_unseen()
        if self.distrust is None and why is not None:
            self.distrust = why
            with self._around.state.writing(durable=True):
                self._around.state.trust.put_distrust(self._document.digest, why)
