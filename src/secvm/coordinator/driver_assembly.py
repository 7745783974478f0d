"""Driving: both drivers of a coordinator and what keeps its log, put together on one store.

A process that is the whole coordinator drives as long as it lives (``main``), one node of many for the length of a term
(``node``): the same parts, made in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from secvm.coordinator.frontend import Doors, Held
from secvm.coordinator.log.log_service import LogKeeping
from secvm.coordinator.publisher import Publisher
from secvm.coordinator.relayed_assembly import make_driver
from secvm.coordinator.rounds.clock_check import clock_check
from secvm.coordinator.rounds.driver import Count, Driver, Ingesting
from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.beacons.sources import BeaconSource
from secvm.crypto.signing import SigningKey
from secvm.errors import LocalProtocolError
from secvm.runtime.clock import Clock
from secvm.runtime.waits import end_all


def log_keeping(
    held: Held, store: CoordinatorStore, publisher: Publisher, *, key: SigningKey | None, source: BeaconSource
) -> LogKeeping | None:
    """What keeps the coordinator's log, with the log's own ``key``; None where the settings name no log."""
    if held.terms is None:
        return None
    if key is None:
        raise LocalProtocolError("whoever keeps a log has the log's key")
    return LogKeeping(
        store=store,
        publisher=publisher,
        key=key,
        terms=held.terms,
        witnesses=[witness.address for witness in held.settings.witnesses],
        source=source,
        clock=held.clock,
        log=held.log,
        metrics=held.metrics,
    )


class Driving:
    """Drives all experiments of a coordinator, with one relay and with two, as long as ``run`` runs."""

    def __init__(
        self,
        held: Held,
        doors: Doors,
        store: CoordinatorStore,
        *,
        ingest: Ingesting,
        keeping: LogKeeping | None,
        steady: Clock,
        count: Count | None = None,
    ) -> None:
        """``ingest`` is told what runs. ``steady``: a clock that nobody sets. ``count``: with other nodes' help."""
        if held.key is None:
            raise LocalProtocolError("whoever drives has a key that signs")
        self._keeping = keeping
        logbook = None if keeping is None else keeping.logbook
        self._check = clock_check(held.settings, held.clock, steady, logbook, held.log)
        self._driver = Driver(
            store=store,
            ingest=ingest,
            publisher=doors.publisher,
            clock=held.clock,
            key=held.key,
            grid=held.settings.epochs.grid,
            dice=held.dice,
            log=held.log,
            metrics=held.metrics,
            veil=None if keeping is None else keeping.files,
            count=count,
            check=self._check,
        )
        self._relayed = make_driver(
            held,
            doors,
            store,
            now=self._driver.now,
            log=None if keeping is None else (keeping.logbook, keeping.files),
            shown=self._driver.nudge,
        )
        self._driver.others_reached = self._relayed.reached
        self._driver.others_named = self._relayed.fetch_keys
        if keeping is not None:
            keeping.woken = self.wake

    def wake(self) -> None:
        """Something has changed here: it is shown at once, and what follows from it comes with the next step."""
        self._relayed.wake()
        self._driver.wake()

    def nudge(self) -> None:
        """Something has changed at another node: everything comes with the next step."""
        self._relayed.wake()
        self._driver.nudge()

    def health(self) -> dict[str, object]:
        """How the log and the clock are."""
        log: dict[str, object] = {} if self._keeping is None else {"log": self._keeping.logbook.health()}
        return log if self._check is None else log | self._check.health()

    def prepare(self) -> None:
        """Tell what runs and show what is public; nothing changes."""
        self._relayed.prepare()
        self._driver.prepare()

    async def run(self, stop: asyncio.Event, *others: Coroutine[Any, Any, None]) -> None:
        """Until told to stop, ``others`` beside it. If one of them fails, so does this."""
        running = [self._driver.run(stop), self._relayed.run(stop), *others]
        if self._keeping is not None:
            running.append(self._keeping.run(stop))
        tasks = [asyncio.ensure_future(one) for one in running]
        try:
            await asyncio.gather(*tasks)
        finally:
            await end_all(*tasks)

    def close(self) -> None:
        """Nothing is answered from this log any more: others show it from now on."""
        if self._keeping is not None:
            self._keeping.files.close()
