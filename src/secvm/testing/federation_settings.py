"""The settings files of a federation's parties, as their operators would write them, with fresh keys."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secvm.coordinator.main import KEY_FILE, LOG_KEY_FILE
from secvm.crypto.signing import SEED_BYTES, SigningKey
from secvm.protocol.documents.relay_terms import RelayTimes
from secvm.relay.main import make_key
from secvm.runtime.disk.secret_files import make_secret
from secvm.testing.federation_relays import ROLES, RoleRelay, make_relay, relay_tables
from secvm.witness.main import make as make_witness

COORDINATOR, RELAY, DASHBOARD = "coordinator", "relay", "dashboard"
#: In which file a node finds its database.
DATABASE_FILE = "database.url"
#: Of a federation's nodes: short, so that a test need not wait.
LEASE_S, POLL_S, CLAIM_S = 2.0, 0.2, 3.0
RELAY_PATH = "/relay"
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

_Tables = Mapping[str, Mapping[str, Any] | Sequence[Mapping[str, Any]]]


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
        told = {"length_s": self.length_s, "grace_s": self.grace_s, "first_opening": ORIGIN_MS}
        return told if self.relays is None else {**told, **self.relays.to_content()}

    @property
    def deposit_after_s(self) -> float:
        return self.length_s + self.grace_s / 2


class FederationSettings:
    """Writes them into one folder."""

    def __init__(
        self,
        folder: Path,
        *,
        pace: Pace,
        ports: Mapping[str, int],
        witnesses: Sequence[str],
        seed: str,
        quota: int,
        nodes: Sequence[str] = (),
        database: str | None = None,
        consent: Mapping[str, Any] = ANYTHING,
    ) -> None:
        """``nodes`` on a ``database``, in place of one coordinator on a file. ``consent``: of every device. Two relays
        add cover where the ``pace`` has their steps; else there is one, for plain experiments.
        """
        self._consent = consent
        self._nodes, self._database = nodes, database
        self._folder, self._pace, self._ports = folder, pace, ports
        self._witnesses, self._seed, self._quota = witnesses, seed, quota
        self.admin_key = os.urandom(32).hex()
        #: That signs the relay's counts, in hexadecimal; known once it is made.
        self.relay_key = ""
        self._token = os.urandom(24).hex()
        #: The two that add cover, the entry relay first.
        self.role_relays: list[RoleRelay] = []

    def write_servers(self) -> None:
        """Those of witnesses, coordinator and relay; each witness has its key and its memory then."""
        log_key = os.urandom(SEED_BYTES)
        keys = [self._witness(name, SigningKey(log_key)) for name in self._witnesses]
        if self._pace.relays is not None:
            self.role_relays = [make_relay(self._folder, role, self.role_url(role)) for role in ROLES]
        self._coordinator(keys, log_key)
        if self.role_relays:
            for relay in self.role_relays:
                self._write(relay.role, self._role_relay(relay))
        else:
            self._relay()

    def _host(self, name: str) -> str:  # noqa: ARG002  (others spread theirs)
        """The address on which a server listens."""
        return "127.0.0.1"

    @property
    def relay_url(self) -> str:
        """R, as the experiment names it and devices reach it."""
        return f"http://127.0.0.1:{self._ports[RELAY]}{RELAY_PATH}"

    def role_url(self, role: str) -> str:
        """R of one of the two relays."""
        return f"http://127.0.0.1:{self._ports[role]}{RELAY_PATH}"

    @property
    def _gateway_url(self) -> str:
        """The coordinator, as relays reach it."""
        return f"http://127.0.0.1:{self._ports[COORDINATOR]}"

    def _state(self, name: str) -> Path:
        """Where a server keeps its state."""
        return self._folder / name

    @property
    def _log_name(self) -> str:
        return f"127.0.0.1:{self._ports[COORDINATOR]}"

    def _witness(self, name: str, log: SigningKey) -> dict[str, Any]:
        """As the coordinator's settings name it."""
        self._write(
            name,
            {
                "listen": {"host": self._host(name), "port": self._ports[name]},
                "witness": {"name": f"{name}.test", "key_file": str(self._folder / f"{name}.key")},
                "store": {"path": str(self._folder / f"{name}.db")},
                "logs": [{"name": self._log_name, "key": log.public.data.hex()}],
                "testing": {"clock": str(self._folder / "clock")},
            },
        )
        key = make_witness(self._folder / f"{name}.toml")
        return {"name": key.name, "url": f"http://{self._host(name)}:{self._ports[name]}", "key": key.key.data.hex()}

    def _coordinator(self, witnesses: Sequence[Mapping[str, Any]], log_key: bytes) -> None:
        make_secret(self._folder / "relay.token", self._token.encode())
        if self._database is not None:
            make_secret(self._folder / DATABASE_FILE, self._database.encode())
        signing_key = os.urandom(SEED_BYTES)
        for name in self._nodes or [COORDINATOR]:
            state = self._state(name)
            state.mkdir(mode=0o700)
            (state / "admin.sha256").write_text(hashlib.sha256(self.admin_key.encode()).hexdigest() + "\n")
            make_secret(state / LOG_KEY_FILE, log_key)
            make_secret(state / KEY_FILE, signing_key)
            self._one_coordinator(name, witnesses)

    def _one_coordinator(self, name: str, witnesses: Sequence[Mapping[str, Any]]) -> None:
        """That of a node, or of the only process."""
        log: dict[str, Any] = {"log": {"name": self._log_name}, "witnesses": witnesses} if witnesses else {}
        node: dict[str, Any] = {
            "database": {"url": f"file:{DATABASE_FILE}"},
            "node": {"name": name, "lease_s": LEASE_S, "poll_s": POLL_S, "claim_s": CLAIM_S},
        }
        self._write(
            name,
            {
                "listen": {"host": self._host(name), "port": self._ports[name]},
                "state": {"folder": str(self._state(name))},
                "epochs": {"origin_ms": ORIGIN_MS, "period_s": self._pace.period_s, "lead_s": self._pace.lead_s},
                "testing": {"clock": "clock"},
                "relays": self._known_relays(),
                **log,
                **(node if self._nodes else {}),
            },
        )

    def _known_relays(self) -> list[dict[str, str]]:
        """As the coordinator's settings name those that it takes batches from."""
        if not self.role_relays:
            return [{"name": RELAY, "token_sha256": hashlib.sha256(self._token.encode()).hexdigest()}]
        return [
            {
                "name": relay.role,
                "token_sha256": hashlib.sha256(relay.token.encode()).hexdigest(),
                "url": relay.url,
                "token_file": str(self._folder / f"{relay.role}.token"),
            }
            for relay in self.role_relays
        ]

    def _role_relay(self, relay: RoleRelay) -> dict[str, Any]:
        """That of one of the two relays."""
        state = self._state(relay.role)
        return {
            "listen": {"host": "127.0.0.1", "port": self._ports[relay.role]},
            "relay": {"path": RELAY_PATH, "url": relay.url},
            "epochs": {"origin_ms": ORIGIN_MS, "period_s": self._pace.period_s},
            **relay_tables(self._folder, state, relay, seed=self._seed, coordinator=self._gateway_url),
        }

    def _relay(self) -> None:
        self.relay_key = make_key(self._folder / "relay.key").data.hex()
        self._write(
            RELAY,
            {
                "listen": {"host": "127.0.0.1", "port": self._ports[RELAY]},
                "gateway": {
                    "url": self._gateway_url,
                    "token_file": str(self._folder / "relay.token"),
                    "retry_ms": 100,
                },
                "relay": {"path": RELAY_PATH},
                "epochs": {
                    "origin_ms": ORIGIN_MS,
                    "period_s": self._pace.period_s,
                    "deposit_after_s": self._pace.deposit_after_s,
                },
                "clients": {"known_by": "credential", "quota": self._quota, "fetches": 1_000_000},
                "store": {"path": str(self._folder / "relay.sqlite")},
                "signing": {"key_file": str(self._folder / "relay.key")},
                "testing": {"clock": str(self._folder / "clock"), "any_credential": True},
            },
        )

    def write_dashboard(self, audit_every_s: float) -> None:
        """That of the operator's page."""
        self._write(
            DASHBOARD,
            {
                "listen": {"host": self._host(DASHBOARD), "port": self._ports[DASHBOARD]},
                "coordinator": {"url": f"http://{self._host(COORDINATOR)}:{self._ports[COORDINATOR]}"},
                "audit": {"every_s": audit_every_s},
                "testing": {"clock": str(self._folder / "clock")},
            },
        )

    def write_host(self, name: str, host: HostOf, digest: str) -> None:
        """That of a host, whose devices join the experiment at once."""
        folder = self._folder / "devices"
        folder.mkdir(mode=0o700, exist_ok=True)
        self._write(
            name,
            {
                "device": {"folder": str(folder)},
                "relay": {"urls": [relay.url for relay in self.role_relays] or [self.relay_url]},
                "traffic": {"daily_bytes": 10**12},
                "status": {"listen": f"127.0.0.1:{self._ports[name]}"},
                # One of each and not two: hundreds of devices share a machine of two cores here.
                "trust": {"refetches": 1, "coordinator": "Operator of the coordinator"},
                **({"trust.relays": [relay.trusted() for relay in self.role_relays]} if self.role_relays else {}),
                "consent": self._consent,
                "testing": {
                    "clock": str(self._folder / "clock"),
                    "seed": self._seed,
                    "people": str(host.people),
                    "first": host.first,
                    "count": host.count,
                    "join": [digest],
                    **({} if host.vocabulary is None else {"vocabulary": str(host.vocabulary)}),
                    "credentials": True,
                    "unsafe_beacons": True,
                },
            },
        )

    def _write(self, name: str, tables: _Tables) -> None:
        """Settings as TOML: strings, numbers and lists are written there as in JSON."""
        lines: list[str] = []
        for table, found in tables.items():
            head = f"[{table}]" if isinstance(found, Mapping) else f"[[{table}]]"
            for values in [found] if isinstance(found, Mapping) else found:
                lines += [head, *(f"{key} = {json.dumps(value)}" for key, value in values.items()), ""]
        (self._folder / f"{name}.toml").write_text("\n".join(lines))
