"""Deployment: a federation that is made to be disturbed.

    with Deployment(folder, hosts=…, seed=…, nodes=3, database=database) as deployment:
        deployment.start_servers()
        deployment.begin(specification)

Beside what a ``Federation`` has: several coordinator nodes over one database, a relay of each kind, and doors
(``passage``) in front of nodes and relays. What the coordinator publishes is asked for at the nodes' door, as everybody
does; what relays acknowledge goes by ``acknowledged``. With a network each node is a machine of its own, with a cable.
"""

from __future__ import annotations

import contextlib
import functools
import re
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from secvm.testing.chaos.accounting import Acknowledged
from secvm.testing.chaos.database import Database
from secvm.testing.chaos.network import HUB_ADDRESS, Network, enter
from secvm.testing.chaos.passage import Answer, Passage, Request
from secvm.testing.chaos.settings import FORWARD, ChaosSettings
from secvm.testing.federation import Federation, HostOf, RoundCounts
from secvm.testing.federation_settings import COORDINATOR, RELAY, RELAY_PATH, FederationSettings, Pace

#: In front of the nodes, the relay that keeps, and the one that forwards.
DOOR, RELAY_DOOR, FORWARD_DOOR = "door", "relay-door", "forward-door"
#: Whoever may be stopped or cut off is not waited for.
_PROBE_S = 0.8
#: A long lead: devices ask for a manifest again and again until somebody is there to answer.
PACE = Pace(length_s=60, grace_s=8, lead_s=600, rate=20.0)


class Part(StrEnum):
    """A part of a round."""

    JOINING = "joining"
    WINDOW = "window"
    CLOSING = "closing"
    COUNTING = "counting"


class Deployment(Federation):
    """Use it in a ``with``: at the end nothing runs any more."""

    def __init__(
        self,
        folder: Path,
        *,
        hosts: Sequence[HostOf],
        seed: str,
        nodes: int = 1,
        database: Database | None = None,
        network: Network | None = None,
        disks: Mapping[str, Path] | None = None,
        patience_s: float = 120.0,
    ) -> None:
        """Without a database there is one coordinator, with a file of its own. ``disks``: small ones for the state of
        "relay" or "coordinator".
        """
        self.database = database
        self.network = network
        self.node_names = [COORDINATOR] if database is None else [f"node-{number}" for number in range(nodes)]
        self._disks = dict(disks or {})
        self._addresses: dict[str, str] = {}
        if network is not None:
            self._addresses = {name: network.add(name) for name in self.node_names}
        super().__init__(folder, hosts=hosts, seed=seed, pace=PACE, patience_s=patience_s)
        if network is not None:
            self._addresses |= dict.fromkeys(self.witness_names, HUB_ADDRESS)
            assert isinstance(self._settings, ChaosSettings)
            self._settings.hosts = self._addresses
        self.acknowledged = Acknowledged(RELAY_PATH)
        #: What relays answered to packages, by status.
        self.answers: Counter[int] = Counter()
        #: Processes that ended without being killed, and were started again.
        self.ended_by_themselves: Counter[str] = Counter()
        self._doors = contextlib.ExitStack()
        self._passages: dict[str, Passage] = {}

    def _make_settings(self, *, seed: str, floor: int, quota: int) -> FederationSettings:
        ports = {name: self._ports[name] for name in self._ports}
        settings = ChaosSettings(
            self.folder,
            pace=self.pace,
            # The door is where a relay and everybody else finds the coordinator.
            ports={**ports, COORDINATOR: ports.get(COORDINATOR, ports[DOOR])},
            witnesses=self.witness_names,
            seed=seed,
            floor=floor,
            quota=quota,
        )
        settings.nodes = [] if self.database is None else self.node_names
        settings.database_url = None if self.database is None else self.database.url
        settings.disks = self._disks
        return settings

    # ── who there is, and where ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def server_names(self) -> list[str]:
        return [*self.witness_names, *self.node_names, RELAY, FORWARD]

    @property
    def door_names(self) -> list[str]:
        """What is no party: the doors."""
        return [DOOR, RELAY_DOOR, FORWARD_DOOR]

    def address(self, name: str) -> str:
        return self._addresses.get(name, "127.0.0.1")

    @property
    def relay_url(self) -> str:
        return f"http://127.0.0.1:{self._ports[RELAY_DOOR]}{RELAY_PATH}"

    @property
    def coordinator_url(self) -> str:
        return f"http://127.0.0.1:{self._ports[DOOR]}"

    def ask(
        self,
        name: str,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        admin: bool = False,
        patience_s: float = 10.0,
    ) -> bytes:
        # Whatever is asked of the coordinator is asked at its door; who is asked for a node's own sake is named.
        asked = DOOR if name == COORDINATOR and path not in ("/health", "/metrics") else name
        return super().ask(asked, method, path, body, admin=admin, patience_s=patience_s)

    def _relays_told(self) -> list[dict[str, str]]:
        settings = self._settings
        assert isinstance(settings, ChaosSettings)
        forward = f"http://127.0.0.1:{self._ports[FORWARD_DOOR]}{RELAY_PATH}"
        return [
            {"url": self.relay_url, "key": settings.relay_key, "mode": "round"},
            {"url": forward, "key": settings.forward_key, "mode": "forward"},
        ]

    # ── its life ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def __enter__(self) -> Self:
        places = {
            DOOR: [(self.address(name), self._ports[name]) for name in self.node_names],
            RELAY_DOOR: [("127.0.0.1", self._ports[RELAY])],
            FORWARD_DOOR: [("127.0.0.1", self._ports[FORWARD])],
        }
        try:
            for name, found in places.items():
                watch = None if name == DOOR else self._watch
                passage = Passage(found, port=self._ports[name], watch=watch)
                self._passages[name] = self._doors.enter_context(passage)
        except BaseException:
            self._doors.close()
            raise
        return self

    def stop(self) -> None:
        with contextlib.ExitStack() as last:
            last.enter_context(self._doors)
            # Whoever was stopped hears nothing else.
            for name in self.children.names():
                with contextlib.suppress(OSError):
                    self.children.send(name, signal.SIGCONT)
            super().stop()

    def _start_server(self, name: str) -> None:
        kinds = {RELAY: "relay", FORWARD: "relay", **dict.fromkeys(self.witness_names, "witness")}
        arguments = [kinds.get(name, "coordinator"), "serve", "--config", str(self.folder / f"{name}.toml")]
        inside = None
        if self.network is not None and name in self.node_names:
            inside = functools.partial(enter, self.network.place(name))
        self.children.start(name, arguments, enter=inside)

    def _watch(self, request: Request, answer: Answer) -> None:
        if request.method == "POST" and request.path == RELAY_PATH:
            self.answers[answer.status] += 1
        self.acknowledged(request, answer)

    def passage(self, name: str) -> Passage:
        """A door."""
        return self._passages[name]

    # ── who drives ───────────────────────────────────────────────────────────────────────────────────────────────────

    def drivers(self) -> list[str]:
        """Nodes that say that they drive: one, most of the time."""
        if self.database is None:
            return [COORDINATOR]
        return [name for name in self.node_names if self._drives(name)]

    def _drives(self, name: str) -> bool:
        with contextlib.suppress(OSError):
            page = self.ask(name, "GET", "/metrics", patience_s=_PROBE_S).decode()
            return re.search(r"^secvm_coordinator_driving 1(\.0)?$", page, re.MULTILINE) is not None
        return False

    def well(self) -> bool:
        """Whether everybody answers, the database too, and somebody drives. Whoever ended by itself is started again,
        as a service manager would.
        """
        if not self.look_after():
            return False
        answering = all(self._answers(name) for name in self.names)
        return answering and bool(self.drivers())

    def look_after(self) -> bool:
        """Start again whoever has ended by itself; False while the database does not answer."""
        for name in self.children.ended():
            self.ended_by_themselves[name] += 1
            self.children.kill(name)
            self.children.restart(name)
        return self.database is None or self.database.revive()

    def _answers(self, name: str) -> bool:
        with contextlib.suppress(OSError):
            self.ask(name, "GET", "/health", patience_s=_PROBE_S)
            return True
        return False

    # ── a round, part by part ────────────────────────────────────────────────────────────────────────────────────────

    def play_part(self, part: Part, number: int, *, attending: int, budget: int, spent: Callable[[], bool]) -> None:
        """One part of a round; it ends when what it waits for is there, and ``spent()``."""
        opens, pace = self.opens_at(number), self.pace
        closes, counts = opens + 1000 * pace.length_s, RoundCounts()

        def look() -> RoundCounts:
            nonlocal counts
            counts = self.counts(number)
            return counts

        def all_joined() -> bool:
            return look().joined >= attending and spent()

        def all_acknowledged() -> bool:
            enough = look().acknowledged + counts.lost >= counts.joined * budget
            return counts.joined >= attending and enough and spent()

        match part:
            case Part.JOINING:
                # Askings spread over the grace after the round before; then there is only computing to wait for.
                fetched_by = opens - 1000 * (pace.lead_s - pace.grace_s)
                self.clock.creep_to(
                    opens, until=all_joined, what="devices to join", progress=look, run_until=fetched_by + 500
                )
                self.clock.leap_to(opens)
            case Part.WINDOW:
                self.clock.creep_to(closes, until=all_acknowledged, what="acknowledgements", progress=look)
            case Part.CLOSING:
                self.clock.leap_to(opens + int(1000 * pace.deposit_after_s))
                self.clock.run_to(
                    closes + 1000 * pace.grace_s - 1,
                    until=lambda: self.deposited(self.epoch(number)) and spent(),
                    what="the relay's deposit",
                )
            case Part.COUNTING:
                self.clock.run_to(
                    closes + 1000 * pace.grace_s,
                    until=lambda: self.following(number) is not None,
                    what="what follows",
                )

    def following(self, number: int) -> bytes | None:
        """The manifest after this round, or the ending; whoever ended by itself meanwhile is started again."""
        self.look_after()
        path = f"/v1/experiment/{self.digest}"
        return self.public(f"{path}/manifest/{number + 1}") or self.public(f"{path}/ending")

    def status_page(self) -> dict[str, Any]:
        """For whoever looks for a fault: what relays answered, and which doors are open."""
        return {
            "answers": dict(self.answers),
            "well": {name: passage.well() for name, passage in self._passages.items()},
        }


__all__ = ["DOOR", "FORWARD_DOOR", "PACE", "RELAY_DOOR", "Deployment", "Part"]
