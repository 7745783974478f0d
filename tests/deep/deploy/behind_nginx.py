"""A federation whose parties know each other by nginx alone: device → relays → coordinator → witness, as in deploy/."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from secvm.crypto.signing import SigningKey
from secvm.testing.federation import Federation
from secvm.testing.federation_relays import ENTRY, MIX
from secvm.testing.federation_settings import COORDINATOR, RELAY, RELAY_PATH, FederationSettings
from tests.deep.deploy.nginx import Nginx
from tests.system.tls import Authority

WITNESS = "witness-0"
#: The shipped file before each party, and the address that the party has in it.
BEFORE = {
    COORDINATOR: ("nginx-coordinator.conf", "127.0.0.1:8750"),
    **dict.fromkeys((RELAY, ENTRY, MIX), ("nginx-relay.conf", "127.0.0.1:8480")),
    WITNESS: ("nginx-witness.conf", "127.0.0.1:8490"),
}


def door(party: str) -> str:
    """What the proxy before a party is called."""
    return f"nginx before {party}"


class SettingsBehindNginx(FederationSettings):
    """As a federation's, but with the proxies' addresses."""

    def _outside(self, party: str) -> str:
        return f"https://127.0.0.1:{self._ports[door(party)]}"

    @property
    def relay_url(self) -> str:
        return self._outside(RELAY) + RELAY_PATH

    def role_url(self, role: str) -> str:
        return self._outside(role) + RELAY_PATH

    @property
    def _gateway_url(self) -> str:
        return self._outside(COORDINATOR)

    def _witness(self, name: str, log: SigningKey) -> dict[str, Any]:
        return {**super()._witness(name, log), "url": self._outside(name)}


class FederationBehindNginx(Federation):
    """Coordinator, relays and one witness, each behind the shipped file for it; nginx runs as long as they do."""

    def __init__(self, folder: Path, *, authority: Authority, **options: Any) -> None:
        """``authority``: of nginx's certificate. Whoever starts this trusts it."""
        super().__init__(folder, **{"witnesses": 1, **options})
        self.nginx = Nginx(folder / "nginx", authority)
        for party in self._shielded:
            site, shipped = BEFORE[party]
            self.nginx.add(site, {shipped: f"127.0.0.1:{self._ports[party]}"}, self.outside(party))
        self._running = ExitStack()

    @property
    def _shielded(self) -> list[str]:
        return [COORDINATOR, *self.relay_names, *self.witness_names]

    @property
    def door_names(self) -> list[str]:
        return [door(party) for party in self._shielded]

    def outside(self, party: str) -> int:
        """The port of nginx before a party."""
        return self._ports[door(party)]

    def start_servers(self) -> None:
        """nginx first."""
        self._running.enter_context(self.nginx.running())
        super().start_servers()

    def stop(self) -> None:
        """nginx last."""
        super().stop()
        self._running.close()

    def _make_settings(self, *, seed: str, quota: int) -> FederationSettings:
        return SettingsBehindNginx(
            self.folder,
            pace=self.pace,
            ports=self._ports,
            witnesses=self.witness_names,
            seed=seed,
            quota=quota,
            consent=self._consent,
        )
