"""One of many drives, as long as it renews its lease in time; whoever loses the lead is a candidate again."""

import asyncio
import gc
import io
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from secvm.coordinator.nodes.election import Election
from secvm.coordinator.store.memory import MemoryStore
from secvm.errors import LocalProtocolError, StaleDriverError, StoreError
from secvm.runtime.logs import Log
from secvm.testing.clock import ManualClock
from tests.unit.coordinator.rounds import until

LEASE_S = 9.0
PART_MS = 3000


async def at_once(act: Callable[..., Any], *given: Any) -> Any:
    await asyncio.sleep(0)
    return act(*given)


class Candidate:
    """A candidate that does nothing but drive, and what became of it."""

    def __init__(self, name: str, store: Any, clock: ManualClock, *, threads: bool = False) -> None:
        self.clock = clock
        self.page = io.StringIO()
        #: Terms it drove, and drives no more.
        self.began: list[int] = []
        self.ended: list[int] = []
        #: Takes the place of driving.
        self.instead: Callable[[], None] | None = None
        self._thrown = 0
        self.name = name
        self.election = Election(
            store,
            name=name,
            lease_s=LEASE_S,
            clock=clock,
            dice=self._dice,
            drive=self._drive,
            call=asyncio.to_thread if threads else at_once,
            log=Log(self.page, clock, "coordinator"),
        )
        self.stop = asyncio.Event()
        self.task = asyncio.ensure_future(self.election.run(self.stop))

    def _dice(self, count: int) -> bytes:
        self._thrown += 1
        return self._thrown.to_bytes(count, "big")

    async def _drive(self, term: int, ending: asyncio.Event) -> None:
        self.began.append(term)
        try:
            if self.instead is not None:
                self.instead()
            await ending.wait()
        finally:
            self.ended.append(term)

    def told(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.page.getvalue().splitlines()]
        return [line for line in lines if line["event"] == event]

    async def end(self) -> None:
        self.stop.set()
        await self.task


async def pass_time(clock: ManualClock, ms: int, *, until: Callable[[], bool] = lambda: False) -> None:
    """Let time go by in small steps, for so long or until something holds; everybody has a turn at each."""
    for _ in range(ms // 500):
        clock.advance(500)
        for _ in range(30):
            await asyncio.sleep(0)
        if until():
            return


async def test_one_of_two_leads_and_renews_and_the_other_takes_over_when_it_resigns() -> None:
    clock = ManualClock(0)
    store = MemoryStore(clock)
    first = Candidate("first", store, clock)
    await until(lambda: first.began == [1])
    second = Candidate("second", store.another_node(), clock)
    await pass_time(clock, 40_000)
    assert (first.election.term, second.election.term) == (1, None)
    assert (first.began, second.began) == ([1], [])
    await first.end()
    # Told to end, not cancelled; and nobody waits for the rest of the lease.
    now = clock.now()
    await pass_time(clock, 2 * PART_MS, until=lambda: second.began == [2])
    assert clock.now() - now < 1000 * LEASE_S
    assert first.ended == [1]
    assert [line["term"] for line in second.told("leading")] == [2]
    assert not first.told("lost-the-lead")
    await second.end()


async def test_one_that_was_stopped_loses_the_lead_and_finds_out_as_soon_as_it_goes_on() -> None:
    clock, stopped = ManualClock(0), ManualClock(0)
    store = MemoryStore(clock)
    first = Candidate("first", store, stopped)
    await until(lambda: first.began == [1])
    second = Candidate("second", store.another_node(), clock)
    # The time of the first stands still: it renews nothing.
    await pass_time(clock, 20_000, until=lambda: second.began == [2])
    assert second.began == [2]
    assert first.ended == []
    stopped.advance(clock.now())
    await until(lambda: first.ended == [1])
    await until(lambda: bool(first.told("lost-the-lead")))
    assert first.told("lost-the-lead")[0]["reason"] == "lease-ran-out"
    # It is a candidate again, and the other one leads on.
    await pass_time(clock, 30_000)
    assert (first.began, second.election.term) == ([1], 2)
    await first.end()
    await second.end()


@pytest.mark.parametrize(("fault", "reason"), [(StaleDriverError, "another-leads"), (StoreError, "store-failed")])
async def test_a_driver_that_is_stale_or_has_no_store_follows_again_and_no_process_ends(
    fault: type[StoreError], reason: str
) -> None:
    clock = ManualClock(0)
    first = Candidate("first", MemoryStore(clock), clock)
    faults = [fault()]

    def fail_once() -> None:
        if faults:
            raise faults.pop()

    first.instead = fail_once
    await until(lambda: bool(first.told("lost-the-lead")))
    assert first.told("lost-the-lead")[0]["reason"] == reason
    # With a new term: nothing of the one before is taken for the driver of now.
    await pass_time(clock, 2 * PART_MS)
    assert first.began == [1, 2]
    assert len(first.told("following")) == 2
    await first.end()


async def test_a_fault_of_our_own_ends_the_process() -> None:
    clock = ManualClock(0)
    store = MemoryStore(clock)
    first = Candidate("first", store, clock)

    def fail() -> None:
        raise LocalProtocolError("a fault of ours")

    first.instead = fail
    with pytest.raises(LocalProtocolError, match="ours"):
        await first.task
    # Resigned all the same: another one need not wait.
    assert store.lead("second", LEASE_S) == 2


class Unwell(MemoryStore):
    """A store whose ``lead`` fails, or does not answer, from the second time on."""

    def __init__(self, clock: ManualClock, *, silent: bool) -> None:
        super().__init__(clock)
        self.asked = self.under_way = 0
        self.silent = silent
        self.well = threading.Event()

    def lead(self, holder: str, lease_s: float) -> int | None:
        self.asked += 1
        self.under_way += 1
        try:
            if self.asked > 1 and not self.well.is_set():
                if not self.silent:
                    raise StoreError("the database does not answer")
                self.well.wait()
            return super().lead(holder, lease_s)
        finally:
            self.under_way -= 1


@pytest.mark.parametrize("silent", [False, True])
async def test_a_lease_that_cannot_be_renewed_in_time_ends_the_driving(silent: bool) -> None:
    clock = ManualClock(0)
    store = Unwell(clock, silent=silent)
    first = Candidate("first", store, clock, threads=True)
    await until(lambda: first.began == [1])
    while not first.ended:
        clock.advance(500)
        await until(lambda: not store.under_way or (store.silent and store.asked > 1))
        for _ in range(30):
            await asyncio.sleep(0)
    # Not before: a database may be away for a moment.
    assert clock.now() >= 1000 * LEASE_S
    assert store.asked >= 2
    await until(lambda: bool(first.told("lost-the-lead")))
    assert first.told("lost-the-lead")[0]["reason"] == "lease-ran-out"
    store.well.set()
    while len(first.began) < 2:
        clock.advance(100)
        await asyncio.sleep(0)
    assert first.began[1] > 1
    await first.end()


async def test_a_database_that_is_away_for_less_than_a_lease_costs_nothing() -> None:
    clock = ManualClock(0)
    store = Unwell(clock, silent=False)
    first = Candidate("first", store, clock)
    await until(lambda: first.began == [1])
    await pass_time(clock, 6000, until=lambda: store.asked == 2)
    assert store.asked == 2
    store.well.set()
    await pass_time(clock, 30_000)
    assert (first.began, first.ended, first.election.term) == ([1], [], 1)
    await first.end()


async def test_repro_a_renewal_that_fails_after_the_lead_was_lost_is_nobodys_fault() -> None:
    """A database was killed while a driver renewed its lease: its log told of a fault of the loop."""
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
    clock, fails, lost = ManualClock(0), asyncio.Event(), asyncio.Event()
    asked: list[str] = []

    async def call(act: Callable[..., Any], *given: Any) -> Any:
        asked.append(act.__name__)
        if asked.count("lead") == 2 and act.__name__ == "lead":
            await fails.wait()
            raise StoreError("the database does not answer")
        return act(*given)

    async def drive(_term: int, _ending: asyncio.Event) -> None:
        await lost.wait()
        raise StoreError("the database does not answer")

    election = Election(
        MemoryStore(clock), name="one", lease_s=LEASE_S, clock=clock, dice=bytes, drive=drive, call=call
    )
    stop = asyncio.Event()
    running = asyncio.ensure_future(election.run(stop))
    await until(lambda: election.term == 1)
    await pass_time(clock, PART_MS, until=lambda: asked == ["lead", "lead"])
    assert asked == ["lead", "lead"]
    lost.set()
    await until(lambda: election.term is None)
    stop.set()
    fails.set()
    await running
    for _ in range(10):
        await asyncio.sleep(0)
    gc.collect()
    assert faults == []
