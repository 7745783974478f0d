"""The settings files of a deployment that is made to be disturbed: nodes or one coordinator, and a relay of each kind.

Half of the packages take a relay that keeps them for its deposit (mode round), half one that hands each of them on at
once (mode forward): so both a relay's disk and the nodes' commits stand between a package and its acknowledgement.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from secvm.coordinator.main import KEY_FILE, LOG_KEY_FILE
from secvm.crypto.signing import SEED_BYTES
from secvm.relay.main import make_key
from secvm.runtime.settings import make_secret
from secvm.testing.federation_settings import (
    COORDINATOR,
    ORIGIN_MS,
    RELAY,
    RELAY_PATH,
    FederationSettings,
    HostOf,
)

#: The relay that keeps nothing.
FORWARD = "forward"
#: Seconds of the machine. So long after a driver's last word another one drives; and so long a relay waits for a node.
LEASE_S = 1.5
_GATEWAY_TIMEOUT_S = 6.0


class ChaosSettings(FederationSettings):
    """Writes them into one folder."""

    #: Told before anything is written. Names of nodes; none: one coordinator with a file of its own.
    nodes: Sequence[str] = ()
    #: On which address a server listens, where it is not loopback.
    hosts: Mapping[str, str] = {}
    #: Where the database is.
    database_url: str | None = None
    #: Where state is kept that shall be on a disk of its own: "relay", "coordinator".
    disks: Mapping[str, Path] = {}

    def _host(self, name: str) -> str:
        return self.hosts.get(name, "127.0.0.1")

    def _state(self, name: str) -> Path:
        return self.disks.get(name, self._folder) / name

    def _coordinator(self, witnesses: Sequence[Mapping[str, Any]], log_key: bytes) -> None:
        make_secret(self._folder / "relay.token", self._token.encode())
        signing_key = os.urandom(SEED_BYTES)
        for name in self.nodes or [COORDINATOR]:
            state = self._state(name)
            state.mkdir(mode=0o700)
            (state / "admin.sha256").write_text(hashlib.sha256(self.admin_key.encode()).hexdigest() + "\n")
            make_secret(state / LOG_KEY_FILE, log_key)
            make_secret(state / KEY_FILE, signing_key)
            self._write(
                name,
                {
                    "listen": {"host": self._host(name), "port": self._ports[name]},
                    "state": {"folder": str(state)},
                    "epochs": {"origin_ms": ORIGIN_MS, "period_s": self._pace.period_s, "lead_s": self._pace.lead_s},
                    "testing": {"clock": "clock"},
                    "relays": [{"name": RELAY, "token_sha256": hashlib.sha256(self._token.encode()).hexdigest()}],
                    "log": {"name": self._log_name},
                    "witnesses": witnesses,
                    **self._of_many(name),
                },
            )

    def _of_many(self, name: str) -> dict[str, Any]:
        if not self.nodes:
            return {}
        assert self.database_url is not None
        return {
            "database": {"url": self.database_url},
            # Time goes quickly here: a view that is a second old would be a minute old.
            "node": {"name": name, "drives": True, "lease_s": LEASE_S, "poll_s": 0.2},
        }

    def _relay(self) -> None:
        self.relay_key = make_key(self._folder / "relay.key").data.hex()
        self.forward_key = make_key(self._folder / "forward.key").data.hex()
        (self._state(RELAY)).mkdir(mode=0o700)
        shared: dict[str, Any] = {
            "gateway": {
                "url": f"http://127.0.0.1:{self._ports['door']}",
                "token_file": str(self._folder / "relay.token"),
                "retry_ms": 100,
                "timeout_s": _GATEWAY_TIMEOUT_S,
                "deposit_timeout_s": _GATEWAY_TIMEOUT_S,
            },
            "epochs": {
                "origin_ms": ORIGIN_MS,
                "period_s": self._pace.period_s,
                "deposit_after_s": self._pace.deposit_after_s,
            },
            "clients": {"known_by": "credential", "floor": self._floor, "quota": self._quota, "fetches": 1_000_000},
            # In the federation's seconds, of which a window has a minute.
            "limits": {"retry_after_s": 1},
            "testing": {"clock": str(self._folder / "clock"), "any_credential": True},
        }
        self._write(
            RELAY,
            {
                **shared,
                "listen": {"host": "127.0.0.1", "port": self._ports[RELAY]},
                "relay": {"mode": "round", "path": RELAY_PATH},
                "store": {"path": str(self._state(RELAY) / "relay.sqlite")},
                "signing": {"key_file": str(self._folder / "relay.key")},
            },
        )
        self._write(
            FORWARD,
            {
                **shared,
                "listen": {"host": "127.0.0.1", "port": self._ports[FORWARD]},
                "relay": {"mode": "forward", "path": RELAY_PATH},
            },
        )

    def write_host(self, name: str, host: HostOf, digest: str, relay_url: str) -> None:
        """That of a host; it fetches by both relays."""
        super().write_host(name, host, digest, relay_url)
        path = self._folder / f"{name}.toml"
        other = f"http://127.0.0.1:{self._ports['forward-door']}{RELAY_PATH}"
        path.write_text(path.read_text().replace(f'["{relay_url}"]', f'["{relay_url}", "{other}"]'))


__all__ = ["FORWARD", "LEASE_S", "ChaosSettings"]
