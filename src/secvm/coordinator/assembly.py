"""How the drivers of a coordinator and the parts that keep its log are put together on one store.

A process that is the whole coordinator drives as long as it lives (``main``); one node of many drives for a term
(``nodes.node``). Both build the same parts in the same way. ``RelayedView`` is what a node has of experiments with two
relays while another node drives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from secvm.coordinator.frontend import Doors, Held
from secvm.coordinator.log.beacon_records import Salting
from secvm.coordinator.log.cosigning import Cosigner, first_of
from secvm.coordinator.log.log_files import LogFiles
from secvm.coordinator.log.logbook import Logbook
from secvm.coordinator.publisher import Publisher
from secvm.coordinator.relayed.entry_log import EntryLog
from secvm.coordinator.relayed.relay_statements import AskedRelays
from secvm.coordinator.relayed.relayed_documents import Showing
from secvm.coordinator.relayed.relayed_driver import RelayedDriver
from secvm.coordinator.relayed.relayed_history import RelayedBooks
from secvm.coordinator.relayed.relayed_rounds import RelayedRounds
from secvm.coordinator.relayed.run_counting import RunCounting
from secvm.coordinator.rounds.clock_check import clock_check
from secvm.coordinator.rounds.driver import Count, Driver, Ingesting
from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.beacons.sources import BeaconSource
from secvm.crypto.sealing.bulk_sealing import BulkSealer
from secvm.crypto.signing import SigningKey
from secvm.errors import LocalProtocolError, StoreError
from secvm.protocol.log.terms import LogTerms
from secvm.runtime.clock import Clock
from secvm.runtime.waits import any_of, end_all


class LogKeeping:
    """Keeps the log of one coordinator. ``files`` is the driver's veil; ``woken`` tells it of what is new."""

    def __init__(
        self,
        held: Held,
        store: CoordinatorStore,
        publisher: Publisher,
        *,
        key: SigningKey,
        terms: LogTerms,
        source: BeaconSource,
    ) -> None:
        """``key`` is the log's own."""
        clock, log = held.clock, held.log
        witnesses = [witness.address for witness in held.settings.witnesses]
        self.logbook = Logbook(store, key, terms)
        self.files = LogFiles(self.logbook, publisher)
        #: The driver's ``wake``, once there is a driver.
        self.woken: Callable[[], None] | None = None
        self._cosigner = Cosigner(self.logbook, witnesses, clock, wake=self._wake, log=log, metrics=held.metrics)
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


def log_keeping(
    held: Held, store: CoordinatorStore, publisher: Publisher, *, key: SigningKey | None, source: BeaconSource
) -> LogKeeping | None:
    """What keeps the coordinator's log, with the log's own ``key``; None where the settings name no log."""
    if held.terms is None:
        return None
    if key is None:
        raise LocalProtocolError("whoever keeps a log has the log's key")
    return LogKeeping(held, store, publisher, key=key, terms=held.terms, source=source)


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
            files=None if keeping is None else keeping.files,
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


def make_driver(
    held: Held,
    doors: Doors,
    store: CoordinatorStore,
    *,
    now: Callable[[], int | None],
    files: LogFiles | None,
    shown: Callable[[], None],
) -> RelayedDriver:
    """The driver of a process that drives on this store. ``now``: the time, None while it is in doubt."""
    if held.key is None:
        raise LocalProtocolError("whoever drives has a key that signs")
    sealer, entry_log = BulkSealer(held.lanes), EntryLog(files)
    rounds = RelayedRounds(
        store=store,
        now=now,
        key=held.key,
        grid=held.settings.epochs.grid,
        dice=held.dice,
        relays=AskedRelays(held.relay_tokens),
        may_grow=entry_log.may_grow,
        counting=RunCounting(store, sealer),
        sealer=sealer,
        telling=doors.telling,
    )
    return RelayedDriver(
        store=store,
        rounds=rounds,
        showing=_showing(held, doors, store, entry_log, held.key),
        key=held.key,
        kept_days=held.settings.opening.kept_days,
        clock=held.clock,
        telling=doors.telling,
        steady=held.steady,
        shown=shown,
    )


class RelayedView:
    """What a node shows of such experiments while another one drives, and the runs that it counts for that one."""

    def __init__(self, held: Held, doors: Doors, files: LogFiles | None) -> None:
        self._books = RelayedBooks(held.store)
        self._showing = _showing(held, doors, held.store, EntryLog(files), None)
        self._counting = RunCounting(held.store, BulkSealer(held.lanes))

    def show(self) -> None:
        """Read the store and show what is public. Blocks."""
        self._showing.show(self._books.read())

    async def help(self, stop: asyncio.Event, steady: Clock, every_s: float) -> None:
        """Count runs of whole batches, and keep this node's public folder, until told to stop."""
        while not stop.is_set():
            try:
                await self._showing.folder.keep_up()
                while not stop.is_set() and await asyncio.to_thread(self._count_one):
                    pass
            except StoreError:
                # Only help: whoever drives counts what nobody else does.
                pass
            await any_of(stop.wait(), steady.sleep_until(steady.now() + int(1000 * every_s)))

    def _count_one(self) -> bool:
        live = [(book, book.live) for book in self._books.read()]
        return any(one is not None and self._counting.count_one(book, one) for book, one in live)


def _showing(held: Held, doors: Doors, store: CoordinatorStore, log: EntryLog, key: SigningKey | None) -> Showing:
    kept_days = held.settings.opening.kept_days
    return Showing(doors.publisher, log, key, store=store, folder=doors.shard_folder, kept_days=kept_days)
