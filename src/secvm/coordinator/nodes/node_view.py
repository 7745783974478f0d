"""What a node takes and shows while another node drives. It is derived from the store by the driver's own rules.

 1. The rounds and keys that run now, for the gateway and ingest (``intake.running``).
 2. All public files (``public_documents``, ``log.log_files``): only documents that are signed and durable
    and, where there is a log, cosigned by a quorum. An ending is shown as the driver signed and kept it. Nothing is
    signed here.
 3. The store is read again when something has changed, at least every ``poll_s``, and whenever a caller needs a view
    that is not older than a package (``refresh``). Callers that come together share one reading.

The view never goes back: experiments and rounds are only added, notes only grow, a stopped experiment stays stopped. A
node that lags shows less than the driver, never something else. The store is read in a thread; meanwhile the event loop
serves the view before.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import partial

from secvm.coordinator.counting.epoch_count import RoundToCount
from secvm.coordinator.epochs import Grid
from secvm.coordinator.experiments.history import PlainHistories, PlainHistory, live_rounds
from secvm.coordinator.intake.opener import fault_name
from secvm.coordinator.intake.running import (
    CurrentRounds,
    keys_of_now,
    rounds_of_epoch,
    rounds_to_count,
    running_rounds,
)
from secvm.coordinator.log.log_files import EntryLog, LogFiles
from secvm.coordinator.log.logbook import FollowedLogbook
from secvm.coordinator.public_documents import show
from secvm.coordinator.publisher import Publisher
from secvm.coordinator.store.port import CoordinatorStore
from secvm.errors import StoreError
from secvm.protocol.codec import ExperimentId
from secvm.protocol.log.policy import LogTerms
from secvm.protocol.round_state import RoundState
from secvm.runtime.clock import Clock
from secvm.runtime.logs import SILENT, Log
from secvm.runtime.metrics import Metrics
from secvm.runtime.service import any_of

#: Two readings begin at least so far apart, however many packages ask for one.
SPACING_S = 0.2
POLL_S = 1.0


@dataclass(eq=False, repr=False)
class NodeView:
    """The view of one node. For one event loop; the store is used in other threads.

    ``update`` is called with what runs. ``terms`` are those of the log, where there is one. ``steady`` is a monotonic
    clock, for pauses. ``also`` shows experiments with two relays, which have a history of their own.
    """

    store: CoordinatorStore
    publisher: Publisher
    clock: Clock
    _: KW_ONLY
    grid: Grid
    update: Callable[[CurrentRounds], None]
    terms: InitVar[LogTerms | None] = None
    steady: Clock
    log: Log = SILENT
    metrics: Metrics = field(default_factory=partial(Metrics, "coordinator"))
    poll_s: InitVar[float] = POLL_S
    spacing_s: InitVar[float] = SPACING_S
    also: Callable[[], None] | None = None

    def __post_init__(self, terms: LogTerms | None, poll_s: float, spacing_s: float) -> None:
        self._poll_ms, self._spacing_ms = int(1000 * poll_s), int(1000 * spacing_s)
        self._histories = PlainHistories(self.store)
        self.logbook = None if terms is None else FollowedLogbook(self.store, terms)
        self.files = None if self.logbook is None else LogFiles(self.logbook, self.publisher)
        self._present: CurrentRounds | None = None
        self._read: list[PlainHistory] = []
        self._one = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None
        self._began: int | None = None
        self._whole_at: int | None = None
        self._paused = False
        #: While this node drives: the rounds that its driver has announced.
        self._announced: set[tuple[ExperimentId, int]] = set()
        self._poked = asyncio.Event()
        self._faults = self.metrics.counter(
            "view_faults", "Times that the store could not be read for this node's view."
        )

    @property
    def lag_ms(self) -> int | None:
        """How old the view is; None before the first reading, 0 where this node drives."""
        if self._paused:
            return 0
        return None if self._whole_at is None else self.steady.now() - self._whole_at

    # ── when ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self, stop: asyncio.Event) -> None:
        """Read again and again, until told to stop."""
        while not stop.is_set():
            self._poked.clear()
            with contextlib.suppress(StoreError):
                if not self._paused:
                    await self.refresh()
                await self._flush()
            at = self.steady.now() + self._poll_ms
            await any_of(stop.wait(), self._poked.wait(), self.steady.sleep_until(at))

    async def _flush(self) -> None:
        # Held meanwhile: a driver that begins here would write beside us, and what is older might come last.
        async with self._one:
            if not self._paused:
                await self.publisher.flush()

    def heard_nothing(self) -> None:
        """The store was listened to, and said that nothing has changed since the last reading."""
        if self._whole_at is not None and not self._poked.is_set():
            self._whole_at = self.steady.now()

    def poke(self) -> None:
        """Read the store soon: something has changed."""
        self._poked.set()

    async def pause(self) -> None:
        """From now on this node drives: its driver says what runs and shows what is public."""
        async with self._one:
            self._paused, self._announced = True, set()

    def note_announced(self, present: CurrentRounds) -> None:
        """Take note of the rounds that this node's driver runs."""
        self._announced = {(known.document.experiment_id, known.number) for known in present.rounds}

    def resume(self) -> None:
        """From now on the node drives no longer."""
        # What its driver said runs is derived anew.
        self._paused, self._present = False, None
        self.poke()

    async def refresh(self) -> None:
        """Return when the view is not older than this call.

        Raises
        ------
        StoreError
            The store cannot be read; or this node drives, or did until just now, and its driver has not announced every
            round that runs.
        """
        if self._next is None:
            self._next = asyncio.ensure_future(self._read_next())
        await asyncio.shield(self._next)

    async def _read_next(self) -> None:
        try:
            async with self._one:
                if self._began is not None:
                    await self.steady.sleep_until(self._began + self._spacing_ms)
                # A caller that comes from here on needs another reading: this one may be older than its question.
                self._next = None
                self._began = began = self.steady.now()
                if self._paused:
                    await self._check_announced()
                # It may have been deposed meanwhile.
                if not self._paused:
                    present = await asyncio.to_thread(self.read)
                    self._whole_at = began
                    if present != self._present:
                        self._present = present
                        self.update(present)
        except StoreError:
            self._faults.add()
            raise

    async def _check_announced(self) -> None:
        """Fail while the driver of this node does not know every running round.

        A driver's view can be stale just after it is elected and just before it learns that it was deposed. A package
        for a round that it has not heard of would be refused, and lost.
        """
        histories = await asyncio.to_thread(self._histories.read)
        runs = {
            (history.document.experiment_id, history.live.stored.number)
            for history in histories
            if history.live is not None
        }
        unknown = runs - self._announced
        if self._paused and unknown:
            names = ", ".join(f"{number} of {identity.hex()}" for identity, number in sorted(unknown))
            raise StoreError(f"the store has running rounds that this node's driver has not announced: {names}")

    # ── what ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self) -> CurrentRounds:
        """Read the store, show what is public, and say what runs. Blocks."""
        # Notes before histories, histories before keys: each is complete for what was read before it.
        if self.logbook is not None:
            self.logbook.read_notes()
        read = self._histories.read()
        keys, fetch_keys = self.store.keys(), self.store.fetch_keys()
        show(self.publisher, read, None, EntryLog(self.files))
        if self.also is not None:
            self.also()
        now = self.clock.now()
        present = running_rounds(read, keys, fetch_keys, grid=self.grid, now=now)
        data = keys_of_now(present, grid=self.grid, now=now)
        if data is not None:
            self.publisher.put_keys(data)
        self.publisher.warm()
        self._read = read
        return present

    def closing(self) -> list[int]:
        """Epochs whose windows are closed and whose count is not concluded, as far as this node knows."""
        if self._paused:
            return []
        return sorted(
            {known.stored.epoch for known in live_rounds(self._read) if known.stored.state is RoundState.CLOSING}
        )

    def rounds_of(self, epoch: int) -> list[RoundToCount]:
        """The rounds that are counted in an epoch, read anew. Blocks."""
        return rounds_to_count(rounds_of_epoch(PlainHistories(self.store).read(), epoch))


@dataclass(eq=False, repr=False)
class ShardHelper:
    """Counts shards for the driver while this node does not drive. ``count_one`` is that of ``ShardCounting``."""

    view: NodeView
    count_one: Callable[[int, Callable[[], list[RoundToCount]]], bool]
    _: KW_ONLY
    steady: Clock
    every_s: InitVar[float] = POLL_S
    log: Log = SILENT

    def __post_init__(self, every_s: float) -> None:
        self._every_ms = int(1000 * every_s)
        #: The epoch that was counted last, and its rounds: read when it was closed, so they are all there will be.
        self._known: tuple[int, list[RoundToCount]] | None = None
        #: Epochs that this node cannot count. It would claim the same shard again and again, and all would wait for it.
        self._given_up: set[int] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Look for something to count, until told to stop."""
        while not stop.is_set():
            try:
                await self.step(stop)
            except Exception as error:  # noqa: BLE001  (only help: the driver counts what nobody else does)
                self.log.tell("helping-failed", error=fault_name(error))
            await any_of(stop.wait(), self.steady.sleep_until(self.steady.now() + self._every_ms))

    async def step(self, stop: asyncio.Event) -> int:
        """Count the shards that can be claimed, and return their number."""
        counted = 0
        closing = self.view.closing()
        self._given_up &= set(closing)
        for epoch in closing:
            if epoch in self._given_up:
                continue
            try:
                while not stop.is_set() and await asyncio.to_thread(self.count_one, epoch, self._rounds(epoch)):
                    counted += 1
            except StoreError:
                raise
            except Exception:
                self._given_up.add(epoch)
                raise
        if counted:
            self.log.tell("shards-counted", count=counted)
        return counted

    def _rounds(self, epoch: int) -> Callable[[], list[RoundToCount]]:
        def rounds() -> list[RoundToCount]:
            if self._known is None or self._known[0] != epoch:
                self._known = epoch, self.view.rounds_of(epoch)
            return self._known[1]

        return rounds
