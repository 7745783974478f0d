"""A simulated node of the coordinator: the real ``Node`` with all its parts, on the common database.

What is missing is the server that reads requests from sockets, and the loop that a driver has for itself: here is one
loop for all.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from functools import lru_cache
from pathlib import Path
from typing import cast

from secvm.coordinator.assembly import LogKeeper
from secvm.coordinator.experiments.operator_routes import PREFIX
from secvm.coordinator.frontend import ProcessParts
from secvm.coordinator.log.cosigning import Cosigner
from secvm.coordinator.nodes.node import Node
from secvm.coordinator.settings import CoordinatorProgramSettings
from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.beacons.sources import LocalUnsafeBeacon
from secvm.runtime.http.server import Handler, HttpRequest, HttpResponse
from secvm.runtime.logs import Log
from secvm.runtime.service import end_all
from secvm_lab.simulation.machines.database import Database
from secvm_lab.simulation.machines.lives import Process
from secvm_lab.simulation.machines.loop import SimulatedClock
from secvm_lab.simulation.machines.network import Network, Session
from secvm_lab.simulation.question import (
    ADMIN_KEY,
    FRESHNESS_S,
    GRID,
    LEASE_S,
    RELAY_TOKEN,
    NoMetrics,
    Nowhere,
    log_terms,
    parties,
    sha256,
)

#: How often nodes look for what others did, where nobody tells them; the database does.
POLL_S = 45.0


@lru_cache(maxsize=8)
def settings(number: int) -> CoordinatorProgramSettings:
    """What a node's file would say."""
    return CoordinatorProgramSettings.model_validate(
        {
            "state": {"folder": Path("state")},
            "epochs": {"period_s": GRID.period_s, "lead_s": GRID.lead_s},
            "relays": ({"name": "relay", "token_sha256": sha256(RELAY_TOKEN).hex()},),
            "log": {"name": log_terms().name, "freshness_s": FRESHNESS_S},
            "witnesses": tuple(
                {"name": one.name, "url": f"http://witness{i}", "key": one.key.data.hex()}
                for i, one in enumerate(log_terms().witnesses)
            ),
            "database": {"url": "postgresql://simulated"},
            "node": {"name": f"node-{number}", "lease_s": LEASE_S, "poll_s": POLL_S},
            "testing": {"clock": Path("clock")},
        }
    )


class _Cosigner(Cosigner):
    """Asks witnesses over the simulated network."""

    network: Network

    def _client(self) -> Session:
        return Session(self.network, "witness")


class _Node(Node):
    """In the loop that there is, without sockets."""

    def __init__(self, held: ProcessParts, network: Network, steady: SimulatedClock) -> None:
        super().__init__(held, log_key=parties().log, source=LocalUnsafeBeacon(), steady=steady)
        self._network = network
        self.publisher = self._frontend.publisher
        self.ingest = self._frontend.ingest

    @property
    def handler(self) -> Handler:
        """What a server would be given."""
        return self._frontend._server.handler  # noqa: SLF001  (the server itself never starts)

    @property
    def drives(self) -> bool:
        return self._election.term is not None

    def hear(self) -> None:
        """The database says that something has changed."""
        self._view.poke()
        if self._look is not None:
            self._look()

    async def run(self, stop: asyncio.Event) -> None:
        self._frontend.ingest.start()
        await self._view.refresh()
        tasks = self._tasks(stop)
        try:
            await asyncio.gather(*tasks)
        finally:
            await end_all(*tasks)

    async def _measure(self, stop: asyncio.Event) -> None:
        await stop.wait()

    async def _drive(self, term: int, ending: asyncio.Event) -> None:
        await self._view.pause()
        try:
            await self._term(term, ending, asyncio.get_running_loop())
        finally:
            self._nudge = self._look = self._health = None
            self._view.resume()

    def _log_keeping(self, store: CoordinatorStore) -> LogKeeper | None:
        keeping = super()._log_keeping(store)
        assert keeping is not None
        # Made of the same as the one that asks over sockets.
        keeping._cosigner.__class__ = _Cosigner  # noqa: SLF001
        cast("_Cosigner", keeping._cosigner).network = self._network  # noqa: SLF001
        return keeping


class SimulatedNode(Process):
    """One node; ``start`` it, and again after each end."""

    def __init__(
        self,
        number: int,
        clock: SimulatedClock,
        database: Database,
        network: Network,
        dice: random.Random,
        steady: SimulatedClock,
    ) -> None:
        """``told`` hears what is answered under a seal: a capsule's digest, and the problem."""
        super().__init__(f"node {number}")
        self.number, self.clock = number, clock
        self._database, self._network, self._dice = database, network, dice
        self._steady = steady

    def begin(self) -> None:
        held = ProcessParts(
            settings=settings(self.number),
            store=self._database.node(self.life),
            clock=self.clock,
            dice=self._dice.randbytes,
            log=Log(Nowhere(), self.clock, "coordinator"),
            metrics=NoMetrics(),
            public=None,
            key=parties().coordinator,
            terms=log_terms(),
            admin_sha256=sha256(ADMIN_KEY),
            newest_pulse=lambda: None,
        )
        self._node = _Node(held, self._network, self._steady)
        self._database.listeners[self.name] = self._node.hear
        self.life.main(self._node.run(asyncio.Event()))

    @property
    def drives(self) -> bool:
        """Whether it drives, as far as it knows."""
        return not self.life.dead and self._node.drives

    def public(self, path: str) -> tuple[bytes, str] | None:
        """What it shows at a path."""
        return self._node.publisher.public(path)

    def handle(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        return self._node.handler(request)

    async def operate(self, action: str, digest: str) -> int:
        """What the operator says to this node; the answer's status."""
        headers = {"authorization": f"Bearer {ADMIN_KEY}"}
        answer = self.handle(HttpRequest("POST", f"{PREFIX}/{digest}/{action}", "", headers, b"", "nobody"))
        return (await answer if isinstance(answer, Awaitable) else answer).status
