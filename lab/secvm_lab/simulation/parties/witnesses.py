"""A simulated witness: its real doors, decision and store, on a simulated disk."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Awaitable
from functools import lru_cache
from pathlib import Path

from secvm.crypto.notes import Note
from secvm.protocol.log.checkpoints import Checkpoint
from secvm.protocol.log.proofs import CosigningRequest
from secvm.runtime.http.server import HttpRequest, HttpResponse
from secvm.runtime.logs import Log
from secvm.witness.decision import KnownLog, Logs
from secvm.witness.server import SUBMIT_PATH, WitnessDoors
from secvm.witness.store import WitnessStore
from secvm_lab.simulation.machines.clock import SimulatedClock
from secvm_lab.simulation.machines.disk import Disk
from secvm_lab.simulation.machines.lives import Process
from secvm_lab.simulation.question import NoMetrics, Nowhere, log_terms, parties


@lru_cache(maxsize=1)
def _empty() -> bytes:
    return WitnessStore.empty()


class SimulatedWitness(Process):
    """One witness; ``start`` it, and again after each end."""

    store_class = WitnessStore

    def __init__(self, number: int, clock: SimulatedClock) -> None:
        super().__init__(f"witness {number}")
        self.number, self.clock = number, clock
        self.disk = Disk()
        self.disk.synced = _empty()
        #: All under which it has put its name, for somebody to see.
        self.told: list[Checkpoint] = []

    def begin(self) -> None:
        self.store = self.store_class(Path(self.name), database=self.disk.connect(self.life))
        own = parties().witnesses[self.number]
        self._doors = WitnessDoors(
            self.store,
            Logs([KnownLog.of_coordinator(log_terms().name, log_terms().key)]),
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
