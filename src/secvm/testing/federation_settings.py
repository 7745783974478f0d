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
from secvm.relay.main import make_key, make_token_seed
from secvm.runtime.secret_files import make_secret
from secvm.witness.main import make as make_witness

COORDINATOR, RELAY, DASHBOARD = "coordinator", "relay", "dashboard"
#: In which file a node finds its database.
DATABASE_FILE = "database.url"
#: Of a federation's nodes: short, so that a test need not wait.
LEASE_S, POLL_S, CLAIM_S = 2.0, 0.2, 3.0
RELAY_PATH = "/relay"
RELAY_MODE = "round"
SEED_FILE = "tokens.seed"
#: Where the grid begins: an instant of a quiet day.
ORIGIN_MS = 1_893_456_000_000
#: When the federation begins: long enough before that for the longest lead, so that an experiment is made, logged and
#: cosigned, and a round of a development beacon comes, before devices ask for the first manifest.
BEGIN_MS = ORIGIN_MS - 1_100_000
BEACON_ROUND = ORIGIN_MS // 1000 - 1050

_Tables = Mapping[str, Mapping[str, Any] | Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class HostOf:
    """A host, and the people of a file that it carries."""

    people: Path
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Pace:
    """The windows of the federation's clock, in its own seconds, and how quickly it runs."""

    length_s: int = 30
    grace_s: int = 4
    lead_s: int = 10
    #: Seconds of the federation in one of the machine.
    rate: float = 12.0

    @property
    def period_s(self) -> int:
        return self.length_s + self.grace_s + self.lead_s

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
        floor: int,
        quota: int,
        tokens: int | None = None,
        nodes: Sequence[str] = (),
        database: str | None = None,
    ) -> None:
        """``nodes`` on a ``database``, in place of one coordinator on a file."""
        self._tokens = tokens
        self._nodes, self._database = nodes, database
        self._folder, self._pace, self._ports = folder, pace, ports
        self._witnesses, self._seed, self._floor, self._quota = witnesses, seed, floor, quota
        self.admin_key = os.urandom(32).hex()
        #: That signs the relay's counts, in hexadecimal; known once it is made.
        self.relay_key = ""
        self._token = os.urandom(24).hex()

    def write_servers(self) -> None:
        """Those of witnesses, coordinator and relay; each witness has its key and its memory then."""
        log_key = os.urandom(SEED_BYTES)
        keys = [self._witness(name, SigningKey(log_key)) for name in self._witnesses]
        self._coordinator(keys, log_key)
        self._relay()

    def _host(self, name: str) -> str:  # noqa: ARG002  (others spread theirs)
        """The address on which a server listens."""
        return "127.0.0.1"

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
        if self._tokens is not None:
            make_token_seed(self._folder / SEED_FILE)
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
                "relays": [{"name": RELAY, "token_sha256": hashlib.sha256(self._token.encode()).hexdigest()}],
                **log,
                **(node if self._nodes else {}),
                **({} if self._tokens is None else {"tokens": {"seed_file": SEED_FILE}}),
            },
        )

    def _relay(self) -> None:
        self.relay_key = make_key(self._folder / "relay.key").data.hex()
        self._write(
            RELAY,
            {
                "listen": {"host": "127.0.0.1", "port": self._ports[RELAY]},
                "gateway": {
                    "url": f"http://127.0.0.1:{self._ports[COORDINATOR]}",
                    "token_file": str(self._folder / "relay.token"),
                    "retry_ms": 100,
                },
                "relay": {"mode": RELAY_MODE, "path": RELAY_PATH},
                "epochs": {
                    "origin_ms": ORIGIN_MS,
                    "period_s": self._pace.period_s,
                    "deposit_after_s": self._pace.deposit_after_s,
                },
                "clients": {"known_by": "credential", "floor": self._floor, "quota": self._quota, "fetches": 1_000_000},
                "store": {"path": str(self._folder / "relay.sqlite")},
                "signing": {"key_file": str(self._folder / "relay.key")},
                **(
                    {}
                    if self._tokens is None
                    else {"tokens": {"seed_file": str(self._folder / SEED_FILE), "quota": self._tokens}}
                ),
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

    def write_host(self, name: str, host: HostOf, digest: str, relay_url: str) -> None:
        """That of a host, whose devices join the experiment at once."""
        folder = self._folder / "devices"
        folder.mkdir(mode=0o700, exist_ok=True)
        self._write(
            name,
            {
                "device": {"folder": str(folder)},
                "relay": {"urls": [relay_url]},
                "traffic": {"daily_bytes": 10**12},
                "status": {"listen": f"127.0.0.1:{self._ports[name]}"},
                # One of each and not two: hundreds of devices share a machine of two cores here.
                "trust": {"refetches": 1, "receipts": 1},
                # Made-up people: hundreds of them hide nobody.
                "consent": {"policy": "unsafe-accept-anything"},
                "testing": {
                    "clock": str(self._folder / "clock"),
                    "seed": self._seed,
                    "people": str(host.people),
                    "first": host.first,
                    "count": host.count,
                    "join": [digest],
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
