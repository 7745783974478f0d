"""The parts that serve experiments with two relays, put together for a process that drives, or for one that follows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from secvm.coordinator.frontend import Doors, Held
from secvm.coordinator.log.log_files import LogFiles
from secvm.coordinator.log.logbook import Logbook
from secvm.coordinator.relayed.entry_log import EntryLog, NoLog
from secvm.coordinator.relayed.logged_entries import LoggedEntries
from secvm.coordinator.relayed.relay_requests import AskedRelays
from secvm.coordinator.relayed.relayed_documents import Showing
from secvm.coordinator.relayed.relayed_driver import RelayedDriver
from secvm.coordinator.relayed.relayed_history import RelayedBooks
from secvm.coordinator.relayed.relayed_rounds import RelayedRounds
from secvm.coordinator.relayed.run_counting import RunCounting
from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.sealing.bulk_sealing import BulkSealer
from secvm.crypto.signing import SigningKey
from secvm.errors import LocalProtocolError, StoreError
from secvm.runtime.clock import Clock
from secvm.runtime.waits import any_of


def make_driver(
    held: Held,
    doors: Doors,
    store: CoordinatorStore,
    *,
    now: Callable[[], int | None],
    log: tuple[Logbook, LogFiles] | None,
    shown: Callable[[], None],
) -> RelayedDriver:
    """The driver of a process that drives on this store. ``now``: the time, None while it is in doubt."""
    if held.key is None:
        raise LocalProtocolError("whoever drives has a key that signs")
    sealer, entry_log = BulkSealer(held.lanes), _entry_log(log)
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

    def __init__(self, held: Held, doors: Doors, log: tuple[Logbook, LogFiles] | None) -> None:
        self._books = RelayedBooks(held.store)
        self._showing = _showing(held, doors, held.store, _entry_log(log), None)
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


def _entry_log(log: tuple[Logbook, LogFiles] | None) -> EntryLog:
    return NoLog() if log is None else LoggedEntries(*log)
