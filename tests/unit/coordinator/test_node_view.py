"""A node that follows shows what the driver shows, perhaps a little later, and never anything else."""

import asyncio
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from secvm.coordinator.counting.epoch_count import RoundToCount, ShardCounting
from secvm.coordinator.experiments.history import PlainHistories
from secvm.coordinator.intake.running import CurrentRounds, OpenRound
from secvm.coordinator.log.log_files import log_path
from secvm.coordinator.nodes.node_view import NodeView, ShardHelper
from secvm.coordinator.public_documents import ending_path
from secvm.coordinator.publisher import Publisher
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore, Standing
from secvm.coordinator.store.rules import SHARDS
from secvm.errors import StoreError
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.log.policy import LogTerms
from secvm.runtime.logs import Log
from secvm.testing.clock import ManualClock
from tests.contract.coordinator.test_counting import zeros
from tests.unit.coordinator.rounds import GRID, Coordinator, add, at_work, crowd, experiment, few, tally_of, until
from tests.unit.coordinator.witnesses import TERMS, Logged, TinyWitness, all_answer, away, logged
from tests.unit.protocol.helpers import START


class Follower:
    """A node that follows, without a network."""

    def __init__(
        self,
        store: CoordinatorStore,
        clock: ManualClock,
        terms: LogTerms | None = None,
        *,
        folder: Path | None = None,
    ) -> None:
        self.store = store
        self.publisher = Publisher(store, folder)
        self.present = CurrentRounds()
        self.updates = 0
        self.steady = ManualClock(0)
        self.following = NodeView(
            store,
            self.publisher,
            clock,
            grid=GRID,
            update=self.update,
            terms=terms,
            steady=self.steady,
        )

    def update(self, present: CurrentRounds) -> None:
        self.present = present
        self.updates += 1

    def shown(self) -> dict[str, bytes]:
        return {path: one.data for path, one in self.publisher._shown.items()} | {
            f"/v1/blob/{digest}": self.store.blob(digest) for digest in self.publisher._blobs
        }

    def lasting(self) -> dict[str, bytes]:
        return {path: one.data for path, one in self.publisher._shown.items() if one.lasting}


def driving(store: MemoryStore, name: str = "driver") -> CoordinatorStore:
    term = store.lead(name, 10.0)
    assert term is not None
    return store.driving(term)


def laid_out(*experiments: ExperimentDocument) -> tuple[MemoryStore, ManualClock]:
    store = MemoryStore()
    for of in experiments:
        add(store, of)
    return store, ManualClock(START - 100_000)


def follow_all(
    store: MemoryStore, driver: Coordinator, follower: Follower, who: Callable[[Any], list[Any]] = crowd
) -> None:
    """Drive to the end; after each step the follower reads, and shows no byte that the driver does not."""

    async def go() -> None:
        for _ in range(200):
            at = await driver.step(who)
            follower.update(follower.following.read())
            shown = driver.shown()
            assert follower.lasting().items() <= shown.items()
            assert follower.shown().keys() <= shown.keys()
            assert follower.present == driver.ingest.present
            if driver.over():
                return
            assert at is not None
            driver.clock.advance(at - driver.clock.now())
        raise AssertionError("this goes on for ever")

    asyncio.run(go())


def test_at_every_instant_it_shows_and_takes_what_the_driver_does() -> None:
    of = experiment()
    store, clock = laid_out(of)
    add(store, experiment(title="few come", rounds=2))

    def who(one: Any) -> list[Any]:
        return few(one) if one.document.title == "few come" and one.number == 1 else crowd(one)

    driver, follower = Coordinator(driving(store), clock), Follower(store.another_node(), clock)
    follow_all(store, driver, follower, who)
    assert follower.shown() == driver.shown()
    assert follower.publisher.public(ending_path(of.digest)) is not None


def test_with_a_log_nothing_is_shown_before_witnesses_have_seen_it() -> None:
    of = logged(rounds=2)
    store, clock = laid_out(of)
    witnesses = [TinyWitness(number, clock) for number in range(3)]
    driver = Logged(driving(store), clock, witnesses)
    follower = Follower(store.another_node(), clock, TERMS)
    all_answer(witnesses, away)
    for _ in range(3):
        asyncio.run(driver.driver.step())
    follower.following.read()
    # It is durable and signed, and nobody has cosigned it.
    assert not any(of.digest in path for path in follower.shown())
    all_answer(witnesses, None)
    follow_all(store, driver, follower)
    made = follower.shown()
    # Proofs may lead to another checkpoint, as after a restart, and an ending stand under one with other cosignatures;
    # everything else is the same.
    others = {f"/v1/experiment/{of.digest}/checkpoint", *(path for path in made if "/proof/" in path)}
    assert made.keys() == driver.shown().keys()
    assert {path: made[path] for path in made if path not in others} == {
        path: data for path, data in driver.shown().items() if path not in others
    }
    assert follower.publisher.public(log_path("tile/0/000.p/1")) == driver.publisher.public(log_path("tile/0/000.p/1"))


def test_one_that_comes_late_shows_what_one_shows_that_was_there_all_the_time() -> None:
    of = logged(rounds=2)
    store, clock = laid_out(of)
    driver = Logged(driving(store), clock, [TinyWitness(number, clock) for number in range(3)])
    asyncio.run(driver.go())
    late = Follower(store.another_node(), clock, TERMS)
    late.following.read()
    assert late.lasting().items() <= driver.shown().items()
    assert late.publisher.public(ending_path(of.digest)) == driver.publisher.public(ending_path(of.digest))


def test_an_ending_is_shown_when_the_driver_has_kept_it_and_its_counts_not_before() -> None:
    of = experiment(rounds=1)
    store, clock = laid_out(of)
    driver = Coordinator(store, clock)
    asyncio.run(driver.go(until=lambda: bool(driver.sent)))
    clock.advance(600_000)
    asyncio.run(driver.step())
    assert store.experiments()[0].standing is Standing.FINISHED
    (name,) = (history.ending_name for history in PlainHistories(store).read())
    kept = store.blob(name)
    with store._database.changing() as connection:
        connection.execute("DELETE FROM blobs WHERE digest = ?", (name,))
    follower = Follower(store.another_node(), clock)
    follower.following.read()
    assert not follower.publisher.is_shown(ending_path(of.digest))
    assert "counts" not in str(follower.publisher.public(f"/v1/experiment/{of.digest}/status"))
    store.keep_blobs({name: kept})
    follower.following.read()
    assert follower.publisher.public(ending_path(of.digest)) == driver.publisher.public(ending_path(of.digest))


# ── when ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Counting(MemoryStore):
    """A store that counts how often it was read, and can fail."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0
        self.away = False

    def keys(self) -> list[Any]:
        self.read += 1
        if self.away:
            raise StoreError("the database does not answer")
        return super().keys()


async def test_questions_that_come_together_are_answered_by_one_reading_that_began_after_them() -> None:
    store = Counting()
    follower = Follower(store, ManualClock(START))
    await follower.following.refresh()
    assert store.read == 1
    asking = [asyncio.ensure_future(follower.following.refresh()) for _ in range(50)]
    # Two readings begin some time apart, however many ask.
    await until(lambda: follower.steady.next_waking() is not None)
    assert store.read == 1
    add(store, experiment())
    follower.steady.advance(1000)
    await asyncio.gather(*asking)
    assert store.read == 2
    assert follower.publisher.public("/v1/experiments") != (b'{"experiments":[]}', "application/json")
    assert follower.following.lag_ms == 0
    follower.steady.advance(700)
    assert follower.following.lag_ms == 700


async def test_a_store_that_cannot_be_read_leaves_the_view_and_says_so() -> None:
    store = Counting()
    add(store, experiment())
    follower = Follower(store, ManualClock(START))
    await follower.following.refresh()
    before = follower.shown()
    store.away = True
    follower.steady.advance(1000)
    with pytest.raises(StoreError):
        await follower.following.refresh()
    assert follower.shown() == before
    async with at_work(follower.following):
        for _ in range(5):
            follower.steady.advance(5000)
            await until(lambda: follower.steady.next_waking() is not None)
        store.away = False
        read = store.read
        while store.read == read:
            follower.steady.advance(500)
            await asyncio.sleep(0)


async def test_a_node_that_drives_follows_nothing_and_is_told_anew_when_it_follows_again() -> None:
    store = Counting()
    follower = Follower(store, ManualClock(START))
    await follower.following.refresh()
    updates = follower.updates
    await follower.following.pause()
    follower.steady.advance(1000)
    await follower.following.refresh()
    assert (store.read, follower.following.lag_ms, follower.following.closing()) == (1, 0, [])
    assert follower.updates == updates
    follower.following.resume()
    follower.steady.advance(1000)
    await follower.following.refresh()
    assert (store.read, follower.updates) == (2, updates + 1)


async def test_repro_a_driver_that_does_not_know_all_that_runs_is_not_believed() -> None:
    store, clock = laid_out(experiment(rounds=1))
    driver = Coordinator(store, clock)
    await driver.go(until=lambda: bool(driver.ingest.present.rounds))
    # This node drives, as far as it knows, and another one has announced a round.
    follower = Follower(store.another_node(), clock)
    await follower.following.pause()
    with pytest.raises(StoreError):
        await follower.following.refresh()
    follower.following.note_announced(driver.ingest.present)
    follower.steady.advance(1000)
    await follower.following.refresh()
    # It is its driver that says what runs, until it drives no more.
    assert follower.updates == 0
    follower.following.resume()
    follower.steady.advance(1000)
    await follower.following.refresh()
    assert follower.present == driver.ingest.present


async def test_repro_whoever_begins_to_drive_waits_until_what_was_shown_before_is_written() -> None:
    follower = Follower(MemoryStore(), ManualClock(START))
    writing, written = asyncio.Event(), asyncio.Event()

    async def flush() -> None:
        writing.set()
        await written.wait()

    follower.publisher.flush = flush  # type: ignore[method-assign]
    async with at_work(follower.following):
        await writing.wait()
        pausing = asyncio.ensure_future(follower.following.pause())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not pausing.done()
        written.set()
        await pausing


# ── helping to count ─────────────────────────────────────────────────────────────────────────────────────────────────


async def to_be_counted() -> tuple[Coordinator, Follower, OpenRound]:
    """A round whose window is over and whose epoch is closed; nobody has counted it."""
    store, clock = laid_out(experiment(rounds=1))
    driver = Coordinator(store, clock)
    await driver.go(until=lambda: bool(driver.sent))
    (one,) = driver.ingest.present.rounds
    clock.advance(one.times.closes_at - clock.now())
    await driver.step()
    store.close_epoch(one.epoch)
    follower = Follower(store.another_node(), clock)
    follower.following.read()
    return driver, follower, one


async def test_who_follows_counts_shards_of_a_closed_epoch_and_a_fault_there_ends_nothing() -> None:
    driver, follower, one = await to_be_counted()
    store, clock = follower.store, driver.clock
    assert follower.following.closing() == [one.epoch]
    page = io.StringIO()
    faults: list[Exception] = [StoreError("away"), StoreError("away")]
    counting = ShardCounting(follower.store, zeros)

    def count_one(epoch: int, rounds: Callable[[], list[RoundToCount]]) -> bool:
        if faults:
            raise faults.pop()
        return counting.count_one(epoch, rounds)

    helping = ShardHelper(follower.following, count_one, steady=follower.steady, log=Log(page, clock, "coordinator"))
    async with at_work(helping):
        while len(store.shards(one.epoch)) < SHARDS:
            follower.steady.advance(500)
            await asyncio.sleep(0)
    assert page.getvalue().count("helping-failed") == 2
    whole = await ShardCounting(store, zeros).whole(one.epoch, follower.following.rounds_of(one.epoch))
    assert whole.tallies == [tally_of(one)]
    # The driver adds what others counted, and the round comes out as ever.
    driver.driver._count = ShardCounting(store, zeros).whole
    await driver.go()
    assert store.rounds(one.document.digest)[0].tally is not None


async def test_repro_who_cannot_count_an_epoch_leaves_it_to_others_and_claims_nothing_of_it_again() -> None:
    _, follower, one = await to_be_counted()
    asked = []

    def count_one(epoch: int, _: Callable[[], list[RoundToCount]]) -> bool:
        asked.append(epoch)
        # A node of an older version, say.
        raise KeyError("a kind of experiment that is not known here")

    helping = ShardHelper(follower.following, count_one, steady=follower.steady)
    with pytest.raises(KeyError):
        await helping.step(asyncio.Event())
    assert await helping.step(asyncio.Event()) == 0
    assert asked == [one.epoch]
