"""Everything of a coordinator that has to do with its log, put together: the log, its files, witnesses, beacons."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from secvm.coordinator.log.beacon_records import Salting
from secvm.coordinator.log.cosigning import Cosigner, WitnessAddress, first_of
from secvm.coordinator.log.log_files import LogFiles
from secvm.coordinator.log.logbook import Logbook
from secvm.coordinator.publisher import Publisher
from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.beacons.sources import BeaconSource
from secvm.crypto.signing import SigningKey
from secvm.protocol.log.terms import LogTerms
from secvm.runtime.clock import Clock
from secvm.runtime.logs import Log
from secvm.runtime.metrics import Metrics


class LogKeeping:
    """Keeps the log of one coordinator. ``files`` is the driver's veil; ``woken`` tells it of what is new."""

    def __init__(
        self,
        *,
        store: CoordinatorStore,
        publisher: Publisher,
        key: SigningKey,
        terms: LogTerms,
        witnesses: Sequence[WitnessAddress],
        source: BeaconSource,
        clock: Clock,
        log: Log | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.logbook = Logbook(store, key, terms)
        self.files = LogFiles(self.logbook, publisher)
        #: The driver's ``wake``, once there is a driver.
        self.woken: Callable[[], None] | None = None
        self._cosigner = Cosigner(self.logbook, witnesses, clock, wake=self._wake, log=log, metrics=metrics)
        self._salting = Salting(store=store, source=source, clock=clock, logbook=self.logbook, wake=self._wake, log=log)
        self.logbook.on_growth = self._grown

    async def run(self, stop: asyncio.Event) -> None:
        """Ask witnesses and beacons until told to stop."""
        # The first to end is ``stop``, or a failure. Nobody waits for a witness or a beacon then.
        tasks = [stop.wait(), self._cosigner.run(stop), self._salting.run(stop)]
        await first_of([asyncio.ensure_future(task) for task in tasks])

    def _grown(self) -> None:
        self._cosigner.poke()
        self._salting.poke()

    def _wake(self) -> None:
        self._salting.poke()
        if self.woken is not None:
            self.woken()
