"""A simulated node of the coordinator: all its real parts, on the common database."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any, cast

import aiohttp

from secvm.coordinator.admin import PREFIX, Admin
from secvm.coordinator.cosigning import Cosigner, WitnessAddress, first_of
from secvm.coordinator.driver import Driver
from secvm.coordinator.gateway import Gateway
from secvm.coordinator.ingest import Ingest, Reply
from secvm.coordinator.log_keeping import LogKeeping
from secvm.coordinator.package_routes import PackageRoutes
from secvm.coordinator.publisher import Publisher
from secvm.coordinator.receipt_shelf import Shelf
from secvm.coordinator.receipts import Receipts
from secvm.coordinator.server import Routes
from secvm.crypto.beacon import LocalUnsafeBeacon
from secvm.errors import StaleDriverError
from secvm.protocol.problems import Problem
from secvm.runtime.http_server import Request, Response, http_date
from secvm.testing.simulation.clock import SimulatedClock
from secvm.testing.simulation.database import LEASE_S, RENEW_S, Database
from secvm.testing.simulation.lives import Process
from secvm.testing.simulation.network import Network, Session
from secvm.testing.simulation.question import ADMIN_KEY, GRID, RELAY_TOKEN, NoMetrics, log_terms, parties, sha256


class _Ingest(Ingest):
    """Tells what was answered under a seal."""

    told: Callable[[bytes, Problem | None], None]

    def take_record(self, epoch: int, record: bytes, reply: Reply, spent: bytes = b"") -> asyncio.Future[Response]:
        def telling(problem: Problem | None) -> Response:
            self.told(record[:32], problem)
            return reply(problem)

        return super().take_record(epoch, record, telling, spent)


class _Keeping(LogKeeping):
    """Asks witnesses over the simulated network."""

    def __init__(self, network: Network, **named: Any) -> None:
        super().__init__(witnesses=[], source=LocalUnsafeBeacon(), **named)
        addresses = [WitnessAddress(key, f"http://witness{i}") for i, key in enumerate(log_terms().witness_keys)]
        self._cosigner = _Cosigner(network, self.logbook, addresses, named["clock"], wake=self._wake, metrics=NoMetrics())
        self.logbook.on_growth = self._grown


class _Cosigner(Cosigner):
    def __init__(self, network: Network, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._network = network

    def _session(self) -> aiohttp.ClientSession:
        return cast("aiohttp.ClientSession", Session(self._network, "witness"))


class SimulatedNode(Process):
    """One node; ``start`` it, and again after each end."""

    def __init__(
        self,
        number: int,
        clock: SimulatedClock,
        database: Database,
        shelf: Shelf,
        network: Network,
        dice: random.Random,
        told: Callable[[bytes, Problem | None], None],
    ) -> None:
        super().__init__(f"node {number}")
        self.number, self.clock = number, clock
        self._database, self._shelf, self._network, self._dice, self._told = database, shelf, network, dice, told
        self._starts = 0
        #: Whether it drives, as far as it knows.
        self.drives = False

    def begin(self) -> None:
        self._starts += 1
        self.drives = False
        self._store = self._database.node(self.life)
        self._ingest = _Ingest(self._store, self.clock, metrics=NoMetrics())
        self._ingest.told = self._told
        self._gateway = Gateway(dice=self._dice.randbytes, public=self.public, date=http_date(self.clock))
        self._packages = PackageRoutes(
            self._gateway, self._ingest, self.clock, tokens=[sha256(RELAY_TOKEN)], tests=True
        )
        self._become(None)

        async def run() -> None:
            self._ingest.start()
            await self._run()

        self.life.main(run())

    def public(self, path: str) -> tuple[bytes, str] | None:
        return self.publisher.public(path)

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        return self._routes.handle(request)

    def operate(self, action: str, digest: str) -> int:
        """What the operator says to this node; the answer's status."""
        headers = {"authorization": f"Bearer {ADMIN_KEY}"}
        return self._admin.handle(Request("POST", f"{PREFIX}/{digest}/{action}", "", headers, b"", "nobody")).status

    def _become(self, term: int | None) -> None:
        """The driver of a term, or one that follows."""
        store = self._store if term is None else self._store.driving(term)
        self._term = term
        receipts = Receipts(self._shelf, store=store, grid=GRID)
        self.publisher = Publisher(store, further=receipts.find)
        self._keeping = _Keeping(
            self._network,
            store=store,
            publisher=self.publisher,
            key=parties().log,
            terms=log_terms(),
            clock=self.clock,
        )
        self.driver = Driver(
            store=store,
            ingest=self._ingest,
            publisher=self.publisher,
            clock=self.clock,
            key=parties().coordinator,
            grid=GRID,
            dice=self._dice.randbytes,
            update=self._packages.update,
            receipts=receipts,
            veil=self._keeping.files,
            metrics=NoMetrics(),
        )
        self._keeping.woken = self.driver.wake
        self._admin = Admin(
            store=self._store,
            key=parties().coordinator,
            admin_sha256=sha256(ADMIN_KEY),
            grid=GRID,
            clock=self.clock,
            dice=self._dice.randbytes,
            wake=self.driver.wake,
            log=log_terms(),
        )
        self._routes = Routes(
            packages=self._packages, administration=self._admin, publisher=self.publisher, metrics=NoMetrics()
        )
        self.driver.prepare()

    async def _run(self) -> None:
        holder = f"{self.name} {self._starts}"
        while True:
            term = self._store.lead(holder, LEASE_S)
            if term is None:
                self.driver.prepare()
                await asyncio.sleep(RENEW_S)
                continue
            self._become(term)
            self.drives = True
            stop = asyncio.Event()
            try:
                with contextlib.suppress(StaleDriverError):
                    await first_of(
                        [
                            asyncio.ensure_future(self.driver.run(stop)),
                            asyncio.ensure_future(self._keeping.run(stop)),
                            asyncio.ensure_future(self._renew(holder, term)),
                        ]
                    )
            finally:
                self.drives = False
            self._become(None)

    async def _renew(self, holder: str, term: int) -> None:
        while self._store.lead(holder, LEASE_S) == term:
            await asyncio.sleep(RENEW_S)


__all__ = ["SimulatedNode"]
