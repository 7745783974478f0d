"""RelayedSession: a device's part in an experiment with two relays. Events in, actions out; it does nothing itself.

Its owner hands in every event with the time and dice, **stores** what has changed (``take_changes``), and only then
carries out the actions. The rules (docs/protocol.md §28):

 1. It joins a round only with a manifest that its owner believes, received before the window opens, by a clock that
    seems right. Else it abstains, and says why.
 2. A round has one request, sealed once; the session never holds another one for this round.
 3. The request has one random time in the window. Overdue after a restart, a pause or sleep, it gets a new one in what
    is left of the window: sent at once it would tell when the person came back.
 4. What was not taken is sent again, the same bytes, after a random time that doubles with each attempt, until
    accept_until. What was under way during a crash is sent again too: the entry relay knows it by its root.
 5. Nothing is sent for the first time from ``closes_at`` on, nor anything while paused. With the receipt, or at
    accept_until, the request is forgotten. The canary stays only where there is a receipt.

What is stored is a header, which is small, and the request with its canary while it is on its way: rows of their own,
stored durably before the first byte leaves and deleted when they are done with. A canary with its receipt is handed
over once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Self

from secvm.errors import BadProofError, BadSignatureError, LocalProtocolError, MalformedMessageError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.plain.session_events import Abstain, Declined, Paused, Reason, Restarted, Resumed, Tick, Wait
from secvm.protocol.plain.session_memory import AnySession, Phase, SessionHeader
from secvm.protocol.records import whole
from secvm.protocol.relays.manifest import RelayedManifest, read_accepted
from secvm.protocol.relays.submission import Canary, Receipt, Submission, read_request, token_bytes
from secvm.protocol.schedule import Window, below, spread
from secvm.protocol.version import RELAYED_SESSION_TYPE

# ── events: what the owner tells the session ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RoundAnnounced:
    """A manifest that the owner believes, in its envelope, and how far at least the server's clock is ahead."""

    envelope: bytes = field(repr=False)
    ahead: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class RequestReady:
    """The round's packages are sealed, and the ledger has been charged."""

    submission: Submission

    def __repr__(self) -> str:
        return "RequestReady(...)"


@dataclass(frozen=True, slots=True)
class Taken:
    """The entry relay answered with what may be a receipt."""

    receipt: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class NotTaken:
    """No receipt came. Whether the request arrived nobody knows."""

    #: The relay asked to wait so long.
    retry_after_ms: int = 0
    #: It will never take these bytes.
    final: bool = False


@dataclass(frozen=True, slots=True)
class Stopped:
    """What the owner has seen makes it stop: nothing more of the round leaves."""

    sentence: str


RelayedEvent = (
    RoundAnnounced | RequestReady | Taken | NotTaken | Stopped | Declined | Tick | Paused | Resumed | Restarted
)

# ── actions: what the session asks of its owner ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Prepare:
    """Charge the ledger, seal this round's packages and come back with ``RequestReady``, or with ``Declined``."""

    manifest: RelayedManifest


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Send these bytes to the entry relay under this label; come back with ``Taken`` or ``NotTaken``."""

    label: bytes
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RoundDone:
    """The round is over for this device, with a receipt or without."""

    round_number: int
    receipt: bool


RelayedAction = Prepare | SendRequest | RoundDone | Abstain | Wait


#: With less than this left, a request is not sent again: retries would come closer and closer together.
_LAST_BACKOFF_MS = 250


@dataclass(frozen=True, slots=True, repr=False)
class PendingRequest:
    """A sealed request on its way, and its canary as bytes."""

    #: When it is to be sent.
    at: int
    attempts: int
    under_way: bool
    body: bytes
    canary: bytes

    @property
    def kept(self) -> Canary:
        """The canary."""
        return Canary.from_bytes(self.canary)

    def __repr__(self) -> str:
        return f"PendingRequest(due at {self.at})"


@dataclass(frozen=True, slots=True, repr=False)
class RelayedChanges:
    """What has changed since the owner last asked."""

    #: None: as before.
    header: bytes | None
    #: Body and canary of a request that is new; it is never another one of the same round.
    sealed: tuple[bytes, bytes] | None = None
    #: The request is done with.
    forget: bool = False
    #: A canary whose receipt has come.
    taken: Canary | None = None

    def __repr__(self) -> str:
        return "RelayedChanges(...)"


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A request as it was stored."""

    body: bytes = field(repr=False)
    canary: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class RelayedHeader(SessionHeader):
    """All of a session but its request and canary."""

    purpose: ClassVar[str] = RELAYED_SESSION_TYPE
    longest: ClassVar[int] = 2**14

    #: Of the request that is on its way: when it is to be sent, and how often it was.
    at: Annotated[int, whole(0)] | None
    attempts: Annotated[int, whole(0)] | None


class RelayedSession(AnySession[RelayedEvent, RelayedAction]):
    """One device in one experiment. It is never ``Phase.STOPPED``: what convicts a server is its owner's."""

    ready = RequestReady

    def __init__(self, document: ExperimentDocument) -> None:
        super().__init__(document)
        self._accepted: bytes | None = None
        #: Of the round that was announced last.
        self.manifest: RelayedManifest | None = None
        self._request: PendingRequest | None = None
        self._receipted: Canary | None = None
        self._sealed = self._forget = False

    def __repr__(self) -> str:
        return "RelayedSession(...)"

    @property
    def accepted(self) -> bytes | None:
        """Envelope of the round that was announced last."""
        return self._accepted

    def _put_request(self, request: PendingRequest) -> None:
        if self._request is None:
            self._sealed = True
        elif (self._request.body, self._request.canary) != (request.body, request.canary):
            raise LocalProtocolError("a round has one request, and this is another")
        self._request = request

    def _drop_request(self) -> None:
        self._forget = self._forget or self._request is not None
        self._request = None

    def take_changes(self) -> RelayedChanges:
        """What is to be stored, in one transaction, before any action is carried out."""
        request = self._request
        header = RelayedHeader(
            accepted=self._accepted,
            at=None if request is None else request.at,
            attempts=None if request is None else request.attempts,
            **self._common(),
        ).to_bytes()
        changes = RelayedChanges(
            header=None if header == self._told else header,
            sealed=(request.body, request.canary) if request is not None and self._sealed else None,
            forget=self._forget,
            taken=self._receipted,
        )
        self._told, self._sealed, self._forget, self._receipted = header, False, False, None
        return changes

    @classmethod
    def from_parts(cls, header: bytes, row: RequestRow | None, document: ExperimentDocument) -> Self:
        """The session whose changes were stored as they came. Tell it ``Restarted`` first of all.

        Raises
        ------
        MalformedMessageError
            The parts are none that a session has written, or do not fit together.
        """
        kept = RelayedHeader.from_bytes(header)
        session = cls(document)
        session._take_common(kept)
        if kept.accepted is not None:
            session._accepted, session.manifest = kept.accepted, read_accepted(kept.accepted, document)
        if kept.at is not None and kept.attempts is not None and row is not None:
            session._request = PendingRequest(kept.at, kept.attempts, under_way=False, body=row.body, canary=row.canary)
        session._told = header
        session._check_parts(row)
        return session

    def _check_parts(self, row: RequestRow | None) -> None:
        request, manifest, sending = self._request, self.manifest, self._phase is Phase.SENDING
        fits = sending == (request is not None) and (row is None) == (request is None)
        if not fits or self._phase is Phase.STOPPED or (self._phase is not Phase.IDLE and manifest is None):
            raise MalformedMessageError("the session's parts do not fit together")
        if request is not None and manifest is not None:
            read_request(request.body, budget=self._document.budget, token=token_bytes(self._document))
            if request.kept.label != manifest.label:
                raise MalformedMessageError("the session's request is of another round than its manifest")

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _handle(self, event: RelayedEvent, now: int, words: Iterator[int]) -> list[RelayedAction]:
        match event:
            case RoundAnnounced(envelope, ahead):
                return self._announced(envelope, ahead, now)
            case RequestReady(submission):
                return self._ready(submission.body, submission.canary.to_bytes(), now, words)
            case Taken(receipt):
                return self._taken(receipt, now, words)
            case NotTaken():
                return self._not_taken(event, now, words)
            case Stopped(sentence):
                return [*self._close(receipt=False), Abstain(Reason.DISTRUST, sentence)]
        return super()._handle(event, now, words)

    # ── joining ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _announced(self, envelope: bytes, ahead: int | None, now: int) -> list[RelayedAction]:
        manifest, before = read_accepted(envelope, self._document), self.manifest
        if before is not None and manifest.round_number <= before.round_number:
            if manifest.digest == before.digest:
                return []
            # The owner believes one chain of manifests: this is no round of it.
            raise LocalProtocolError(
                f"round {manifest.round_number} was announced with other bytes, or after round {before.round_number}"
            )
        actions = self._close(receipt=False)
        self._accepted, self.manifest = envelope, manifest
        closed = None if before is None else before.instants.closes_at
        reason = self._reason_against(manifest.window, closed, ahead=ahead, now=now)
        if reason is not None:
            return [*actions, Abstain(reason, reason.value)]
        self._phase = Phase.COMPUTING
        return [*actions, Prepare(manifest)]

    def _ready(self, body: bytes, canary: bytes, now: int, words: Iterator[int]) -> list[RelayedAction]:
        manifest = self.manifest
        if self._phase is not Phase.COMPUTING or manifest is None:
            raise LocalProtocolError("nobody asked for a request, or it is already on its way")
        if now >= manifest.instants.closes_at:
            self._phase = Phase.IDLE
            return [Abstain(Reason.OVER, Reason.OVER.value)]
        at = spread(1, _left(manifest.window, now), words)[0]
        self._put_request(PendingRequest(at=at, attempts=0, under_way=False, body=body, canary=canary))
        self._phase = Phase.SENDING
        return []

    def _restarted(self, now: int) -> list[RelayedAction]:
        if self._request is not None:
            self._put_request(replace(self._request, under_way=False))
        manifest = self.manifest
        if self._phase is Phase.COMPUTING and manifest is not None and now < manifest.instants.closes_at:
            return [Prepare(manifest)]
        return []

    # ── sending ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _taken(self, envelope: bytes, now: int, words: Iterator[int]) -> list[RelayedAction]:
        request, manifest = self._request, self.manifest
        if request is None or manifest is None:
            # After the window, or a second answer: no harm.
            return []
        canary = request.kept
        try:
            canary.check_receipt(Receipt.read(envelope, self._document.entry_relay.key))
        except (MalformedMessageError, BadSignatureError, BadProofError):
            # Anybody on the way may have answered; the relay itself gives the same receipt again.
            return self._not_taken(NotTaken(), now, words)
        self._receipted = canary.with_receipt(envelope)
        return self._close(receipt=True)

    def _not_taken(self, event: NotTaken, now: int, words: Iterator[int]) -> list[RelayedAction]:
        request, manifest = self._request, self.manifest
        if request is None or manifest is None:
            return []
        until, earliest = manifest.instants.accept_until, now + max(0, event.retry_after_ms)
        # Each retry takes half of the last seconds, in the mean: the entry relay takes these bytes until accept_until.
        if event.final or earliest + _LAST_BACKOFF_MS > until:
            return self._close(receipt=False)
        at = self._retry_at(earliest, until, request.attempts, words)
        self._put_request(replace(request, at=at, under_way=False))
        return []

    def _go_on(self, now: int, words: Iterator[int], *, grace: int) -> list[RelayedAction]:
        """What time alone brings about: the end of the window, a new time, a request that is due."""
        manifest, request = self.manifest, self._request
        if manifest is None or self._phase is Phase.IDLE:
            return []
        instants = manifest.instants
        if request is None:
            if now < instants.closes_at:
                return [Wait(instants.closes_at)]
            self._phase = Phase.IDLE
            return [Abstain(Reason.OVER, Reason.OVER.value)]
        ends = instants.accept_until if request.attempts else instants.closes_at
        if now >= ends:
            return self._close(receipt=False)
        if request.under_way or self._paused:
            return [Wait(ends)]
        if request.at + grace < now:
            # Late by more than a timer's fault: drawn anew, in the window while it lasts.
            left = instants.closes_at if now < instants.closes_at else instants.accept_until
            request = replace(request, at=now + below(left - now, words))
            self._put_request(request)
        if request.at > now:
            return [Wait(min(ends, request.at))]
        self._put_request(replace(request, attempts=request.attempts + 1, under_way=True))
        return [SendRequest(manifest.label, request.body), Wait(instants.accept_until)]

    def _close(self, *, receipt: bool) -> list[RelayedAction]:
        """The end of a round: the request is forgotten, and without a receipt the canary too."""
        manifest, sending = self.manifest, self._phase is Phase.SENDING
        self._drop_request()
        self._phase = Phase.IDLE
        return [RoundDone(manifest.round_number, receipt)] if sending and manifest is not None else []


def _left(window: Window, now: int) -> Window:
    return Window(opens_at=max(now, window.opens_at), closes_at=window.closes_at)
