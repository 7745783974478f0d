"""The session of one experiment with two relays, told, stored, then acted upon (``participant.membership``)."""

from __future__ import annotations

from secvm.participant.membership import Turns
from secvm.participant.trust.fresh_looks import FreshLooks
from secvm.participant.trust.surroundings import Surroundings
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.plain.session_events import Restarted, Tick
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.sending.session import (
    RelayedEvent,
    RelayedSession,
    RequestReady,
    RoundAnnounced,
    RoundDone,
    SendRequest,
    Taken,
)
from secvm.protocol.relays.sending.session_memory import RelayedPhase


class RelayedTurns(Turns[RelayedSession, SendRequest]):
    """The session of one experiment with two relays, and what it wants done."""

    def __init__(self, around: Surroundings, document: ExperimentDocument, looking: FreshLooks | None) -> None:
        parts = around.state.relayed_session(document.digest)
        session = RelayedSession(document) if parts is None else RelayedSession.from_parts(*parts, document)
        super().__init__(around, document, session, looking, known=parts is not None)
        #: Something that was deleted may still stand in SQLite's log.
        self.stale_log = True

    @property
    def manifest(self) -> RelayedManifest | None:
        return self.session.manifest

    @property
    def sending(self) -> bool:
        return self.session.phase is RelayedPhase.SENDING

    def tell(self, event: RelayedEvent, now: int) -> None:
        if self.left:
            return
        actions = self.session.receive(event, now=now, words=self._around.words)
        # That a request leaves is noted first: whoever is killed then sends it again also after the window.
        noted = any(isinstance(action, RoundDone | SendRequest) for action in actions)
        later = isinstance(event, Tick | Restarted) and not noted
        fresh = isinstance(event, RequestReady | RoundAnnounced | Taken)
        self._carry_out(actions, now, durable=None if later else fresh)
        if not later:
            self.cut_log()

    def _put_session(self) -> None:
        digest, state, changes = self._document.digest, self._around.state, self.session.take_changes()
        state.put_relayed_session(digest, changes, b"" if self.manifest is None else self.manifest.data)
        self.stale_log = self.stale_log or changes.forget
        if changes.sealed is not None:
            # The token travels in the request.
            state.tokens.drop(digest)
            self.stale_log = True

    def cut_log(self) -> None:
        """After something was deleted, and outside of a transaction: another process may be reading just now."""
        if self.stale_log:
            self.stale_log = not self._around.state.empty_log()
