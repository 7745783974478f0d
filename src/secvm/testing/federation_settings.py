"""The settings files of a federation's parties, as their operators would write them, with fresh keys."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from secvm.coordinator.main import KEY_FILE, LOG_KEY_FILE
from secvm.crypto.signing import SEED_BYTES, SigningKey
from secvm.federation.tables import coordinator_tables, device_tables, named_witness
from secvm.protocol.documents.terms import RelayTimes
from secvm.relay.setting_up import PLAIN, KnownRelay, make_key, make_token, relay_tables
from secvm.runtime.disk.secret_files import make_secret
from secvm.runtime.settings import Tables, merged, settings_text
from secvm.witness.main import make as make_witness

COORDINATOR, RELAY, DASHBOARD = "coordinator", "relay", "dashboard"
#: The two relays that add cover, which are called by their roles.
ENTRY, MIX = "entry", "mix"
ROLES = (ENTRY, MIX)
RELAY_PATH = "/relay"
#: In which file a node finds its database.
DATABASE_FILE = "database.url"
#: Of a federation's nodes: short, so that a test need not wait.
LEASE_S, POLL_S, CLAIM_S = 2.0, 0.2, 3.0
#: Seconds of the machine that a relay waits for a manifest, and after something that could not be handed on.
_POLL_S, _RETRY_MS = 0.1, 50
#: Most capsules of one client in an epoch, as the relay has it.
_QUOTA = 100_000
#: Where the grid begins: an instant of a quiet day.
ORIGIN_MS = 1_893_456_000_000
#: When the federation begins: long enough before that for the longest lead, so that an experiment is made, logged and
#: cosigned, and a round of a development beacon comes, before devices ask for the first manifest.
BEGIN_MS = ORIGIN_MS - 1_100_000
BEACON_ROUND = ORIGIN_MS // 1000 - 1050

#: The two relays' steps of a federation, enough for the terms of relays that nobody has measured: time leaps over them.
#: The last two are short: whoever asks for a manifest while time goes on in leaps shall not doubt the clock.
RELAY_STEPS = RelayTimes(batch_s=60, mix_s=60, reveal_s=5, open_s=5)
#: Made-up people: hundreds of them hide nobody.
ANYTHING = {"policy": "unsafe-accept-anything"}


def cover_seeds(seed: str) -> tuple[str, str]:
    """The seeds of the dice of the entry relay and of the mixing relay.

    With them the cover of every round can be drawn again from what is published (``estimator.round_cover``), so these
    relays serve test experiments alone.
    """
    return f"{seed}, {ENTRY} relay", f"{seed}, {MIX} relay"


def memory_of(folder: Path, relay: str) -> Path:
    """Where a relay that adds cover keeps what shall not outlive its machine."""
    return folder / relay / "memory"


@dataclass(frozen=True, slots=True)
class HostOf:
    """A host, and the people of a file that it carries."""

    people: Path
    first: int
    count: int
    #: The experiment's list of words, where it has one.
    vocabulary: Path | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """The windows of the federation's clock, in its own seconds, and how quickly it runs."""

    length_s: int = 30
    grace_s: int = 4
    lead_s: int = 10
    #: Seconds of the federation in one of the machine.
    rate: float = 12.0
    #: How long the two relays' steps after a window take, where relays add cover.
    relays: RelayTimes | None = None

    @property
    def steps_s(self) -> int:
        """From the last submission until a round of two relays is opened at the latest."""
        steps = self.relays
        return 0 if steps is None else steps.batch_s + steps.mix_s + steps.reveal_s + steps.open_s

    @property
    def period_s(self) -> int:
        return self.length_s + self.grace_s + self.steps_s + self.lead_s

    def specified(self) -> dict[str, int]:
        """The windows of a specification."""
        windows = {"length_s": self.length_s, "grace_s": self.grace_s, "first_opening": ORIGIN_MS}
        return windows if self.relays is None else {**windows, **self.relays.to_content()}

    @property
    def deposit_after_s(self) -> float:
        return self.length_s + self.grace_s / 2


class PartyDoor(Protocol):
    """What stands before a party, or before all nodes of a coordinator; others reach the party at ``url``."""

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        ...

    def start(self) -> None:
        """Listen from now on."""
        ...

    def close(self) -> None:
        """Let go of everything; a second time does nothing."""
        ...


class FederationSettings:
    """The settings of all parties, which a ``Federation`` writes into its folder; what it is made of is set by it.

    Two relays add cover where it is ``covered``; else its relays serve plain experiments. Nodes on a database take the
    place of one coordinator on a file.
    """

    folder: Path
    pace: Pace
    seed: str
    covered: bool
    witness_names: list[str]
    relay_names: list[str]
    node_names: list[str]
    database_url: str | None
    #: Of every device.
    consent: Mapping[str, Any]
    #: Folders in which the state of a process lies, where that is not ``folder``.
    disks: Mapping[str, Path]
    #: What all relays have in their settings besides, by table.
    relay_tables: Mapping[str, Mapping[str, Any]]
    host_tables: Mapping[str, Mapping[str, Any]]
    #: What the operator types to change something.
    admin_key: str
    door_before: Mapping[str, PartyDoor]
    #: Known once the servers' settings are written.
    known_relays: list[KnownRelay]
    _ports: dict[str, int]
    _addresses: Mapping[str, str]

    def port(self, name: str) -> int:
        """Where a process listens."""
        return self._ports[name]

    def address(self, name: str) -> str:
        """On which address that is."""
        return self._addresses.get(name, "127.0.0.1")

    def url(self, name: str) -> str:
        """Where the others reach a process."""
        door = self.door_before.get(name)
        return door.url if door is not None else f"http://{self.address(name)}:{self._ports[name]}"

    def relays_specified(self) -> list[dict[str, str]]:
        """The relays as an operator names them in a specification."""
        return [relay.specified for relay in self.known_relays]

    def write_servers(self) -> None:
        """Write those of witnesses, coordinator and relays; each witness has its key and its memory then."""
        log_key = os.urandom(SEED_BYTES)
        witnesses = [self._write_witness(name, SigningKey(log_key)) for name in self.witness_names]
        self.known_relays = [self._make_relay(name) for name in self.relay_names]
        self._write_coordinators(witnesses, log_key)
        for relay in self.known_relays:
            self._write_relay(relay)

    def _state(self, name: str) -> Path:
        """Where a server keeps its state."""
        return self.disks.get(name, self.folder) / name

    def _listen(self, name: str) -> dict[str, Any]:
        return {"host": self.address(name), "port": self.port(name)}

    @property
    def _log_name(self) -> str:
        return f"127.0.0.1:{self.port(COORDINATOR)}"

    @property
    def _clock(self) -> str:
        return str(self.folder / "clock")

    def _write_witness(self, name: str, log: SigningKey) -> dict[str, str]:
        """Write it; the witness as the coordinator's settings name it."""
        self._write(
            name,
            {
                "listen": self._listen(name),
                "witness": {"name": f"{name}.test", "key_file": str(self.folder / f"{name}.key")},
                "store": {"path": str(self.folder / f"{name}.db")},
                "logs": [{"name": self._log_name, "key": log.public.data.hex()}],
                "testing": {"clock": self._clock},
            },
        )
        key = make_witness(self.folder / f"{name}.toml")
        return named_witness(key, self.url(name))

    def _write_coordinators(self, witnesses: Sequence[Mapping[str, str]], log_key: bytes) -> None:
        if self.database_url is not None:
            make_secret(self.folder / DATABASE_FILE, self.database_url.encode())
        signing_key = os.urandom(SEED_BYTES)
        for name in self.node_names or [COORDINATOR]:
            state = self._state(name)
            state.mkdir(mode=0o700)
            (state / "admin.sha256").write_text(hashlib.sha256(self.admin_key.encode()).hexdigest() + "\n")
            make_secret(state / LOG_KEY_FILE, log_key)
            make_secret(state / KEY_FILE, signing_key)
            node: dict[str, Any] = {
                "database": {"url": f"file:{DATABASE_FILE}"},
                "node": {"name": name, "lease_s": LEASE_S, "poll_s": POLL_S, "claim_s": CLAIM_S},
            }
            tables = coordinator_tables(
                state=str(state),
                grid={**self._grid, "lead_s": self.pace.lead_s},
                relays={f"{relay.name}.token": relay for relay in self.known_relays},
                log_name=self._log_name,
                witnesses=witnesses,
            )
            beside = {"listen": self._listen(name), "testing": {"clock": "clock"}}
            self._write(name, {**tables, **beside, **(node if self.node_names else {})})

    @property
    def _grid(self) -> dict[str, int]:
        return {"origin_ms": ORIGIN_MS, "period_s": self.pace.period_s}

    def _make_relay(self, name: str) -> KnownRelay:
        """A relay with a new key and a new token, each in a file of its own."""
        key = make_key(self.folder / f"{name}.key").data.hex()
        digest = make_token(self.folder / f"{name}.token")
        role = name if self.covered else PLAIN
        return KnownRelay(name, role, f"Operator of the {name} relay", self.url(name) + RELAY_PATH, key, digest)

    def _write_relay(self, relay: KnownRelay) -> None:
        name, state = relay.name, self._state(relay.name)
        tables = relay_tables(
            relay,
            coordinator=self.url(COORDINATOR),
            grid=self._grid,
            key_file=f"{name}.key",
            token_file=f"{name}.token",
            state=str(state),
        )
        testing: dict[str, Any] = {"clock": "clock", "any_credential": True}
        more: dict[str, Mapping[str, Any]] = {
            "listen": self._listen(name),
            "gateway": {"retry_ms": _RETRY_MS if self.covered else 100},
            "clients": {"known_by": "credential", "fetches": 1_000_000},
        }
        if self.covered:
            testing["seed"] = dict(zip(ROLES, cover_seeds(self.seed), strict=True))[name]
            secrets = str(memory_of(self.folder, name))
            more["rounds"] = {
                "secrets": secrets,
                "network_quota": 1_000_000,
                "poll_s": _POLL_S,
                "retry_ms": _RETRY_MS,
            }
        else:
            more["clients"] = {**more["clients"], "quota": _QUOTA}
            more["epochs"] = {"deposit_after_s": self.pace.deposit_after_s}
        self._write(name, merged(merged(tables, {**more, "testing": testing}), self.relay_tables))

    def write_dashboard(self, audit_every_s: float) -> None:
        """Write that of the operator's page."""
        self._write(
            DASHBOARD,
            {
                "listen": self._listen(DASHBOARD),
                "coordinator": {"url": f"http://{self.address(COORDINATOR)}:{self.port(COORDINATOR)}"},
                "audit": {"every_s": audit_every_s},
                "testing": {"clock": self._clock},
            },
        )

    def write_host(self, name: str, host: HostOf, digest: str) -> None:
        """Write that of a host, whose devices join the experiment at once."""
        folder = self.folder / "devices"
        folder.mkdir(mode=0o700, exist_ok=True)
        tables = device_tables(str(folder), self.known_relays, coordinator="Operator of the coordinator")
        more: dict[str, Mapping[str, Any]] = {
            "traffic": {"daily_bytes": 10**12},
            "status": {"listen": f"127.0.0.1:{self.port(name)}"},
            # One of each and not two: hundreds of devices share a machine of two cores here.
            "trust": {"refetches": 1},
            "consent": self.consent,
            "testing": {
                "clock": self._clock,
                "seed": self.seed,
                "people": str(host.people.absolute()),
                "first": host.first,
                "count": host.count,
                "join": [digest],
                **({} if host.vocabulary is None else {"vocabulary": str(host.vocabulary.absolute())}),
                "credentials": True,
                "unsafe_beacons": True,
            },
        }
        self._write(name, merged(merged(tables, more), self.host_tables))

    def _write(self, name: str, tables: Tables) -> None:
        (self.folder / f"{name}.toml").write_text(settings_text(tables), encoding="utf-8")
