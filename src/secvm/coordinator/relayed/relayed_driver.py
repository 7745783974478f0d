"""The driver of rounds with two relays: attends to every experiment when something is due, shows, and forgets.

``step`` does all that is due now and says when to come again. What is due follows from the store, the clock and what
relays answer; nothing is remembered here that a restart would miss. Experiments do not wait for each other's relays or
capsules: ``run`` attends to each in a task of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import astuple, dataclass

from secvm.coordinator.experiments.history import newest_instant
from secvm.coordinator.relayed.relayed_documents import RelayedPublisher
from secvm.coordinator.relayed.relayed_events import RelayedEvents
from secvm.coordinator.relayed.relayed_history import RelayedHistories, RelayedHistory
from secvm.coordinator.relayed.relayed_rounds import Remaining, RoundAttendant
from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.signing import SigningKey
from secvm.protocol.round_state import RoundEvent, RoundState, advance
from secvm.runtime.clock import Clock
from secvm.runtime.service import any_of, end_all

#: How long to wait, in the machine's time, before relays are asked again.
AGAIN_S = 2.0


@dataclass(eq=False, repr=False, kw_only=True)
class RelayedDriver:
    """Drives all experiments with two relays of one coordinator.

    ``kept_days``: so long after ``open_by`` an opened round's shards are kept. ``shown``: told when something
    may be public that was not. ``steady``: a clock that nobody sets.
    """

    store: CoordinatorStore
    rounds: RoundAttendant
    publisher: RelayedPublisher
    key: SigningKey
    kept_days: int
    clock: Clock
    events: RelayedEvents
    steady: Clock | None = None
    shown: Callable[[], None] | None = None
    again_s: float = AGAIN_S

    def __post_init__(self) -> None:
        self._histories = RelayedHistories(self.store)
        self._new = asyncio.Event()
        #: The public folder may lack something, or hold what is forgotten.
        self._changed = asyncio.Event()
        self._wakes: dict[str, asyncio.Event] = {}
        #: Whether the last step left something for which relays are asked again after a pause.
        self.asks_again = False

    def wake(self) -> None:
        """Something has changed that the clock does not tell: an experiment, a batch, a witness."""
        self._new.set()
        for woken in self._wakes.values():
            woken.set()

    def prepare(self) -> None:
        """Show what is public, before anybody asks; nothing changes."""
        self.publisher.show(self._histories.read())

    def reached(self) -> int | None:
        """The newest instant that a round has lived through; None without experiments."""
        return newest_instant(self._histories.read())

    def fetch_keys(self) -> frozenset[bytes]:
        """All that manifests name, as they name them."""
        return frozenset(known.manifest.fetch_keys for history in self._histories.read() for known in history.rounds)

    async def step(self) -> int | None:
        """Do all that is due for all experiments; the instant at which more will be, None: when somebody tells."""
        before, histories = self.clock.now(), self._histories.read()
        dues = await asyncio.gather(*(self._attend(history.stored.digest) for history in histories))
        self.asks_again = Remaining.SOON in dues
        await self._after()
        await self.publisher.folder.keep_up()
        instants = [self._next_instant(history, before) for history in self._histories.read()]
        return min((at for at in instants if at is not None), default=None)

    async def run(self, stop: asyncio.Event) -> None:
        """Attend to each experiment whenever something is due, until told to stop."""
        tasks: dict[str, asyncio.Future[None]] = {"": asyncio.ensure_future(self._keep_folder(stop))}
        try:
            while not stop.is_set():
                self._new.clear()
                for history in self._histories.read():
                    digest = history.stored.digest
                    if digest not in tasks:
                        self._wakes[digest] = asyncio.Event()
                        tasks[digest] = asyncio.ensure_future(self._run_one(digest, stop))
                # A fault is ours: whoever runs this process starts it again.
                for task in [task for task in tasks.values() if task.done()]:
                    task.result()
                await any_of(stop.wait(), self._new.wait(), *(asyncio.shield(task) for task in tasks.values()))
        finally:
            await end_all(*tasks.values())

    async def _keep_folder(self, stop: asyncio.Event) -> None:
        """Shards go into the public folder beside everything else."""
        while not stop.is_set():
            self._changed.clear()
            is_whole = await self.publisher.folder.keep_up()
            await any_of(stop.wait(), self._changed.wait(), *([] if is_whole else [asyncio.sleep(self.again_s)]))

    async def _run_one(self, digest: str, stop: asyncio.Event) -> None:
        woken = self._wakes[digest]
        while not stop.is_set():
            woken.clear()
            before = self.clock.now()
            soon = await self._attend(digest) is Remaining.SOON
            await self._after()
            histories = (history for history in self._histories.read() if history.stored.digest == digest)
            at = next((self._next_instant(history, before) for history in histories), None)
            waits: list[Awaitable[object]] = [stop.wait(), woken.wait()]
            waits += [] if at is None else [self.clock.sleep_until(at)]
            waits += [asyncio.sleep(self.again_s)] if soon else []
            await any_of(*waits)

    async def _attend(self, digest: str) -> Remaining:
        """All that is due for one experiment, one thing after the other."""
        begun = None if self.steady is None else self.steady.now()
        while True:
            histories = self._histories.read()
            # Before relays are asked for anything: they fetch the document, and devices what the round before came to.
            self.publisher.show(histories)
            history = next(history for history in histories if history.stored.digest == digest)
            # Witnesses see a new experiment first, and wake us when they have.
            remaining = Remaining.NOTHING
            if history.rounds or self.publisher.is_public(history):
                remaining = await self.rounds.attend(history)
            if remaining is not Remaining.MORE:
                break
        if self.steady is not None and begun is not None:
            self.events.took(self.steady.now() - begun)
        return remaining

    async def _after(self) -> None:
        """Show what is new, note what is shown, forget what is past."""
        histories = self._histories.read()
        self.publisher.show(histories)
        for history in histories:
            self._keep_ending(history)
            for known in history.rounds:
                if known.stored.state is RoundState.TALLIED and self.publisher.is_told(known):
                    state = advance(known.stored.state, RoundEvent.MANIFEST_SIGNED)
                    self.store.set_state(*known.place, state)
        forgotten = await asyncio.to_thread(forget_batches, self.store, histories, self.kept_days, self.clock.now())
        for place in forgotten:
            self.events.forgotten(*place)
        if forgotten:
            self.publisher.show(self._histories.read())
        self._changed.set()
        if self.shown is not None:
            self.shown()

    def _keep_ending(self, history: RelayedHistory) -> None:
        """What was signed here is kept, for nodes that show it and cannot sign."""
        if history.is_over and history.kept_ending() is None:
            self.store.keep_blobs({history.ending_name: history.ending().signed([self.key])})

    def _next_instant(self, history: RelayedHistory, before: int) -> int | None:
        """When the clock alone brings something about; None: never.

        ``before``: the time before it was attended to. What has come since, while a machine slept, is due at once.
        """
        instants: list[int | None] = [] if history.live is None else [*astuple(history.live.manifest.instants)]
        instants += [known.kept_until(self.kept_days) for known in history.rounds]
        return min((at for at in instants if at is not None and at > before), default=None)


def forget_batches(
    store: CoordinatorStore, histories: list[RelayedHistory], days: int, now: int
) -> list[tuple[str, int]]:
    """Forget what is due, and say which rounds that were. Blocks: millions of capsules are removed.

    An unopened round's batch is forgotten when it is concluded. An opened one's is public, digests and capsules alike,
    for ``days`` after its ``open_by``, and then forgotten (docs/data-model.md).
    """
    rounds = {known.place: known for history in histories for known in history.rounds}
    forgotten = []
    for place in store.batches():
        known = rounds.get(place)
        # One without a round has a seed whose manifest is not signed yet.
        if known is not None and not known.is_live and now >= (known.kept_until(days) or 0):
            store.forget_batch(*place)
            forgotten.append(place)
    return forgotten
