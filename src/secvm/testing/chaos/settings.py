"""The settings files of a deployment that is made to be disturbed: nodes or one coordinator, and a relay of each kind.

Half of the packages take a relay that keeps them for its deposit (mode round), half one that hands each of them on at
once (mode forward): so both a relay's disk and the nodes' commits stand between a package and its acknowledgement.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from secvm.relay.main import make_key
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
#: In front of the relay that keeps, and of this one. "coordinator" is the door before the nodes.
RELAY_DOOR, FORWARD_DOOR = "relay-door", "forward-door"
#: Seconds of the machine that a relay waits for a node.
_GATEWAY_TIMEOUT_S = 6.0


class ChaosSettings(FederationSettings):
    """Writes them into one folder."""

    #: Told before anything is written: on which address a server listens, where that is not loopback.
    hosts: Mapping[str, str] = {}
    #: Folders on disks of their own, for the state of "relay" or "coordinator".
    disks: Mapping[str, Path] = {}

    def _host(self, name: str) -> str:
        return self.hosts.get(name, "127.0.0.1")

    def _state(self, name: str) -> Path:
        return self.disks.get(name, self._folder) / name

    def _relay(self) -> None:
        self.relay_key = make_key(self._folder / "relay.key").data.hex()
        self.forward_key = make_key(self._folder / "forward.key").data.hex()
        (self._state(RELAY)).mkdir(mode=0o700)
        shared: dict[str, Any] = {
            "gateway": {
                "url": f"http://127.0.0.1:{self._ports[COORDINATOR]}",
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
        other = f"http://127.0.0.1:{self._ports[FORWARD_DOOR]}{RELAY_PATH}"
        path.write_text(path.read_text().replace(f'["{relay_url}"]', f'["{relay_url}", "{other}"]'))


__all__ = ["FORWARD", "FORWARD_DOOR", "RELAY_DOOR", "ChaosSettings"]
