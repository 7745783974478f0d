"""The settings files of a deployment that is made to be disturbed: nodes or one coordinator, and relays behind doors.

With a guarantee there are an entry relay and a mixing relay. Else two relays hold half of the packages each until they
deposit them: a relay's disk stands between a package and its acknowledgement, and the nodes' commits between a deposit
and its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from secvm.relay.main import make_key
from secvm.testing.federation_relays import RoleRelay
from secvm.testing.federation_settings import (
    COORDINATOR,
    ORIGIN_MS,
    RELAY,
    RELAY_PATH,
    FederationSettings,
    HostOf,
)

#: The second of two relays that hold packages.
SECOND = "second"
#: Seconds of the machine that a relay waits for a node.
_GATEWAY_TIMEOUT_S = 6.0
#: In the federation's seconds, of which a window has a minute.
_LIMITS = {"retry_after_s": 1}


def door_of(relay: str) -> str:
    """The name of the port in front of a relay. "coordinator" is the door before the nodes."""
    return f"{relay}-door"


class ChaosSettings(FederationSettings):
    """Writes them into one folder."""

    #: Told before anything is written: on which address a server listens, where that is not loopback.
    hosts: Mapping[str, str] = {}
    #: Where everybody reaches the relays' doors.
    doors: str = "127.0.0.1"
    #: Of each relay that holds packages.
    relay_keys: dict[str, str]
    #: Folders on disks of their own, for the state of a relay or of "coordinator".
    disks: Mapping[str, Path] = {}

    def _host(self, name: str) -> str:
        return self.hosts.get(name, "127.0.0.1")

    def _state(self, name: str) -> Path:
        return self.disks.get(name, self._folder) / name

    def _relay(self) -> None:
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
            "clients": {"known_by": "credential", "quota": self._quota, "fetches": 1_000_000},
            "limits": _LIMITS,
            "testing": {"clock": str(self._folder / "clock"), "any_credential": True},
        }
        self.relay_keys = {}
        for name in (RELAY, SECOND):
            self.relay_keys[name] = make_key(self._folder / f"{name}.key").data.hex()
            self._state(name).mkdir(mode=0o700)
            self._write(
                name,
                {
                    **shared,
                    "listen": {"host": "127.0.0.1", "port": self._ports[name]},
                    "relay": {"path": RELAY_PATH},
                    "store": {"path": str(self._state(name) / "relay.sqlite")},
                    "signing": {"key_file": str(self._folder / f"{name}.key")},
                },
            )

    def _role_relay(self, relay: RoleRelay) -> dict[str, Any]:
        tables = super()._role_relay(relay)
        tables["gateway"] |= {"timeout_s": _GATEWAY_TIMEOUT_S}
        return {**tables, "limits": _LIMITS}

    @property
    def relay_url(self) -> str:
        return self.role_url(RELAY)

    def role_url(self, role: str) -> str:
        return f"http://{self.doors}:{self._ports[door_of(role)]}{RELAY_PATH}"

    def write_host(self, name: str, host: HostOf, digest: str) -> None:
        """That of a host; it fetches by both relays."""
        super().write_host(name, host, digest)
        if self.role_relays:
            return
        path = self._folder / f"{name}.toml"
        other = self.role_url(SECOND)
        path.write_text(path.read_text().replace(f'["{self.relay_url}"]', f'["{self.relay_url}", "{other}"]'))


__all__ = ["SECOND", "ChaosSettings", "door_of"]
