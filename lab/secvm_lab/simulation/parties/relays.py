"""A simulated relay: its real doors, admission, store and depositor, on a simulated disk."""

from __future__ import annotations

import random
from collections.abc import Awaitable
from pathlib import Path

from secvm.crypto.sealing.capsules import MEDIA_TYPE
from secvm.relay.admission import Admission, Allowance, by_credential
from secvm.relay.deposits import Depositor
from secvm.relay.epochs import Epochs
from secvm.relay.gateway import DEPOSIT_PATH, FetchKeys, GatewayClient, Turnstile
from secvm.relay.package_hold import Holding
from secvm.relay.refusals import try_later
from secvm.relay.server import FetchDoors
from secvm.relay.store import RoundStore
from secvm.runtime.http.server import HttpRequest, HttpResponse
from secvm.runtime.logs import Log
from secvm_lab.simulation.machines.clock import SimulatedClock
from secvm_lab.simulation.machines.disk import Disk
from secvm_lab.simulation.machines.lives import Process
from secvm_lab.simulation.machines.network import Network
from secvm_lab.simulation.parties.sessions import Session
from secvm_lab.simulation.question import (
    BUDGET,
    COORDINATOR_URL,
    DEPOSIT_AFTER_S,
    GRID,
    RELAY_TOKEN,
    NoMetrics,
    Nowhere,
    parties,
)

EPOCHS = Epochs(GRID.origin_ms, 1000 * GRID.period_s, 1000 * DEPOSIT_AFTER_S)
_RETRY_S = 1


class _Client(GatewayClient):
    """The way to the gateway, over the simulated network."""

    def __init__(self, network: Network) -> None:
        super().__init__(COORDINATOR_URL, token=RELAY_TOKEN)
        self._client = Session(network, "deposit")


class SimulatedRelay(Process):
    """The relay; ``start`` it, and again after each end."""

    store_class = RoundStore

    def __init__(self, clock: SimulatedClock, network: Network, dice: random.Random) -> None:
        super().__init__("relay")
        self.clock = clock
        self._network, self._dice = network, dice
        self.disk = Disk()
        self.store: RoundStore | None = None

    def begin(self) -> None:
        gateway = _Client(self._network)
        # SQLite's name of the file is for messages alone.
        store = self.store_class(Path("relay"), self._dice.randbytes, database=self.disk.connect(self.life))
        self.store = store
        allowance = Allowance(2 * BUDGET, 10_000, 100, 10_000)
        self._admission = Admission(EPOCHS, allowance, self._dice.randbytes, store.read)
        self._admission.lowest = store.sealed() + 1
        self._holding = self.make_holding(store)
        self._doors = FetchDoors(
            "/r",
            self._holding,
            Turnstile(gateway, 100, lambda: try_later(_RETRY_S)),
            FetchKeys(gateway, EPOCHS, self.clock, NoMetrics(), store),
            admission=self._admission,
            identify=by_credential(None),
            clock=self.clock,
            metrics=NoMetrics(),
            package_bytes=256,
            capsule_bytes=4096,
            retry_after_s=_RETRY_S,
            role="plain",
        )
        self.life.main(self._run(gateway, store))

    def end(self) -> None:
        self.disk.crash(power_cut=True)

    def handle(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        return self._doors.handle(request)

    def make_holding(self, store: RoundStore) -> Holding:
        """What keeps capsules; a broken relay has another."""
        return Holding(store, waiting=1000, retry_after_s=_RETRY_S)

    async def _run(self, gateway: GatewayClient, store: RoundStore) -> None:
        await gateway.__aenter__()
        await self._depositor(gateway, store).run()

    def _depositor(self, gateway: GatewayClient, store: RoundStore) -> Depositor:
        async def close(epoch: int) -> None:
            self._admission.lowest = max(self._admission.lowest, epoch)
            await self._holding.flush()

        async def send(body: bytes) -> int:
            return (await gateway.post(DEPOSIT_PATH, body, MEDIA_TYPE, timeout_s=10.0)).status

        return Depositor(
            store,
            EPOCHS,
            clock=self.clock,
            steady=self.clock,
            key=parties().relays[0],
            close=close,
            send=send,
            log=Log(Nowhere(), self.clock, "relay"),
            metrics=NoMetrics(),
            first_pause_s=0.5,
        )
