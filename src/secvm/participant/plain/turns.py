"""The session of one plain experiment, told, stored, then acted upon (``participant.membership``)."""

from __future__ import annotations

from secvm.participant.membership import Turns
from secvm.participant.trust.evidence import as_file
from secvm.participant.trust.fresh_looks import FreshLooks
from secvm.participant.trust.surroundings import Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.plain.session import ParticipantSession, Phase
from secvm.protocol.plain.session_events import (
    Abstain,
    Event,
    PackagesReady,
    Restarted,
    SendFailed,
    SendPackage,
    SendSucceeded,
    Tick,
)


class PlainTurns(Turns[ParticipantSession, SendPackage]):
    """The session of one plain experiment, and what it wants done."""

    def __init__(
        self, around: Surroundings, document: ExperimentDocument, envelope: bytes, looking: FreshLooks | None
    ) -> None:
        """``envelope`` is the experiment's, for evidence."""
        parts, seal = around.state.session_parts(document.digest), around.seal
        if parts is None:
            session = ParticipantSession(document, seal=seal)
        else:
            session = ParticipantSession.from_parts(*parts, document, seal=seal)
        super().__init__(around, document, session, looking, known=parts is not None)
        self._envelope = envelope

    @property
    def manifest(self) -> RoundManifest | None:
        accepted = self.session.accepted
        return None if accepted is None else accepted.manifest

    @property
    def sending(self) -> bool:
        return self.session.phase is Phase.SENDING

    def tell(self, event: Event, now: int) -> None:
        if self.left:
            return
        actions = self.session.receive(event, now=now, words=self._around.words)
        later = isinstance(event, Tick | SendSucceeded | SendFailed | Restarted)
        fresh = isinstance(event, PackagesReady) or self.session.phase is Phase.STOPPED
        self._carry_out(actions, now, durable=None if later else fresh)

    def _as_kept(self, abstain: Abstain) -> Abstain:
        return as_file(abstain, self._envelope)

    def _put_session(self) -> None:
        self._around.state.put_session(self._document.digest, self.session.take_changes())
