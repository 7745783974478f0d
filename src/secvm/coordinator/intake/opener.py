"""The opener: takes sealed groups back from the store, and puts records in their place.

It works in slices, so that the event loop is never held up for long, and lets groups gather while nobody waits: one
transaction then serves many of them. Groups and records change places in one transaction. Whatever happens before it,
the groups are still there, sealed, and will be opened by the next attempt; nothing is opened into two blocks.

Where several nodes have one store, each opens what anybody stored: the store hands a group to one of them at a time,
and to another one when the first is too slow. What a node knows of rounds and keys is made fresh once it has a group
of an epoch in its hands: all rounds of an epoch are announced before its windows open, so whatever is read after the
first package came is newer than any of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from itertools import chain, islice

from secvm.coordinator.intake.gateway import open_block
from secvm.coordinator.intake.running import CurrentRounds
from secvm.coordinator.store.port import CoordinatorStore
from secvm.coordinator.store.records import RECORD_BYTES
from secvm.crypto.sealing.capsules import unpack
from secvm.crypto.sealing.lanes import LANES, Lanes
from secvm.crypto.sealing.oblivious import GatewayKeys
from secvm.errors import LocalProtocolError, StoreError
from secvm.protocol.problems import PROBLEMS
from secvm.runtime.logs import SILENT, Log
from secvm.runtime.metrics import Metrics

#: Capsules opened before the event loop has its turn: about 5 ms, one by one and in lanes.
SLICE, SLICE_IN_LANES = 96, 512
#: Groups taken from the store at once, at most; they are held in memory, and a relay's batch is one.
GROUPS = 32
#: Capsules taken at once, about, one by one and in lanes: enough for a transaction to be worth its while, and not so
#: many that one node has claimed all that is left while others have nothing to do. A tenth of a second's work.
TAKEN, TAKEN_IN_LANES = 3000, 12_000
#: How long groups may gather while nobody waits.
GATHER_S = 0.05
#: After so many faults of its own a process leaves an epoch to others.
MOST_OWN_FAULTS = 3
#: How long to leave a store alone that failed.
PAUSE_S = 1.0
#: How long to wait before asking again for what another node is opening.
_OTHERS_S = 0.05


@dataclass(eq=False, repr=False)
class Opener:
    """Opens what is sealed, epoch by epoch. For one event loop; the store is used in other threads.

    ``look_s``: how often to look for what others have stored. ``fresh`` makes what runs (``update``) as new as
    the moment of the call; where one process does everything it always is.
    """

    store: CoordinatorStore
    _: KW_ONLY
    metrics: InitVar[Metrics]
    log: Log = SILENT
    lanes: Lanes | None = None
    gather_s: float = GATHER_S
    pause_s: float = PAUSE_S
    look_s: float | None = None
    fresh: Callable[[], Awaitable[None]] | None = None

    def __post_init__(self, metrics: Metrics) -> None:
        self._present = CurrentRounds()
        #: Epochs of which something was here when this node's view was made fresh.
        self._seen: set[int] = set()
        self._keys: dict[int, GatewayKeys] = {}
        #: Groups to take next.
        self._taken = TAKEN if self.lanes is None else TAKEN_IN_LANES
        self._groups = self._taken // 1000
        #: Epochs in which something may be sealed.
        self._sealed: set[int] = set()
        #: How often this process could not open an epoch, by a fault that is not the store's. After a few it asks no
        #: more until what runs has changed, so that its claims end and other nodes open what it cannot. Its own driver
        #: tries all the same, in ``finish``.
        self._own_faults: Counter[int] = Counter()
        self._something = asyncio.Event()
        self._stopping = asyncio.Event()
        # Two that open the same groups would do no harm, only the same work.
        self._one = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._opened = metrics.counter("opened", "Capsules that hold a package.")
        self._dropped = metrics.counter("dropped", "Stored capsules without one.", {"problem": tuple(PROBLEMS)})
        self._faults = metrics.counter("opener_faults", "Times that opening failed and was begun anew.")
        metrics.gauge("opening_lanes", "Capsules that are opened at once.").set(1 if self.lanes is None else LANES)

    def update(self, present: CurrentRounds) -> None:
        """From now on these are the keys. Of every epoch that has one, something may be sealed from before."""
        self._present = present
        self._keys = {}
        self._sealed = {key.epoch for key in present.keys}
        self._seen &= self._sealed
        self._own_faults.clear()
        self._something.set()

    def notice(self, epoch: int) -> None:
        """Take note that something of this epoch was stored, sealed."""
        self._sealed.add(epoch)
        self._something.set()

    def start(self) -> None:
        """Work in the background from now on."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        """Stop after what is under way; what is sealed stays sealed."""
        self._stopping.set()
        self._something.set()
        if self._task is not None:
            await self._task
            self._task = None

    async def finish(self, epoch: int) -> None:
        """Return when nothing of the epoch is sealed. Whoever calls has closed it."""
        while True:
            while await self._open_some(epoch):
                pass
            if not await asyncio.to_thread(self.store.left_sealed, epoch):
                return
            # Another node has the rest; or it had, and its claim will end.
            await asyncio.sleep(_OTHERS_S)

    async def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                await asyncio.wait_for(self._something.wait(), self.look_s)
                await self._nap(self.gather_s)
            except TimeoutError:
                self._sealed |= {key.epoch for key in self._present.keys}
            self._something.clear()
            epochs = sorted(epoch for epoch in self._sealed if self._own_faults[epoch] < MOST_OWN_FAULTS)
            self._sealed = set()
            for epoch in epochs:
                try:
                    while not self._stopping.is_set() and await self._open_some(epoch):
                        pass
                except Exception as error:  # noqa: BLE001  (a full disk, say: all is safe, and it may get better)
                    self._faults.add()
                    self.log.tell("opener-failed", epoch=epoch, error=fault_name(error))
                    self._own_faults[epoch] += not isinstance(error, StoreError)
                    self.notice(epoch)
                    await self._nap(self.pause_s)

    async def _nap(self, seconds: float) -> None:
        """Wait, unless it is time to stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    def _keys_of(self, epoch: int) -> GatewayKeys:
        """What opens the capsules of an epoch, in the way that this machine does best."""
        if epoch not in self._keys:
            self._keys[epoch] = self._present.keys_of(epoch).with_lanes(self.lanes)
        return self._keys[epoch]

    async def _open_some(self, epoch: int) -> bool:
        """Open the oldest groups of an epoch. False: there were none."""
        async with self._one:
            groups = await asyncio.to_thread(self.store.sealed, epoch, self._groups)
            if not groups:
                return False
            if self.fresh is not None and epoch not in self._seen:
                await self.fresh()
                self._seen.add(epoch)
            keys, parts = self._keys_of(epoch), []
            dropped: Counter[str] = Counter()
            taken = 0
            for capsules in _slices(groups, SLICE if self.lanes is None else SLICE_IN_LANES):
                taken += len(capsules)
                opened = open_block(keys, capsules)
                parts.append(opened.block)
                dropped += opened.refused
                await asyncio.sleep(0)
            self._groups = max(1, min(GROUPS, self._taken * len(groups) // max(1, taken)))
            numbers, block = [number for number, _ in groups], b"".join(parts)
            try:
                await asyncio.to_thread(self.store.replace_sealed, epoch, numbers, block)
            except LocalProtocolError:
                # We took so long that our claims ended, and another node has opened some of them: what is left?
                self._faults.add()
                return True
        self._opened.add(len(block) // RECORD_BYTES)
        for problem, count in dropped.items():
            self._dropped.add(count, problem=problem)
        return True


def fault_name(error: Exception) -> str:
    """The name under which a log may mention an error."""
    return "store" if isinstance(error, StoreError) else "other"


def _slices(groups: Sequence[tuple[int, bytes]], size: int) -> Iterator[list[bytes]]:
    capsules = chain.from_iterable(unpack(packed) for _, packed in groups)
    while some := list(islice(capsules, size)):
        yield some
