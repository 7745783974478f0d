"""Salts that nobody chose: beacons are waited for, verified and kept, or the experiment does not begin."""

import asyncio
import io
import json
import threading
from typing import Any

import pytest

from secvm.coordinator.experiments.new_experiment import DRAND, NIST, NewestPulse, choose_beacons
from secvm.coordinator.experiments.specification import BeaconPart
from secvm.coordinator.log.beacon_records import BeaconKeeper, has_salt
from secvm.coordinator.public_documents import beacon_path
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore, Standing
from secvm.crypto.beacons.sources import LocalUnsafeBeacon, round_time, salt_from, verify_beacon
from secvm.errors import BadBeaconError, BadExperimentError, BeaconUnavailableError
from secvm.protocol.documents.ending import Why, accept_ending
from secvm.protocol.documents.experiment import Beacon, ExperimentDocument, HashedBins
from secvm.runtime.logs import Log
from secvm.testing.clock import ManualClock
from tests.unit.coordinator.rounds import add, at_work, until
from tests.unit.coordinator.witnesses import Logged, TinyWitness, all_answer, away, logged
from tests.unit.crypto import recorded_beacons as recorded
from tests.unit.protocol.helpers import START

NOW = START - 100_000
#: Rounds of the development beacon are seconds.
SOON, LATER = NOW // 1000 + 20, NOW // 1000 + 40


def salted(*beacons: Beacon, **changes: Any) -> ExperimentDocument:
    named = beacons or (Beacon("local-unsafe", SOON), Beacon("local-unsafe-b", LATER))
    return logged(binning=HashedBins(bins=10, beacons=named), **changes)


class Source:
    """Beacons by script: refuses a few times, then has what the real ones would have."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.failures: list[Exception] = []
        self.instead: dict[str, bytes] = {}

    def fetch(self, chain: str, round_number: int) -> bytes:
        assert threading.current_thread() is not threading.main_thread()
        self.asked.append((chain, round_number))
        if self.failures:
            raise self.failures.pop(0)
        return self.instead.get(chain) or LocalUnsafeBeacon().fetch(chain, round_number)


class World:
    """A coordinator with a log that waits for beacons."""

    def __init__(self, of: ExperimentDocument, *, now: int = NOW, store: CoordinatorStore | None = None) -> None:
        self.of, self.source, self.lines = of, Source(), io.StringIO()
        self.clock = ManualClock(now)
        self.witnesses = [TinyWitness(i, self.clock) for i in range(3)]
        self.store = store or MemoryStore()
        add(self.store, of)
        self.begin()

    def begin(self) -> None:
        self.coordinator = Logged(self.store, self.clock, self.witnesses)
        self.salting = BeaconKeeper(
            store=self.store,
            source=self.source,
            clock=self.clock,
            logbook=self.coordinator.logbook,
            wake=self.coordinator.driver.wake,
            log=Log(self.lines, self.clock, "coordinator"),
            first_pause_s=0.001,
        )

    async def step(self) -> tuple[bool, int | None]:
        await self.coordinator.step()
        result = await self.salting.step()
        await self.coordinator.step()
        return result

    def events(self) -> list[str]:
        return [json.loads(line)["event"] for line in self.lines.getvalue().splitlines()]

    def record(self, index: int) -> bytes | None:
        found = self.coordinator.publisher.public(beacon_path(self.of.digest, index))
        return None if found is None else found[0]

    @property
    def standing(self) -> Standing:
        return self.store.experiments()[0].standing


async def test_round_one_is_announced_when_every_beacon_has_spoken_and_not_before() -> None:
    world = World(salted())
    assert await world.step() == (False, SOON * 1000)
    assert world.store.rounds(world.of.digest) == []
    assert world.coordinator.publisher.public(f"/v1/experiment/{world.of.digest}") is not None
    assert world.source.asked == []
    world.clock.advance(20_000)
    assert await world.step() == (False, LATER * 1000)
    assert world.source.asked == [("local-unsafe", SOON)]
    assert (world.record(0) is not None, world.record(1)) == (True, None)
    assert world.store.rounds(world.of.digest) == []
    world.clock.advance(20_000)
    assert await world.step() == (False, None)
    assert len(world.store.rounds(world.of.digest)) == 1
    assert has_salt(world.store, world.of)
    outputs = []
    for index, (chain, number) in enumerate([("local-unsafe", SOON), ("local-unsafe-b", LATER)]):
        record = world.record(index)
        assert record is not None
        outputs.append(verify_beacon(chain, number, record, allow_unsafe=True).value)
    assert len(salt_from(outputs, 10)) == 32
    assert world.events() == ["beacon-kept", "beacon-kept"]


def test_an_experiment_with_a_salt_of_its_own_waits_for_nobody() -> None:
    world = World(logged())
    asyncio.run(world.step())
    assert len(world.store.rounds(world.of.digest)) == 1
    assert world.source.asked == []


async def test_a_record_that_is_not_genuine_is_not_kept_and_asked_for_again() -> None:
    world = World(salted(Beacon("local-unsafe", SOON)))
    world.source.instead["local-unsafe"] = LocalUnsafeBeacon().fetch("local-unsafe", SOON + 1)
    await world.step()
    world.clock.advance(20_000)
    assert await world.step() == (True, None)
    assert world.store.beacons(world.of.digest) == {}
    assert world.store.rounds(world.of.digest) == []
    world.source.instead.clear()
    assert await world.step() == (False, None)
    assert len(world.store.rounds(world.of.digest)) == 1
    assert world.events() == ["beacon-failed", "beacon-kept"]


async def test_an_experiment_that_is_not_cosigned_in_time_is_stopped_and_says_so() -> None:
    world = World(salted())
    all_answer(world.witnesses, away)
    assert await world.step() == (False, SOON * 1000)
    world.clock.advance(20_000)
    await world.step()
    assert world.standing is Standing.STOPPED
    all_answer(world.witnesses, None)
    await world.step()
    assert world.source.asked == []
    assert world.events() == ["logged-too-late"]
    served = world.coordinator.publisher.public(f"/v1/experiment/{world.of.digest}/ending")
    assert served is not None
    ending = accept_ending(served[0], document=world.of)
    assert (ending.round_number, ending.why) == (0, Why.STOPPED)


async def test_an_experiment_whose_quorum_came_at_the_instant_of_a_beacon_is_stopped() -> None:
    world = World(salted())
    world.witnesses[0].instead = world.witnesses[1].instead = away
    await world.coordinator.step()
    world.clock.advance(20_000)
    world.witnesses[0].instead = None
    await world.step()
    assert world.standing is Standing.STOPPED
    assert world.store.beacons(world.of.digest) == {}
    assert world.source.asked == []


def test_a_pulse_that_turns_out_to_be_older_than_the_first_checkpoint_stops_the_experiment() -> None:
    # The time of NIST's pulses stands in them alone, and this one is of 2018.
    world = World(salted(Beacon(recorded.NIST, recorded.PULSE)))
    world.source.instead[recorded.NIST] = recorded.NIST_RECORD
    asyncio.run(world.step())
    assert world.standing is Standing.STOPPED
    assert world.store.beacons(world.of.digest) == {}


async def test_a_real_round_of_drand_is_verified_and_kept() -> None:
    at = round_time(DRAND, recorded.ROUND)
    assert at is not None
    world = World(salted(Beacon(DRAND, recorded.ROUND)), now=at - 30_000)
    world.source.instead[DRAND] = recorded.DRAND_RECORD
    await world.step()
    world.clock.advance(30_000)
    await world.step()
    assert world.store.beacons(world.of.digest) == {0: recorded.DRAND_RECORD}


async def test_the_task_waits_for_the_clock_and_tries_again_in_the_machines_time() -> None:
    world = World(salted(Beacon("local-unsafe", SOON)))
    world.source.failures = [
        BeaconUnavailableError("later"),
        BadBeaconError("what is this"),
        BeaconUnavailableError(""),
    ]
    await world.coordinator.step()
    async with at_work(world.salting):
        await until(lambda: world.clock.next_waking() == SOON * 1000)
        assert world.source.asked == []
        world.clock.advance(20_000)
        await until(lambda: has_salt(world.store, world.of))
    assert world.events() == ["beacon-failed"] * 3 + ["beacon-kept"]


async def test_after_a_restart_records_are_there_and_nobody_is_asked_again() -> None:
    world = World(salted(Beacon("local-unsafe", SOON)))
    await world.step()
    world.clock.advance(20_000)
    await world.salting.step()
    # Died before the driver's next step.
    world.begin()
    await world.step()
    assert len(world.source.asked) == 1
    assert world.record(0) is not None
    assert len(world.store.rounds(world.of.digest)) == 1


# ── which rounds ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_delay_means_the_first_rounds_after_it() -> None:
    at = START + 900_000
    drand, nist = choose_beacons((), 900, now=START, newest=NewestPulse(1000, START - 30_000), test=False)
    assert (drand.chain, nist) == (DRAND, Beacon(NIST, 1000 + 16))
    known, before = round_time(DRAND, drand.round_number), round_time(DRAND, drand.round_number - 1)
    assert known is not None
    assert before is not None
    assert before < at <= known


@pytest.mark.parametrize(
    ("named", "delay", "sentence"),
    [
        ([("local-unsafe", SOON)], None, "for tests alone"),
        ([("dice", 1)], None, "nobody here knows a beacon of this name"),
        ([(DRAND, 1)], None, "known already"),
        ([(NIST, 5), (NIST, 5)], None, "none of them twice"),
        ([(NIST, 5 + i) for i in range(9)], None, "at most 8"),
        ([(NIST, 5)], 900, "not both"),
        ([], 900, 'beacons = \\[{ chain = "drand-quicknet"'),
    ],
)
def test_beacons_that_do_not_fit_are_refused_in_one_sentence(
    named: list[tuple[str, int]], delay: int | None, sentence: str
) -> None:
    parts = tuple(BeaconPart(chain=chain, round=number) for chain, number in named)
    with pytest.raises(BadExperimentError, match=sentence):
        choose_beacons(parts, delay, now=NOW, newest=None, test=False)
