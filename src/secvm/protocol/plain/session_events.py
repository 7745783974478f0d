"""What passes between a session and its owner: events are what the owner tells, actions what the session asks for."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from secvm.learning.package import Package
from secvm.protocol.documents.manifest import RoundManifest

# ── events: what the owner tells the session ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ManifestArrived:
    """Bytes that claim to be a signed manifest, and how far at least the server's clock is ahead, where it was told."""

    data: bytes
    ahead: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class PackagesReady:
    """All packages of the round, in any order. Secret: it does not print itself."""

    packages: tuple[Package, ...]

    def __repr__(self) -> str:
        return "PackagesReady(...)"


@dataclass(frozen=True, slots=True)
class Declined:
    """The person, the ledger or the computation says no to the round that was to be computed."""

    why: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class SendSucceeded:
    """A capsule was acknowledged."""

    package_id: int


@dataclass(frozen=True, slots=True)
class SendFailed:
    """A capsule was not acknowledged. Whether it arrived nobody knows."""

    package_id: int
    #: The server asked to wait so long.
    retry_after_ms: int = 0
    #: The server's problem will not go away: do not try again.
    final: bool = False


@dataclass(frozen=True, slots=True)
class Paused:
    """The person wants nothing sent."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The person allows sending again."""


@dataclass(frozen=True, slots=True)
class Distrusted:
    """What the owner has seen of the server makes it stop (``TrustedRounds``, a fresh look at the log, a canary).

    With evidence, for ever. Without, no more of the round that runs: it is no proof, but no ground to go on either.
    """

    sentence: str
    #: A file of ``secvm.protocol.evidence.plain``; None where nothing that was signed shows it.
    evidence: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Restarted:
    """The session was just read from its bytes; what was under way is lost from sight."""


Event = (
    ManifestArrived
    | PackagesReady
    | Declined
    | Tick
    | SendSucceeded
    | SendFailed
    | Paused
    | Resumed
    | Distrusted
    | Restarted
)


# ── actions: what the session asks of its owner ──────────────────────────────────────────────────────────────────────


class Reason(enum.Enum):
    """Why a device abstains."""

    BAD_MANIFEST = "the manifest cannot be believed"
    EQUIVOCATION = "there are two manifests for one round"
    CHEATING = "what the server signed convicts it"
    DISTRUST = "this device has seen what an honest server does not show"
    UNSEEN = "no fresh look at the log was answered while the window was open"
    CLOCK = "this device's clock seems to be wrong"
    LATE = "the window is already open; the next round will do"
    PAUSED = "the person has paused"
    DECLINED = "the person, the ledger or the computation said no"
    OVER = "the window closed before the packages were ready"


@dataclass(frozen=True, slots=True)
class Compute:
    """Compute this round's packages and come back with ``PackagesReady``, or with ``Declined``."""

    manifest: RoundManifest


@dataclass(frozen=True, slots=True)
class SendPackage:
    """Send this capsule now; come back with ``SendSucceeded`` or ``SendFailed``."""

    package_id: int
    #: The time that was drawn for it.
    at: int
    capsule: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Abstain:
    """Nothing is sent (any more), and this is why."""

    reason: Reason
    sentence: str
    #: Signed bytes that show what the server did, where it did something.
    evidence: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """The round is over for this device."""

    round_number: int
    acknowledged: int
    #: Given up, refused for good, or not sent in time.
    lost: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Come back with ``Tick`` at this time, unless something else happens before."""

    until: int


Action = Compute | SendPackage | Abstain | Finished | Wait
