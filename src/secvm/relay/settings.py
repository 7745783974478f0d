"""The relay's settings, as its TOML file has them. docs/how-to/run-a-relay.md shows a whole file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from secvm.crypto.sealing.capsules import MAX_CAPSULE_BYTES
from secvm.runtime.http.guard import HttpLimits
from secvm.runtime.settings import Count, Listen, Seconds, Settings, SteeringPart, StorePart, usual_port

#: Where it listens unless its settings say otherwise.
PORT = 8480


class GatewayPart(Settings):
    """``[gateway]``: the coordinator behind this relay."""

    #: Such as ``https://coordinator.example``; ``/v1/…`` is added.
    url: str = Field(pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*[^/?#\s])?$")
    #: A file with the token that the coordinator knows this relay by.
    token_file: Path
    #: For one request to the gateway, seconds.
    timeout_s: Seconds = 30.0
    #: For one deposit of a whole epoch, seconds.
    deposit_timeout_s: Seconds = 300.0
    #: Pause after the first failed deposit, milliseconds; each further one is twice as long, up to half a minute.
    retry_ms: Count = 500


class DoorPart(Settings):
    """``[relay]``: where this relay is."""

    #: The path of this relay's URL R: ``POST R``, ``POST R/fetch``, ``GET R/keys``.
    path: str = Field(default="/relay", pattern=r"^(/[A-Za-z0-9._~-]+)+$")
    #: R itself, as experiments name it, for a relay with a role: devices hold its terms against it.
    url: str | None = Field(default=None, pattern=r"^https?://[!-~]{1,500}$")


class GridPart(Settings):
    """``[epochs]``: the coordinator's grid (docs/protocol.md §19.1), and when an epoch is handed on."""

    #: Beginning of slot 0, milliseconds since 1970.
    origin_ms: int = Field(default=0, ge=0)
    #: Length of a slot, seconds. Quotas are for so long.
    period_s: Seconds
    #: Seconds after a slot's beginning at which its capsules are deposited: after the windows' end and before
    #: accept_until. What arrives later belongs to the next epoch. Not said: the end of the slot.
    deposit_after_s: Seconds | None = None

    @model_validator(mode="after")
    def _within_the_slot(self) -> GridPart:
        if self.deposit_after_s is not None and self.deposit_after_s > self.period_s:
            raise ValueError("deposit_after_s lies within the period")
        return self


class ClientsPart(Settings):
    """``[clients]``: what a client is, and what it may do in an epoch."""

    #: The address; the address, of IPv6 only its first 64 bits; or the header field ``secvm-credential``.
    known_by: Literal["address", "address-64", "credential"] = "address-64"
    #: Known by credential: a file with the SHA-256 of every credential, in hex, one per line.
    credentials_file: Path | None = None
    #: A header field in which the proxy in front names the client's address, such as ``x-real-ip``.
    address_header: str | None = Field(default=None, pattern=r"^[a-z0-9-]+$")
    #: The addresses of proxies: only from these is ``address_header`` believed.
    proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    #: Distinct capsules of one client in one epoch; sending one again is free.
    quota: Count = 1000
    #: Fetches of one client in one epoch.
    fetches: Count = 1000
    #: Distinct capsules, and likewise fetches, of all clients of one IPv6 network of 48 bits in one epoch.
    network_quota: Count = 10_000


class SigningPart(Settings):
    """``[signing]``: what a relay with a store or a role signs its counts with."""

    #: Made by ``secvm relay key``.
    key_file: Path


class RelayLimits(HttpLimits):
    """``[limits]``: what the relay puts up with. Beyond, it answers 503, and what was accepted is not touched."""

    #: Clients of one epoch; the table of clients takes about 200 bytes for each.
    clients: Count = 100_000
    #: Distinct capsules of one epoch; about 100 bytes of memory each, beside what the store has on disk.
    capsules: Count = 4_000_000
    #: Bytes of all capsules of one epoch, in the store: no more than the coordinator takes as one deposit (its
    #: ``limits.deposit_bytes``). What would not fit is not accepted, because it would be lost with all the others.
    #: Quotas shrink when half of it is taken: 2^30 bytes are whole quotas for 4,000,000 packages.
    deposit_bytes: int = Field(default=2**30, ge=2**16)
    #: Bytes of one capsule with a package; a larger one is answered 413. A package has 131. Under the
    #: hybrid key it would have 1,219.
    package_bytes: int = Field(default=256, ge=64, le=MAX_CAPSULE_BYTES - 1)
    #: Bytes of one capsule with a fetch; a larger one is answered 413.
    capsule_bytes: int = Field(default=4096, ge=64, le=MAX_CAPSULE_BYTES - 1)
    #: Capsules that wait for a commit.
    waiting: Count = 20_000
    #: Fetches under way at a time; of one client, never more than are left for the others: at most half.
    forwards: Count = 128
    #: Bytes of one of its answers.
    answer_bytes: Count = 2**23
    #: What ``retry-after`` says in a 503, seconds.
    retry_after_s: Count = 5


class RoundsPart(Settings):
    """``[rounds]``: a role in experiments with two relays' cover (docs/protocol.md §25)."""

    #: The entry relay knows who sends; the mixing relay opens the outer layer. Never both on one machine.
    role: Literal["entry", "mix"]
    #: Who runs this relay, as experiments name them.
    operator: str = Field(min_length=1, max_length=200)
    #: A folder of the relay's own, made when it is not there: ledger, capsules until they are handed on, leaves.
    folder: Path
    #: A folder in memory (tmpfs): the secrets of rounds. It outlives the process, not the machine. Make no snapshots of
    #: this machine's memory.
    secrets: Path = Path("/dev/shm/secvm-relay")  # noqa: S108  (a folder of our own, for its owner alone, or refused)
    #: Submissions of one client in a round, and of all clients of one IPv6 network of 48 bits.
    quota: Count = 1
    network_quota: Count = 100
    #: Limits of an experiment: cells of all kinds, cover packages of one relay, capsules that reach the mixing relay.
    cells: Count = 2**20
    packages: Count = 4_500_000
    capsules: Count = 50_000_000
    #: Seconds in which this machine seals or opens a million packages; `secvm bench relay_cover` measures it.
    seconds_per_million: Count = 600
    #: Bytes of one submission: 128 for each package of an experiment's budget.
    submission_bytes: int = Field(default=2**18, ge=2**10, le=2**23)
    #: Submissions that wait for a commit.
    waiting: Count = 2_000
    #: Between two looks for a manifest, seconds.
    poll_s: Seconds = 5.0
    #: Pause after something could not be handed on, milliseconds; each further one is twice as long, to half a minute.
    retry_ms: Count = 500
    #: For one piece of a batch, seconds.
    piece_timeout_s: Seconds = 120.0
    #: Threads that seal and open.
    threads: Count = 1


class CoordinatorPart(Settings):
    """``[[coordinators]]``: whose experiments are served; documents are pulled from there and from nowhere else."""

    url: str = Field(pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*[^/?#\s])?$")
    #: A file with the token that coordinator and relay know each other by.
    token_file: Path


class RelayTesting(SteeringPart):
    """``[testing]``: not for people's packages."""

    #: Known by credential: whatever a client calls itself is a credential.
    any_credential: bool = False
    #: Round secrets follow from this text: whoever knows it knows all cover. Then only experiments that are marked as a
    #: test are served.
    seed: str | None = Field(default=None, min_length=1)
    #: After this step of a round nothing more is done for it: so that a test can kill the process there.
    halt_after: str | None = None


class RelayServiceSettings(Settings):
    """All settings of a relay."""

    listen: Annotated[Listen, usual_port(PORT)] = Listen(port=PORT)
    gateway: GatewayPart
    relay: DoorPart = DoorPart()
    epochs: GridPart
    clients: ClientsPart = ClientsPart()
    #: This relay holds packages of plain experiments until their epoch is deposited. Made when it is not there.
    store: StorePart | None = None
    signing: SigningPart | None = None
    rounds: RoundsPart | None = None
    coordinators: tuple[CoordinatorPart, ...] = ()
    limits: RelayLimits = RelayLimits()
    testing: RelayTesting = RelayTesting()

    @property
    def role(self) -> str:
        """What this relay does besides carrying fetches; ``fetches``: nothing."""
        if self.rounds is not None:
            return self.rounds.role
        return "fetches" if self.store is None else "plain"

    @model_validator(mode="after")
    def _whole(self) -> RelayServiceSettings:
        if self.store is not None and self.rounds is not None:
            raise ValueError("a relay holds packages (store) or has a role (rounds), not both: leave one out")
        if self.store is not None and self.signing is None:
            raise ValueError("a relay that holds packages (store) needs signing.key_file")
        if self.rounds is not None and (self.signing is None or self.relay.url is None):
            raise ValueError("a role in rounds needs signing.key_file and relay.url")
        if self.rounds is not None and not self.coordinators:
            raise ValueError("a role in rounds needs coordinators, whose experiments are served")
        if len({part.url for part in self.coordinators}) != len(self.coordinators):
            raise ValueError("coordinators name one URL twice")
        by_credential = self.clients.known_by == "credential"
        if by_credential and self.clients.credentials_file is None and not self.testing.any_credential:
            raise ValueError("clients known by credential need clients.credentials_file")
        return self
