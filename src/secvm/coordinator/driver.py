"""The round driver: opens and closes windows, counts, steps, signs what comes next, and forgets.

``step`` does all that is due now and says when to come again; while the clock is in doubt (``clock_check``) that is
nothing. What is due follows from the store and the clock alone;
nothing is remembered here that a restart would miss. Each change is one transaction that may be asked for twice, so
after a crash at any point the next driver goes on where this one was, and ends in the same bytes. In order:

 1. Windows open and close with the clock (``protocol.round_state``).
 2. When the last round of an epoch is over, the epoch is closed, what is left sealed is opened, and all is counted.
 3. Each of its rounds is concluded: tallied, with the state that follows; or, below the floor, abandoned, and the state
    stands still.
 4. An experiment without a round that runs gets its next manifest; or it is over, because all T rounds are, because
    test counts no longer get better, or because the operator said so. While it is paused nothing of this happens, nor,
    where there is a log, before witnesses have said that the store is no old copy.
 5. What is signed and durable, and, where there is a log, seen by enough witnesses, is shown to everyone; nothing
    else is (``public_documents``). So how a round ended is told by the manifest after it, or by the ending.
 6. Epochs whose rounds are all concluded are scrubbed, capsules, records and key. A fetch key that no manifest names is
    forgotten when its epoch is over.

There is never a second manifest for a round: it is signed, then stored, then shown, and the store takes one only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from typing import Protocol

from secvm.coordinator.alarms import Alarms
from secvm.coordinator.clock_check import ClockCheck
from secvm.coordinator.counting.epoch_count import EpochCount, RoundToCount, count_epoch
from secvm.coordinator.epochs import Grid
from secvm.coordinator.experiments.history import (
    PlainHistories,
    PlainHistory,
    PlainRound,
    ended,
    live_rounds,
    newest_instant,
)
from secvm.coordinator.intake.running import (
    CurrentRounds,
    is_over,
    keys_of_now,
    make_fetch_key,
    published,
    rounds_of_epoch,
    rounds_to_count,
    running_rounds,
)
from secvm.coordinator.log.beacon_records import has_salt
from secvm.coordinator.log.log_files import EntryLog
from secvm.coordinator.public_documents import show
from secvm.coordinator.publisher import Publisher
from secvm.coordinator.store.port import CoordinatorStore, Standing, StoredKey, StoredRound
from secvm.crypto.sealing.kem import RandomBytes, X25519PrivateKey
from secvm.crypto.signing import SigningKey
from secvm.errors import ArithmeticRangeError, BadExperimentError, LocalProtocolError, ProtocolError
from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.documents.blobs import encode_tally, tally_digest
from secvm.protocol.documents.manifest import LastRound, last_round, make_manifest, read_relay_count, tells_count
from secvm.protocol.evidence.plain import count_fault
from secvm.protocol.round_state import RoundEnd, RoundEvent, RoundState, advance, due
from secvm.runtime.clock import Clock
from secvm.runtime.logs import SILENT, Log
from secvm.runtime.metrics import Metrics
from secvm.runtime.service import any_of


class Ingesting(Protocol):
    """Ingest, as far as the driver uses it."""

    def update(self, present: CurrentRounds) -> None:
        """Take packages for these rounds from now on."""
        ...

    async def finish(self, epoch: int) -> None:
        """Return when nothing of this closed epoch is sealed any more. Twice is once."""
        ...


#: After a step that could not do everything. In the machine's time: a clock that is wrong stops no retries.
AGAIN_S = 5.0

#: Epoch, and the rounds that are counted there → what they came to. Whoever calls has closed and opened the epoch.
Count = Callable[[int, list[RoundToCount]], Awaitable[EpochCount]]


@dataclass(eq=False, repr=False, kw_only=True)
class Driver:
    """Drives all rounds of all experiments of one coordinator.

    ``ingest`` is told what runs. ``count``: with the help of others, in place of a count of our own.

    ``entries``: the log, where there is one. Without ``check`` the clock is believed whatever it says. ``alarms`` is
    told how each round ended.
    """

    store: CoordinatorStore
    ingest: Ingesting
    publisher: Publisher
    clock: Clock
    key: SigningKey
    grid: Grid
    dice: RandomBytes
    log: Log = SILENT
    metrics: Metrics = field(default_factory=partial(Metrics, "coordinator"))
    entries: EntryLog = field(default_factory=EntryLog)
    count: InitVar[Count | None] = None
    check: ClockCheck | None = None
    alarms: Alarms = field(default_factory=Alarms)

    def __post_init__(self, count: Count | None) -> None:
        self._participants = self.metrics.counter(
            "train_participants", "Train participants of tallied rounds, cover taken off."
        )
        self._running = self.metrics.gauge(
            "experiments", "Experiments.", {"standing": tuple(known.value for known in Standing)}
        )
        self._count = self._count_alone if count is None else count
        #: The newest instant that rounds with two relays have lived through; they have a driver of their own.
        self.others_reached: Callable[[], int | None] = lambda: None
        #: The fetch keys that manifests of rounds with two relays name: these are kept.
        self.others_named: Callable[[], frozenset[bytes]] = frozenset
        self._histories = PlainHistories(self.store)
        self._present: CurrentRounds | None = None
        #: Experiments whose signed ending is in the store.
        self._ending_kept: set[str] = set()
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Something has changed that the clock does not tell: an experiment is new, its standing is another, witnesses
        have seen more of its log, a beacon has spoken.

        It is shown at once, so that whoever changed it sees it; what follows from it comes with the next step.
        """
        self._show()
        self._wake.set()

    def nudge(self) -> None:
        """The same for a change at another node: everything comes with the next step."""
        self._wake.set()

    def prepare(self) -> None:
        """Tell what runs and show what is public, before anybody asks; nothing changes."""
        self._tell_present(self.clock.now())
        self._show()

    async def run(self, stop: asyncio.Event) -> None:
        """Step whenever something is due, until told to stop; never in the middle of a step."""
        while not stop.is_set():
            self._wake.clear()
            at = await self.step()
            waits = [] if at is None else [self.clock.sleep_until(at)]
            if self.publisher.unwritten or (self.check is not None and self.check.doubt is not None):
                waits.append(asyncio.sleep(AGAIN_S))
            await any_of(stop.wait(), self._wake.wait(), *waits)

    async def step(self) -> int | None:
        """Do all that is due, and return the instant at which more will be; None if nothing ever, or nobody knows."""
        now = self.now()
        if now is None:
            return None
        self._tell_present(now)
        histories = self._histories.read()
        self._turn_clock(histories, now)
        for epoch in self._epochs_over(histories, now):
            await self._conclude_epoch(histories, epoch)
        # Read again: the operator may have spoken meanwhile. From here to the manifests nobody is waited for.
        histories = self._histories.read()
        now = self.now()
        if now is None:
            return None
        for history in histories:
            self._go_on(history, now)
        histories = self._histories.read()
        for standing in Standing:
            self._running.set(
                sum(history.stored.standing is standing for history in histories), standing=standing.value
            )
        self._turn_fetch_keys(now)
        self._tell_present(now)
        public = self._show()
        self._keep_endings(public)
        self._show_keys(now)
        await self.publisher.flush()
        for history in public:
            self._mark_published(history)
        await self._scrub(now)
        return self._next_instant(now)

    def _show(self) -> list[PlainHistory]:
        return show(self.publisher, self._histories.read(), self.key, self.entries)

    def now(self) -> int | None:
        """What time it is; None while that is in doubt."""
        return self.clock.now() if self.check is None else self.check.now(self._reached)

    def _reached(self) -> int | None:
        """The newest instant that a round of any kind is known to have lived through; None without experiments."""
        own = newest_instant(self._histories.read())
        return max((at for at in (own, self.others_reached()) if at is not None), default=None)

    # ── (1) the clock ────────────────────────────────────────────────────────────────────────────────────────────────

    def _turn_clock(self, histories: list[PlainHistory], now: int) -> None:
        for known in live_rounds(histories):
            state = known.stored.state
            times = known.manifest
            while event := due(state, now=now, opens_at=times.opens_at, closes_at=times.closes_at):
                state = advance(state, event)
                self.store.set_state(known.stored.experiment, known.stored.number, state)
                self._tell("round-" + state.value, known.stored)

    # ── (2), (3) the end of an epoch ─────────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def _epochs_over(histories: list[PlainHistory], now: int) -> list[int]:
        """Epochs with rounds that are not concluded, and none that still runs."""
        ends: dict[int, int] = {}
        for known in live_rounds(histories):
            ends[known.stored.epoch] = max(ends.get(known.stored.epoch, 0), known.manifest.accept_until)
        return sorted(epoch for epoch, end in ends.items() if end <= now)

    async def _conclude_epoch(self, histories: list[PlainHistory], epoch: int) -> None:
        self.store.close_epoch(epoch)
        await self.ingest.finish(epoch)
        ended = rounds_of_epoch(histories, epoch)
        counted = await self._count(epoch, rounds_to_count(ended))
        for (history, known), tally, kinds in zip(ended, counted.tallies, counted.kinds, strict=True):
            if known.is_live:
                await self._conclude(history, known, tally, packages=sum(kinds))

    async def _count_alone(self, epoch: int, rounds: list[RoundToCount]) -> EpochCount:
        def count() -> EpochCount:
            return count_epoch(self.store.opened(epoch), rounds, dice=self.dice)

        return await asyncio.to_thread(count)

    async def _conclude(self, history: PlainHistory, known: PlainRound, tally: Tally, *, packages: int) -> None:
        digest, number = history.stored.digest, known.stored.number
        last = self._last(history, known, tally) if _is_met(history, tally) else None
        end = RoundEnd.TOO_FEW_TRAINED
        if not packages:
            is_away = self.alarms.began_after(known.manifest.opens_at)
            end = RoundEnd.RESTARTED if is_away else RoundEnd.NOTHING_CAME
        if not tells_count(last, history.document):
            # Nobody would believe the document after it. So the round is abandoned.
            self._tell("relay-count-missing", known.stored)
            last, end = None, RoundEnd.COUNT_MISSING
        if last is not None:
            try:
                model = await asyncio.to_thread(history.step, known.manifest.state, tally)
            except ArithmeticRangeError:
                # A step that cannot be taken exactly ends this experiment, and no other.
                with contextlib.suppress(LocalProtocolError):
                    self.store.set_standing(digest, Standing.STOPPED)
                self._tell("step-out-of-range", known.stored)
                last, end = None, RoundEnd.OUT_OF_RANGE
            else:
                end = RoundEnd.COUNTED
                blobs = model.by_name | {tally_digest(tally): encode_tally(tally, history.document.experiment)}
                advance(RoundState.CLOSING, RoundEvent.FLOOR_MET)
                self.store.conclude(
                    digest,
                    number,
                    tally=last.tally,
                    next_state=model.names[0],
                    blobs={**blobs, **ended(known, last, end)},
                )
                self._tell("round-tallied", known.stored, packages=packages)
                self._participants.add(
                    int(aggregate.uncovered(history.document.experiment.cover, tally).participants.sum())
                )
        if last is None:
            # Nothing is told of how few there were: not their number, nor the relay's.
            advance(RoundState.CLOSING, RoundEvent.FLOOR_MISSED)
            self.store.conclude(
                digest,
                number,
                tally=None,
                next_state=known.manifest.state,
                blobs=ended(known, last_round(None), end),
            )
            self._tell("round-abandoned", known.stored)
        self.alarms.ended(*known.place, end)

    def _last(self, history: PlainHistory, known: PlainRound, tally: Tally) -> LastRound:
        """How a round ended that was counted; with the relay's count, where the tally fits into it.

        On a coordinator for tests packages come by other ways too, and a relay's count is a relay's word. Signed beside
        a tally that does not fit, it would be evidence against this coordinator (docs/protocol.md §23), and devices
        would leave for good.
        """
        last = last_round(tally, relay_count=self._relay_count(history, known))
        if last.relay_count is not None and count_fault(history.document, known.manifest, last, tally) is not None:
            self._tell("relay-count-does-not-fit", known.stored)
            return replace(last, relay_count=None)
        return last

    def _relay_count(self, history: PlainHistory, known: PlainRound) -> bytes | None:
        """The count of the round's slot that a relay of the experiment has signed; of several the first."""
        for deposit in sorted(self.store.deposits(known.stored.epoch), key=lambda deposit: deposit.relay):
            with contextlib.suppress(ProtocolError):
                if read_relay_count(deposit.count, history.document).opens_at == known.manifest.opens_at:
                    return deposit.count
        return None

    # ── (4) what comes next ──────────────────────────────────────────────────────────────────────────────────────────

    def _go_on(self, history: PlainHistory, now: int) -> None:
        if history.live or history.stored.standing in (Standing.STOPPED, Standing.FINISHED):
            return
        if history.stored.standing is Standing.PAUSED or not has_salt(self.store, history.document):
            return
        if not self.entries.may_grow(history):
            return
        if len(history.rounds) >= history.document.rounds or history.watch(len(history.rounds)):
            self._decide(history, Standing.FINISHED)
            return
        try:
            self._announce(history, now)
        except (BadExperimentError, ProtocolError):
            if not self._decide(history, Standing.PAUSED):
                return
            # Hours and grid no longer meet, say, or its manifest would be too long. Others go on.
            self.log.tell("announcing-failed", experiment=history.stored.digest, round=len(history.rounds) + 1)

    def _decide(self, history: PlainHistory, standing: Standing) -> bool:
        """Another standing, unless the operator has spoken since the book was read: at another node nobody waits."""
        digest = history.stored.digest
        now = next(known.standing for known in self.store.experiments() if known.digest == digest)
        if now is not history.stored.standing:
            return False
        with contextlib.suppress(LocalProtocolError):
            self.store.set_standing(digest, standing)
            return True
        return False

    def _opening(self, history: PlainHistory, now: int, after: int) -> tuple[int, StoredKey]:
        """The next opening, and the key of its slot; never a slot that is scrubbed, where the clock was set back."""
        while True:
            opens_at = self.grid.next_opening(history.document.windows, now=now, after=after)
            slot = self.grid.slot_of(opens_at)
            key = self._key_of(slot)
            if key is not None:
                return opens_at, key
            after = self.grid.end(slot)

    def _announce(self, history: PlainHistory, now: int) -> None:
        before = history.rounds[-1] if history.rounds else None
        opens_at, key = self._opening(history, now, 0 if before is None else before.manifest.accept_until)
        model = history.model(before)
        manifest = make_manifest(
            history.document,
            opens_at=opens_at,
            model=model.names,
            gateway_keys=published(key),
            before=None if before is None else before.manifest,
            last=None if before is None else history.how_it_ended(before),
        )
        stored = StoredRound(
            experiment=history.stored.digest,
            number=manifest.round_number,
            epoch=key.epoch,
            state=RoundState.ANNOUNCED,
            envelope=manifest.signed([self.key]),
        )
        self.store.announce(stored, model.by_name)
        self._tell("round-announced", stored)

    def _keep_endings(self, public: list[PlainHistory]) -> None:
        """What was signed here is kept, for nodes that show it and cannot sign."""
        for history in public:
            if history.is_over and history.stored.digest not in self._ending_kept:
                self.store.keep_blobs({history.ending_name: history.ending().signed([self.key])})
                self._ending_kept.add(history.stored.digest)

    def _mark_published(self, history: PlainHistory) -> None:
        """Rounds of which the next manifest, or the ending, is public now."""
        for number, known in enumerate(history.rounds, start=1):
            is_told = number < len(history.rounds) or history.is_over
            if is_told and known.stored.state is RoundState.TALLIED:
                state = advance(known.stored.state, RoundEvent.MANIFEST_SIGNED)
                self.store.set_state(known.stored.experiment, known.stored.number, state)

    # ── keys and what runs ───────────────────────────────────────────────────────────────────────────────────────────

    def _key_of(self, epoch: int) -> StoredKey | None:
        """The key of an epoch; None where it is scrubbed."""
        key = StoredKey(epoch, epoch % 256, X25519PrivateKey.generate(self.dice).secret_bytes())
        try:
            return self.store.add_key(key)
        except LocalProtocolError:
            return None

    def _turn_fetch_keys(self, now: int) -> None:
        """There is the one that is handed out now, and those that manifests name; others go when their slot is over."""
        make_fetch_key(self.store, self.grid, now, self.dice)
        past = [key for key in self.store.fetch_keys() if now >= self.grid.end(key.epoch)]
        named = self.others_named() if past else frozenset()
        for key in past:
            if published(key) not in named:
                self.store.forget_fetch_key(key.epoch)

    def _show_keys(self, now: int) -> None:
        data = None if self._present is None else keys_of_now(self._present, grid=self.grid, now=now)
        if data is not None:
            self.publisher.put_keys(data)

    def _tell_present(self, now: int) -> None:
        fetch_keys = self.store.fetch_keys()
        present = running_rounds(self._histories.read(), self.store.keys(), fetch_keys, grid=self.grid, now=now)
        if present != self._present:
            self._present = present
            self.ingest.update(present)

    # ── (6) forgetting, and the next time ────────────────────────────────────────────────────────────────────────────

    async def _scrub(self, now: int) -> None:
        histories, keys = self._histories.read(), self.store.keys()
        for key in keys:
            if is_over(histories, key.epoch, grid=self.grid, now=now):
                self.store.close_epoch(key.epoch)
                # In a thread: with millions of records it takes seconds, and the next epoch's packages arrive.
                await asyncio.to_thread(self.store.scrub, key.epoch)
                self.log.tell("epoch-scrubbed", epoch=key.epoch)

    def _next_instant(self, now: int) -> int | None:
        histories = self._histories.read()
        ends: dict[int, int] = {}
        instants = []
        for known in live_rounds(histories):
            ends[known.stored.epoch] = max(ends.get(known.stored.epoch, 0), known.manifest.accept_until)
            if known.stored.state is RoundState.ANNOUNCED:
                instants.append(known.manifest.opens_at)
            elif known.stored.state is RoundState.OPEN:
                instants.append(known.manifest.closes_at)
        instants += ends.values()
        # The key for fetches is another one in each slot; and a slot without rounds is over at its end.
        instants.append(self.grid.end(self.grid.slot_of(now)))
        return min((at for at in instants if at > now), default=None)

    def _tell(self, event: str, stored: StoredRound, **counts: int) -> None:
        self.log.tell(event, experiment=stored.experiment, round=stored.number, epoch=stored.epoch, **counts)


def _is_met(history: PlainHistory, tally: Tally) -> bool:
    return history.document.reaches_floor(tally.participants.tolist())
