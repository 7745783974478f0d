"""A clock that is wrong for a while closes nothing, signs nothing and destroys nothing; right again, all goes on."""

import asyncio
import io
import json
from pathlib import Path

import aiohttp
import pytest

from secvm.coordinator import driver as driving
from secvm.coordinator import main
from secvm.coordinator.clock_check import ClockCheck
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore
from secvm.protocol.round_state import RoundState
from secvm.runtime.logs import Log
from secvm.testing.clock import ManualClock
from secvm.testing.processes import free_port
from tests.unit.coordinator.rounds import GRID, Coordinator, add, experiment, held_epochs
from tests.unit.coordinator.test_main import settings
from tests.unit.coordinator.witnesses import TERMS, Logged, TinyWitness, all_answer, away, logged
from tests.unit.protocol.helpers import START

DAYS_400 = 400 * 86_400_000
PERIOD_MS = 1000 * GRID.period_s


class WrongClock(ManualClock):
    """Shows the truth, and so much more."""

    ahead = 0

    def now(self) -> int:
        return super().now() + self.ahead


class Truth:
    """What the wrong clock would show if nobody had set it; as a steady clock, since an instant."""

    def __init__(self, clock: WrongClock, since: int = 0) -> None:
        self.clock, self.since = clock, since

    def now(self) -> int:
        return ManualClock.now(self.clock) - self.since

    async def sleep_until(self, at: int) -> None:
        await self.clock.sleep_until(at + self.since)


class World:
    """A coordinator that may begin again on its store, beside a clock that somebody sets."""

    def __init__(self, *, log: bool) -> None:
        self.clock = WrongClock(START - 100_000)
        self.steady = Truth(self.clock, since=START - 200_000)
        self.store: CoordinatorStore = MemoryStore()
        self.witnesses = [TinyWitness(i, Truth(self.clock)) for i in range(3)] if log else []
        self.digest = add(self.store, logged() if log else experiment())
        self.sent: set[tuple[str, int]] = set()
        self.lines = io.StringIO()
        self.start()

    def start(self) -> None:
        """Begin, or begin again: what a process remembers is gone."""
        log = Log(self.lines, self.clock, "coordinator")
        terms = TERMS if self.witnesses else None
        self.check = ClockCheck(self.clock, self.steady, period_s=GRID.period_s, terms=terms, log=log)
        self.coordinator = (
            Logged(self.store, self.clock, self.witnesses, sent=self.sent, check=self.check)
            if self.witnesses
            else Coordinator(self.store, self.clock, sent=self.sent, check=self.check)
        )
        self.coordinator.driver.prepare()

    def go(self, *, rounds: int, state: RoundState) -> None:
        """On to the instant at which there are so many rounds, and the newest stands so."""
        asyncio.run(self.coordinator.go(until=lambda: self.states()[rounds - 1 :] == [state]))

    def states(self) -> list[RoundState]:
        return [one.state for one in self.store.rounds(self.digest)]

    def step(self) -> None:
        asyncio.run(self.coordinator.step())

    def stored(self) -> tuple[object, ...]:
        """All that a driver changes."""
        return self.store.rounds(self.digest), held_epochs(self.store)

    def check_that_all_ends_well(self) -> None:
        """Every round was tallied in its own slot, one after the other."""
        asyncio.run(self.coordinator.go())
        rounds = self.store.rounds(self.digest)
        assert [one.state for one in rounds] == [RoundState.PUBLISHED] * 3
        assert [one.epoch for one in rounds] == [rounds[0].epoch + i for i in range(3)]

    def events(self) -> list[tuple[str, str | None]]:
        return [(line["event"], line.get("reason")) for line in map(json.loads, self.lines.getvalue().splitlines())]


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("ahead", [DAYS_400, PERIOD_MS + 1, -PERIOD_MS - 1])
def test_repro_some_wrong_seconds_of_the_clock_change_nothing(log: bool, ahead: int) -> None:
    world = World(log=log)
    world.go(rounds=1, state=RoundState.OPEN)
    before = world.stored()
    world.clock.ahead = ahead
    world.step()
    assert world.stored() == before
    why = "witnesses-have-another-time" if log else "it-was-set"
    assert world.check.health() == {"status": "degraded", "clock": why}
    assert world.events()[-1] == ("clock-in-doubt", why)
    world.clock.ahead = 0
    world.step()
    assert world.check.health() == {}
    assert world.events()[-1] == ("clock-believed-again", None)
    world.check_that_all_ends_well()


def test_repro_a_clock_that_leaps_while_an_epoch_is_counted_announces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(log=False)
    world.go(rounds=1, state=RoundState.CLOSING)
    at = asyncio.run(world.coordinator.step())
    assert at is not None
    world.clock.advance(at - world.clock.now())
    finish = world.coordinator.ingest.finish

    async def leap(epoch: int) -> None:
        await finish(epoch)
        world.clock.ahead = DAYS_400

    monkeypatch.setattr(world.coordinator.ingest, "finish", leap)
    world.step()
    assert world.states() == [RoundState.TALLIED]
    monkeypatch.undo()
    world.clock.ahead = 0
    world.check_that_all_ends_well()


def test_repro_after_a_start_with_a_wrong_clock_a_log_waits_until_witnesses_agree() -> None:
    world = World(log=True)
    world.go(rounds=1, state=RoundState.OPEN)
    before = world.stored()
    world.clock.ahead = DAYS_400
    world.start()
    world.step()
    assert world.stored() == before
    assert world.check.doubt == "witnesses-have-another-time"
    world.clock.ahead = 0
    world.check_that_all_ends_well()


def test_after_a_start_with_a_log_nothing_is_closed_before_a_quorum_was_heard() -> None:
    world = World(log=True)
    world.go(rounds=1, state=RoundState.OPEN)
    all_answer(world.witnesses[1:], away)
    world.start()
    world.step()
    assert world.check.doubt == "too-few-witnesses-heard"
    all_answer(world.witnesses, None)
    world.check_that_all_ends_well()


def test_one_witness_with_a_wrong_clock_holds_nobody_up() -> None:
    world = World(log=True)
    wrong = WrongClock(START + DAYS_400)
    world.witnesses[0].clock = wrong
    world.check_that_all_ends_well()


def test_after_a_machine_stood_still_witnesses_are_asked_what_time_it_is() -> None:
    world = World(log=True)
    world.go(rounds=1, state=RoundState.ANNOUNCED)
    # The steady clock stood still with the machine; the other one was set right since.
    world.steady.since += 2 * PERIOD_MS
    world.step()
    assert world.events()[-2:] == [("clock-in-doubt", "witnesses-have-another-time"), ("clock-believed-again", None)]
    world.check_that_all_ends_well()


def test_repro_after_a_start_without_a_log_a_clock_that_is_behind_changes_nothing() -> None:
    world = World(log=False)
    world.go(rounds=2, state=RoundState.OPEN)
    before = world.stored()
    world.clock.ahead = -3 * PERIOD_MS
    world.start()
    world.step()
    assert (world.stored(), world.check.doubt) == (before, "rounds-are-further")
    world.clock.ahead = 0
    world.check_that_all_ends_well()


def test_a_clock_that_is_set_by_less_than_a_period_is_believed() -> None:
    world = World(log=False)
    world.go(rounds=1, state=RoundState.ANNOUNCED)
    world.clock.ahead = PERIOD_MS
    world.step()
    assert world.check.doubt is None


async def test_repro_a_whole_coordinator_tells_of_a_clock_in_doubt_and_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Leaping:
        ahead = 0

        def now(self) -> int:
            return START + self.ahead

        async def sleep_until(self, at: int) -> None:
            while self.now() < at:  # noqa: ASYNC110  (as a clock does)
                await asyncio.sleep(0.001)

    clock, port = Leaping(), free_port()
    monkeypatch.setattr(main, "SystemClock", lambda: clock)
    monkeypatch.setattr(driving, "AGAIN_S", 0.001)

    async def health_becomes(session: aiohttp.ClientSession, wanted: dict[str, str]) -> None:
        while True:
            try:
                async with session.get("/health") as answer:
                    if await answer.json() == wanted:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.001)

    stop = asyncio.Event()
    coordinator = main.Coordinator(settings(listen={"host": "127.0.0.1", "port": port}).placed(tmp_path))
    running = asyncio.create_task(coordinator.run(stop))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        await health_becomes(session, {"status": "ok"})
        clock.ahead = DAYS_400
        await health_becomes(session, {"status": "degraded", "clock": "it-was-set"})
        clock.ahead = 0
        await health_becomes(session, {"status": "ok"})
    stop.set()
    await running


def test_repro_a_first_experiment_is_logged_though_the_clock_is_doubted_before_it_is() -> None:
    """No witness can tell the time to a coordinator whose log is empty, and an empty log must not wait for them."""
    store = MemoryStore()
    coordinator = Logged(store, ManualClock(START), [TinyWitness(i, ManualClock(START)) for i in range(3)])
    coordinator.driver.prepare()
    add(store, logged())
    coordinator.logbook.ask_anew()
    asyncio.run(coordinator.step())
    assert coordinator.logbook.log.size > 0
