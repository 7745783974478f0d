"""What passes between a device's session in an experiment with two relays and its owner; see ``session``."""

from __future__ import annotations

from dataclasses import dataclass, field

from secvm.protocol.plain.session_events import Abstain, Declined, Paused, Restarted, Resumed, Tick, Wait
from secvm.protocol.relays.manifest import RelayedManifest
from secvm.protocol.relays.sending.submission import Submission

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
