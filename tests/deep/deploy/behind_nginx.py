"""A federation whose parties know each other by nginx alone: device → relays → coordinator → witness, as in deploy/."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from secvm.testing.federation import Federation
from secvm.testing.federation_settings import COORDINATOR, ENTRY, MIX, RELAY
from tests.deep.deploy.nginx import Nginx
from tests.deep.tls import Authority

WITNESS = "witness-0"
#: The shipped file before each party, and the address that the party has in it.
BEFORE = {
    COORDINATOR: ("nginx-coordinator.conf", "127.0.0.1:8750"),
    **dict.fromkeys((RELAY, ENTRY, MIX), ("nginx-relay.conf", "127.0.0.1:8480")),
    WITNESS: ("nginx-witness.conf", "127.0.0.1:8490"),
}


class NginxBefore:
    """The proxy before one party; nginx is one process for all of them."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"https://127.0.0.1:{port}"

    def start(self) -> None:
        """Nothing: ``FederationBehindNginx`` starts nginx."""

    def close(self) -> None:
        """Nothing: ``FederationBehindNginx`` ends nginx."""


class FederationBehindNginx(Federation):
    """Coordinator, relays and one witness, each behind the shipped file for it; nginx runs as long as they do."""

    def __init__(self, folder: Path, *, authority: Authority, **options: Any) -> None:
        """``authority``: of nginx's certificate. Whoever starts this trusts it."""
        self.nginx = Nginx(folder / "nginx", authority)
        self._running = ExitStack()
        super().__init__(folder, **{"witnesses": 1, "doors": self._make_door, **options})

    def _make_door(self, party: str, places: Sequence[tuple[str, int]], port: int) -> NginxBefore:
        site, shipped = BEFORE[party]
        self.nginx.add(site, {shipped: f"127.0.0.1:{places[0][1]}"}, port)
        return NginxBefore(port)

    def outside(self, party: str) -> int:
        """The port of nginx before a party."""
        door = self.door_before[party]
        assert isinstance(door, NginxBefore)
        return door.port

    def start_servers(self) -> None:
        """nginx first."""
        self._running.enter_context(self.nginx.running())
        super().start_servers()

    def stop(self) -> None:
        """nginx last."""
        super().stop()
        self._running.close()
