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
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from secvm.errors import BadProofError, BadSignatureError, LocalProtocolError, MalformedMessageError
from secvm.protocol.plain.session import FIRST_BACKOFF_MS, GRACE_MS, LONGEST_BACKOFF_MS, reason_against
from secvm.protocol.plain.session_events import Abstain, Declined, Paused, Reason, Restarted, Resumed, Tick, Wait
from secvm.protocol.plain.session_memory import Phase
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.session_memory import PendingRequest, RelayedMemory, read_accepted
from secvm.protocol.relays.submission import Receipt, Submission
from secvm.protocol.schedule import Window, below, spread

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


class RelayedSession(RelayedMemory):
    """One device in one experiment."""

    def receive(self, event: RelayedEvent, *, now: int, words: Iterator[int]) -> list[RelayedAction]:
        """What to do about an event. ``now`` in milliseconds; ``words`` are fresh dice, uniform 64-bit words.

        Raises
        ------
        LocalProtocolError
            The owner told something that cannot be, such as a request nobody asked for. Nothing has changed then.
        """
        if now < 0:
            raise LocalProtocolError(f"the time is {now}, and begins at zero")
        actions: list[RelayedAction] = []
        match event:
            case RoundAnnounced(envelope, ahead):
                actions = self._announced(envelope, ahead, now)
            case RequestReady(submission):
                actions = self._ready(submission.body, submission.canary.to_bytes(), now, words)
            case Declined(why):
                actions = [self._declined(why)]
            case Taken(receipt):
                actions = self._taken(receipt, now, words)
            case NotTaken():
                actions = self._not_taken(event, now, words)
            case Stopped(sentence):
                actions = [*self._close(receipt=False), Abstain(Reason.DISTRUST, sentence)]
            case Paused() | Resumed():
                self._paused = isinstance(event, Paused)
            case Restarted():
                actions = self._restarted(now)
            case Tick():
                pass
        self._latest = max(self._latest, now)
        came_back = isinstance(event, Restarted | Resumed | RequestReady)
        return [*actions, *self._go_on(now, words, grace=0 if came_back else GRACE_MS)]

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
        reason = (
            Reason.PAUSED
            if self._paused
            else reason_against(manifest.window, closed, ahead=ahead, now=now, latest=self._latest)
        )
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
        patience = min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS << min(max(request.attempts - 1, 0), 20))
        at = earliest + below(min(patience, until - earliest), words)
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
