"""What is acknowledged is durable, is opened once, and is not lost when something fails in between."""

import asyncio
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from secvm.coordinator.counting.epoch_count import RoundToCount, count_epoch
from secvm.coordinator.intake.gateway import open_block
from secvm.coordinator.intake.ingest import Ingest
from secvm.coordinator.intake.opener import MOST_OWN_FAULTS, SLICE, Opener
from secvm.coordinator.intake.running import CurrentRounds
from secvm.coordinator.problem_responses import ACCEPTED
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.crypto.sealing.capsules import pack
from secvm.errors import LocalProtocolError, StoreError
from secvm.protocol.problems import Problem, read_problem
from secvm.runtime.http.server import HttpResponse
from secvm.runtime.logs import Log
from secvm.runtime.metrics import Metrics
from secvm.testing.clock import ManualClock
from tests.unit.coordinator.package_path import (
    ACCEPT_UNTIL,
    DICE,
    DOCUMENT,
    EPOCH,
    KEY,
    OPEN_ROUND,
    PRESENT,
    ROUND,
    plaintext,
    records,
    running,
    sealed_package,
    train,
)
from tests.unit.coordinator.rounds import until
from tests.unit.protocol.helpers import START

PACKAGES = [train(i % 11) for i in range(250)]
CAPSULES = [sealed_package(package).capsule for package in PACKAGES]
PLAINTEXTS = [plaintext(package) for package in PACKAGES]
EXPECTED = records(CAPSULES, PLAINTEXTS)


class Kill(BaseException):
    """The process ends here."""


class FailingStore(MemoryStore):
    """Fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[BaseException] = []
        self.replaced: Callable[[], object] = bool

    def _maybe(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    def append_sealed(self, epoch: int, packed: Sequence[bytes]) -> bool:
        self._maybe()
        return super().append_sealed(epoch, packed)

    def replace_sealed(self, epoch: int, numbers: Sequence[int], block: bytes) -> None:
        self._maybe()
        super().replace_sealed(epoch, numbers, block)
        self.replaced()


def opened(store: MemoryStore | SQLiteStore) -> list[bytes]:
    block = b"".join(store.opened(EPOCH))
    return sorted(block[i : i + 64] for i in range(0, len(block), 64))


def opening(store: CoordinatorStore, *, metrics: Metrics | None = None, **given: Any) -> Opener:
    """An opener that knows what runs."""
    opener = Opener(store, metrics=metrics or Metrics("coordinator"), **given)
    opener.update(PRESENT)
    return opener


def sealed_store() -> MemoryStore:
    store = MemoryStore()
    store.append_sealed(EPOCH, [pack(CAPSULES)])
    return store


def page(metrics: Metrics) -> str:
    return metrics.page()[0].decode()


# ── opening ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_block_has_a_record_for_each_package_and_a_name_for_each_fault() -> None:
    other = replace(KEY, key_id=9)
    bad = [CAPSULES[0][:-1] + b"\0", CAPSULES[1][:9], sealed_package(key=other).capsule, b"x"]
    found = open_block(PRESENT.keys_of(EPOCH), [*bad, *CAPSULES[:3], CAPSULES[0]])
    assert found.block == b"".join(
        record for at in (0, 1, 2, 0) for record in records([CAPSULES[at]], [PLAINTEXTS[at]])
    )
    assert found.refused == {"garbage": 3, "unknown-key": 1}
    assert CAPSULES[0].hex() not in repr(found)


@pytest.mark.parametrize("fault", [StoreError("disk full"), Kill()])
def test_what_fails_before_the_exchange_is_opened_again_and_nothing_is_doubled(fault: BaseException) -> None:
    store = FailingStore()
    store.append_sealed(EPOCH, [pack(CAPSULES[:100]), pack(CAPSULES[100:])])
    store.failures = [fault]

    async def finish() -> None:
        opener = opening(store)
        await opener.finish(EPOCH)

    with pytest.raises(type(fault)):
        asyncio.run(finish())
    assert opened(store) == []
    asyncio.run(finish())
    assert opened(store) == EXPECTED
    asyncio.run(finish())
    assert opened(store) == EXPECTED


async def test_two_that_wait_for_one_epoch_open_it_once() -> None:
    store = sealed_store()
    opener = opening(store)
    await asyncio.gather(opener.finish(EPOCH), opener.finish(EPOCH))
    assert opened(store) == EXPECTED


async def test_others_have_their_turn_between_slices() -> None:
    store = sealed_store()
    turns = 0
    opener = opening(store)
    task = asyncio.ensure_future(opener.finish(EPOCH))

    async def others() -> None:
        nonlocal turns
        while not task.done():
            turns += 1
            await asyncio.sleep(0)

    await asyncio.gather(task, others())
    assert turns > len(CAPSULES) // SLICE


async def test_the_opener_works_behind_the_scenes_and_goes_on_after_a_fault() -> None:
    store, metrics = FailingStore(), Metrics("coordinator")
    stream = io.StringIO()
    log = Log(stream, ManualClock(START), "coordinator")
    garbage = CAPSULES[0][:-1] + b"\0"
    done, loop = asyncio.Event(), asyncio.get_running_loop()
    store.replaced = lambda: loop.call_soon_threadsafe(done.set)
    opener = opening(store, metrics=metrics, log=log, gather_s=0, pause_s=0)
    opener.start()
    opener.start()
    store.append_sealed(EPOCH, [pack([garbage, *CAPSULES])])
    store.failures = [StoreError("disk full"), OSError("something else")]
    opener.notice(EPOCH)
    await done.wait()
    await opener.close()
    assert opened(store) == EXPECTED
    told = page(metrics)
    assert f"secvm_coordinator_opened_total {float(len(CAPSULES))}" in told
    assert "secvm_coordinator_opener_faults_total 2.0" in told
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["event"], line["epoch"], line["error"]) for line in lines] == [
        ("opener-failed", EPOCH, "store"),
        ("opener-failed", EPOCH, "other"),
    ]
    assert 'secvm_coordinator_dropped_total{problem="garbage"} 1.0' in told


async def test_what_this_process_cannot_open_is_left_to_others_after_a_few_attempts() -> None:
    store, metrics = FailingStore(), Metrics("coordinator")
    store.append_sealed(EPOCH, [pack(CAPSULES)])
    store.failures = [ValueError("a fault of our own")] * 9
    opener = opening(store, metrics=metrics, gather_s=0, pause_s=0)
    opener.start()
    opener.notice(EPOCH)
    await until(lambda: f"opener_faults_total {float(MOST_OWN_FAULTS)}" in page(metrics))
    for _ in range(9):
        opener.notice(EPOCH)
        await asyncio.sleep(0)
    await opener.close()
    assert f"opener_faults_total {float(MOST_OWN_FAULTS)}" in page(metrics)
    assert store.left_sealed(EPOCH)


async def test_claims_that_ended_on_the_way_are_no_fault_that_ends_a_driver() -> None:
    store = FailingStore()
    store.append_sealed(EPOCH, [pack(CAPSULES)])
    store.failures = [LocalProtocolError("some of these groups are opened already, others are not")]
    opener = opening(store)
    await opener.finish(EPOCH)
    assert opened(store) == EXPECTED


async def test_an_opener_that_is_closed_leaves_the_rest_sealed() -> None:
    store = sealed_store()
    opener = opening(store, gather_s=100)
    opener.start()
    await asyncio.sleep(0)
    await opener.close()
    assert len(store.sealed(EPOCH, 9)) == 1


async def test_without_its_key_an_epoch_cannot_be_finished() -> None:
    store = sealed_store()
    opener = Opener(store, metrics=Metrics("coordinator"))
    await opener.finish(EPOCH + 1)
    with pytest.raises(LocalProtocolError):
        await opener.finish(EPOCH)


# ── taking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def accepted(problem: Problem | None) -> HttpResponse:
    return ACCEPTED if problem is None else HttpResponse(problem.status)


async def test_what_could_not_be_stored_is_not_acknowledged() -> None:
    store, metrics = FailingStore(), Metrics("coordinator")
    stream = io.StringIO()
    ingest = Ingest(store, ManualClock(START), metrics=metrics, log=Log(stream, ManualClock(START)))
    ingest.update(PRESENT)
    store.failures = [StoreError("disk full")]
    told = await asyncio.gather(*(ingest.take_capsule(capsule, accepted) for capsule in CAPSULES[:3]))
    assert {(one.status, read_problem(one.body).name) for one in told} == {(503, "try-later")}
    assert store.sealed(EPOCH, 1) == []
    # The same bytes again, and now there is room.
    again = await asyncio.gather(*(ingest.take_capsule(capsule, accepted) for capsule in CAPSULES[:3]))
    assert {one.status for one in again} == {202}
    await ingest.close()
    assert [group for _, group in store.sealed(EPOCH, 9)] == [pack(CAPSULES[:3])]
    assert '"event":"commit-failed","requests":3' in stream.getvalue()
    assert "secvm_coordinator_stored_requests_total 3.0" in page(metrics)
    assert "secvm_coordinator_commit_faults_total 3.0" in page(metrics)


async def test_who_gives_up_waiting_changes_nothing() -> None:
    store = MemoryStore()
    ingest = Ingest(store, ManualClock(START), metrics=Metrics("coordinator"))
    ingest.update(PRESENT)
    ingest.take_capsule(CAPSULES[0], accepted).cancel()
    other = ingest.take_capsule(CAPSULES[1], accepted)
    await ingest.close()
    assert other.result().status == 202
    assert [group for _, group in store.sealed(EPOCH, 9)] == [pack(CAPSULES[:2])]


async def test_after_a_crash_all_that_was_acknowledged_is_counted_once(tmp_path: Path) -> None:
    file = tmp_path / "coordinator.sqlite"
    # No close, no finish: the store is left as it is.
    async with running(SQLiteStore(file)) as path:
        assert (await path.batch(CAPSULES[:200])).status == 202
        for capsule in CAPSULES[190:]:
            assert (await path.post("/v1/capsule", capsule)).status == 202
    store = SQLiteStore(file)

    async def after() -> None:
        ingest = Ingest(store, ManualClock(ACCEPT_UNTIL), metrics=Metrics("coordinator"))
        ingest.update(CurrentRounds((OPEN_ROUND,), tuple(store.keys())))
        store.close_epoch(EPOCH)
        await ingest.finish(EPOCH)
        await ingest.close()

    await after()
    assert sorted(set(opened(store))) == EXPECTED
    counted = count_epoch(
        store.opened(EPOCH), [RoundToCount(DOCUMENT.experiment_id, DOCUMENT.experiment, ROUND)], dice=DICE
    )
    assert (counted.received, counted.distinct) == (len(CAPSULES) + 10, len(CAPSULES))
    assert counted.tallies[0].plus.sum() == len(CAPSULES)
    store.close()


# ── the present ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_id_that_comes_again_is_the_older_epochs_until_that_is_over() -> None:
    newer = replace(KEY, epoch=EPOCH + 256, private=bytes(32))
    present = CurrentRounds((), (newer, KEY))
    assert present.epoch_of(KEY.key_id) == EPOCH
    assert CurrentRounds((), (newer,)).epoch_of(KEY.key_id) == EPOCH + 256
    # What is stored for one is opened by its own key.
    assert open_block(present.keys_of(EPOCH), CAPSULES[:1]).refused == {}
    assert repr(KEY.private) not in repr(present)
