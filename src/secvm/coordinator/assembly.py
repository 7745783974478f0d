"""How the drivers of a coordinator and the parts that keep its log are put together on one store.

A process that is the whole coordinator drives as long as it lives (``main``); one node of many drives for a term
(``nodes.node``). Both build the same parts in the same way. ``RelayedView`` is what a node has of experiments with two
relays while another node drives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from secvm.coordinator.alarms import QUORUM, RELAY, Alarms, Missing
from secvm.coordinator.clock_check import clock_check
from secvm.coordinator.driver import Count, Driver, Ingesting
from secvm.coordinator.frontend import Frontend, ProcessParts
from secvm.coordinator.log.beacon_records import BeaconKeeper
from secvm.coordinator.log.cosigning import Cosigner, first_of
from secvm.coordinator.log.log_files import EntryLog, LogFiles
from secvm.coordinator.log.logbook import Logbook
from secvm.coordinator.publisher import Publisher
from secvm.coordinator.relayed.relay_statements import RelayClient
from secvm.coordinator.relayed.relayed_documents import RelayedPublisher
from secvm.coordinator.relayed.relayed_driver import RelayedDriver
from secvm.coordinator.relayed.relayed_history import RelayedHistories
from secvm.coordinator.relayed.relayed_rounds import RoundAttendant
from secvm.coordinator.relayed.run_counting import RunCounting
from secvm.coordinator.store.port import CoordinatorStore
from secvm.coordinator.webhook import Webhook
from secvm.crypto.beacons.sources import BeaconSource
from secvm.crypto.sealing.layers import BulkSealer
from secvm.crypto.signing import SigningKey
from secvm.errors import LocalProtocolError, StoreError
from secvm.protocol.log.policy import LogTerms
from secvm.runtime.clock import Clock
from secvm.runtime.service import any_of, end_all


class LogKeeper:
    """Keeps the log of one coordinator. ``files`` shows what of it is cosigned; ``woken`` tells it of what is new."""

    def __init__(
        self,
        parts: ProcessParts,
        store: CoordinatorStore,
        publisher: Publisher,
        *,
        key: SigningKey,
        terms: LogTerms,
        source: BeaconSource,
    ) -> None:
        """``key`` is the log's own."""
        clock, log = parts.clock, parts.log
        witnesses = [witness.address for witness in parts.settings.witnesses]
        self.logbook = Logbook(store, key, terms)
        self.files = LogFiles(self.logbook, publisher)
        #: The driver's ``wake``, once there is a driver.
        self.woken: Callable[[], None] | None = None
        self._cosigner = Cosigner(self.logbook, witnesses, clock, wake=self._wake, log=log, metrics=parts.metrics)
        self._salting = BeaconKeeper(
            store=store, source=source, clock=clock, logbook=self.logbook, wake=self._wake, log=log
        )
        self.logbook.on_growth = self._grown

    async def run(self, stop: asyncio.Event) -> None:
        """Ask witnesses and beacons until told to stop."""
        # The first to end is ``stop``, or a failure. Nobody waits for a witness or a beacon then.
        await first_of(stop.wait(), self._cosigner.run(stop), self._salting.run(stop))

    def _grown(self) -> None:
        self._cosigner.poke()
        self._salting.poke()

    def _wake(self) -> None:
        self._salting.poke()
        if self.woken is not None:
            self.woken()


def make_log_keeper(
    parts: ProcessParts, store: CoordinatorStore, publisher: Publisher, *, key: SigningKey | None, source: BeaconSource
) -> LogKeeper | None:
    """What keeps the coordinator's log, with the log's own ``key``; None where the settings name no log."""
    if parts.terms is None:
        return None
    if key is None:
        raise LocalProtocolError("whoever keeps a log has the log's key")
    return LogKeeper(parts, store, publisher, key=key, terms=parts.terms, source=source)


class Drivers:
    """Drives all experiments of a coordinator, with one relay and with two, as long as ``run`` runs."""

    def __init__(
        self,
        parts: ProcessParts,
        frontend: Frontend,
        store: CoordinatorStore,
        *,
        ingest: Ingesting,
        keeper: LogKeeper | None,
        steady: Clock,
        count: Count | None = None,
    ) -> None:
        """``ingest`` is told what runs. ``steady``: a clock that nobody sets. ``count``: with other nodes' help."""
        if parts.key is None:
            raise LocalProtocolError("whoever drives has a key that signs")
        self._keeping = keeper
        logbook = None if keeper is None else keeper.logbook
        self._check = clock_check(parts.settings, parts.clock, steady, logbook, parts.log)
        entries = EntryLog(None if keeper is None else keeper.files)
        self._names = {relay.url: relay.name for relay in parts.settings.relays if relay.url is not None}
        self._alarms = Alarms(
            clock=parts.clock,
            steady=steady,
            log=parts.log,
            metrics=parts.metrics,
            webhook=_webhook(parts),
            # Beside other nodes a start is no absence: others have taken packages meanwhile.
            began_at=parts.clock.now() if parts.settings.node is None else None,
            relays={name: url for url, name in self._names.items()},
            missing=self._missing,
        )
        self._driver = Driver(
            store=store,
            ingest=ingest,
            publisher=frontend.publisher,
            clock=parts.clock,
            key=parts.key,
            grid=parts.settings.epochs.grid,
            dice=parts.dice,
            log=parts.log,
            metrics=parts.metrics,
            entries=entries,
            count=count,
            check=self._check,
            alarms=self._alarms,
        )
        self._relays = RelayClient(parts.relay_tokens, steady=steady)
        sealer, showing = BulkSealer(parts.lanes), _relayed_publisher(parts, frontend, store, entries, parts.key)
        rounds = RoundAttendant(
            store=store,
            now=self._driver.now,
            key=parts.key,
            grid=parts.settings.epochs.grid,
            dice=parts.dice,
            relays=self._relays,
            may_grow=entries.may_grow,
            counting=RunCounting(store, sealer),
            sealer=sealer,
            events=frontend.events,
            alarms=self._alarms,
        )
        self._relayed = RelayedDriver(
            store=store,
            rounds=rounds,
            publisher=showing,
            key=parts.key,
            kept_days=parts.settings.opening.kept_days,
            clock=parts.clock,
            events=frontend.events,
            steady=parts.steady,
            shown=self._driver.nudge,
        )
        self._driver.others_reached = self._relayed.reached
        self._driver.others_named = self._relayed.fetch_keys
        if keeper is not None:
            keeper.woken = self.wake

    def wake(self) -> None:
        """Something has changed here: it is shown at once, and what follows from it comes with the next step."""
        self._relayed.wake()
        self._driver.wake()

    def nudge(self) -> None:
        """Something has changed at another node: everything comes with the next step."""
        self._relayed.wake()
        self._driver.nudge()

    def health(self) -> dict[str, object]:
        """How the log and the clock are, and who is lost."""
        log: dict[str, object] = {} if self._keeping is None else {"log": self._keeping.logbook.health()}
        return log | self._alarms.health() | ({} if self._check is None else self._check.health())

    def _missing(self) -> Missing:
        """Who is missing now, for the alarms."""
        answers = {name: self._relays.answers(url) for url, name in self._names.items()}
        missing: dict[tuple[str, str], tuple[str, ...]]
        missing = {(RELAY, name): () if well else (name,) for name, well in answers.items() if well is not None}
        if self._keeping is not None:
            logbook = self._keeping.logbook
            missing[(QUORUM, "")] = tuple(logbook.silent()) if logbook.waiting() else ()
        return missing

    def prepare(self) -> None:
        """Tell what runs and show what is public; nothing changes."""
        self._relayed.prepare()
        self._driver.prepare()

    async def run(self, stop: asyncio.Event, *others: Coroutine[Any, Any, None]) -> None:
        """Until told to stop, ``others`` beside it. If one of them fails, so does this."""
        running = [self._driver.run(stop), self._relayed.run(stop), self._alarms.run(stop), *others]
        if self._keeping is not None:
            running.append(self._keeping.run(stop))
        tasks = [asyncio.ensure_future(routine) for routine in running]
        try:
            await asyncio.gather(*tasks)
        finally:
            await end_all(*tasks)

    def close(self) -> None:
        """Nothing is answered from this log any more: others show it from now on."""
        if self._keeping is not None:
            self._keeping.files.close()


class RelayedView:
    """What a node shows of such experiments while another one drives, and the runs that it counts for that one."""

    def __init__(self, parts: ProcessParts, frontend: Frontend, files: LogFiles | None) -> None:
        self._histories = RelayedHistories(parts.store)
        self._showing = _relayed_publisher(parts, frontend, parts.store, EntryLog(files), None)
        self._counting = RunCounting(parts.store, BulkSealer(parts.lanes))

    def show(self) -> None:
        """Read the store and show what is public. Blocks."""
        self._showing.show(self._histories.read())

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
        live = [(history, history.live) for history in self._histories.read()]
        return any(known is not None and self._counting.count_one(history, known) for history, known in live)


def _webhook(parts: ProcessParts) -> Webhook | None:
    if parts.webhook is None:
        return None
    name = "" if parts.settings.log is None else parts.settings.log.name
    return Webhook(parts.webhook, coordinator=name, log=parts.log, metrics=parts.metrics)


def _relayed_publisher(
    parts: ProcessParts, frontend: Frontend, store: CoordinatorStore, log: EntryLog, key: SigningKey | None
) -> RelayedPublisher:
    kept_days = parts.settings.opening.kept_days
    return RelayedPublisher(
        frontend.publisher, log, key, store=store, folder=frontend.shard_folder, kept_days=kept_days
    )
