"""A simulated relay and a simulated witness, each with its real doors and store, on a simulated disk.

The relay has its admission and its depositor besides, the witness its decision.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Awaitable
from functools import lru_cache
from pathlib import Path

from secvm.crypto.notes import Note
from secvm.protocol.log.checkpoints import Checkpoint
from secvm.protocol.log.proofs import CosigningRequest
from secvm.relay.admission import Admission, Allowance, Epochs, by_credential
from secvm.relay.deposits import Depositor
from secvm.relay.gateway import FetchKeys, GatewayClient, Turnstile
from secvm.relay.refusals import try_later
from secvm.relay.server import FetchDoors
from secvm.relay.store import Holding, RoundStore
from secvm.runtime.http.server import HttpRequest, HttpResponse
from secvm.runtime.logs import Log
from secvm.witness.decision import KnownLog
from secvm.witness.server import SUBMIT_PATH, WitnessDoors
from secvm.witness.store import WitnessStore
from secvm_lab.simulation.machines.disk import Disk
from secvm_lab.simulation.machines.lives import Process
from secvm_lab.simulation.machines.loop import SimulatedClock
from secvm_lab.simulation.machines.network import Network, Session
from secvm_lab.simulation.question import (
    BUDGET,
    COORDINATOR_URL,
    DEPOSIT_AFTER_S,
    GRID,
    RELAY_TOKEN,
    NoMetrics,
    Nowhere,
    log_terms,
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

    def __init__(self, clock: SimulatedClock, network: Network, dice: random.Random) -> None:
        super().__init__("relay")
        self.clock = clock
        self._network, self._dice = network, dice
        self.disk = Disk()
        self.store: RoundStore | None = None

    def begin(self) -> None:
        gateway = _Client(self._network)
        # SQLite's name of the file is for messages alone.
        store = RoundStore(Path("relay"), self._dice.randbytes, database=self.disk.connect(self.life))
        self.store = store
        allowance = Allowance(2 * BUDGET, 10_000, 100, 10_000)
        self._admission = Admission(EPOCHS, allowance, self._dice.randbytes, store.read)
        self._admission.lowest = store.sealed() + 1
        self._holding = Holding(store, self._admission, waiting=1000, retry_after_s=_RETRY_S)
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
        self.life.main(self._run(gateway))

    def end(self) -> None:
        self.disk.crash(power_cut=True)

    def handle(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        return self._doors.handle(request)

    async def _run(self, gateway: GatewayClient) -> None:
        await gateway.__aenter__()
        depositor = Depositor(
            self._holding,
            EPOCHS,
            gateway,
            clock=self.clock,
            steady=self.clock,
            key=parties().relays[0],
            log=Log(Nowhere(), self.clock, "relay"),
            metrics=NoMetrics(),
            first_pause_s=0.5,
            timeout_s=10.0,
        )
        await depositor.run()


@lru_cache(maxsize=1)
def _empty() -> bytes:
    return WitnessStore.empty()


class SimulatedWitness(Process):
    """One witness; ``start`` it, and again after each end."""

    def __init__(self, number: int, clock: SimulatedClock) -> None:
        super().__init__(f"witness {number}")
        self.number, self.clock = number, clock
        self.disk = Disk()
        self.disk.synced = _empty()
        #: All under which it has put its name, for somebody to see.
        self.told: list[Checkpoint] = []

    def begin(self) -> None:
        self.store = WitnessStore(Path(self.name), database=self.disk.connect(self.life))
        own = parties().witnesses[self.number]
        log = KnownLog.of_coordinator(log_terms().name, log_terms().key)
        self._doors = WitnessDoors(
            self.store,
            {log.origin: log},
            name=own.name,
            key=own.key,
            clock=self.clock,
            log=Log(Nowhere(), self.clock, "witness"),
            metrics=NoMetrics(),
            waiting=100,
            retry_after_s=1,
        )

    def end(self) -> None:
        self.disk.crash(power_cut=True)

    def handle(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        return self._doors.handle(request)

    def watch(self, request: HttpRequest, answer: HttpResponse | None) -> None:
        """What it has said to somebody."""
        if answer is not None and answer.status == 200 and request.path == SUBMIT_PATH:
            body = CosigningRequest.from_bytes(request.body)
            self.told.append(Checkpoint.from_text(Note.from_bytes(body.checkpoint).text))

    def seen(self) -> tuple[dict[str, Checkpoint], int]:
        """What its disk would have after a power cut now: what it has cosigned last, and how many forks."""
        with contextlib.closing(sqlite3.connect(":memory:")) as db:
            db.deserialize(self.disk.synced)
            rows = db.execute("SELECT origin, size, root FROM seen").fetchall()
            (forks,) = db.execute("SELECT count(*) FROM forks").fetchone()
        return {origin: Checkpoint(origin, size, root) for origin, size, root in rows}, forks
