"""Faults that were found by looking for them: clocks that go back, ids that come again, one experiment that cannot."""

import asyncio
import json
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from secvm.coordinator.experiments.new_experiment import MOST_LABELS
from secvm.coordinator.intake.running import OpenRound
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import Standing
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.crypto.sealing.oblivious import decode_key_configurations
from secvm.errors import BadInputError, LocalProtocolError
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.learning.package import Cohort, Package, ParticipationPackage, TestPackage, TrainPackage
from secvm.learning.thinning import Thinning
from secvm.protocol.canonical import encode_document
from secvm.protocol.documents.experiment import HashedBins, Windows
from secvm.protocol.documents.manifest import MAX_MANIFEST_BYTES
from secvm.testing.clock import ManualClock
from tests.unit.coordinator.rounds import GRACE_S, GRID, LENGTH_S, Coordinator, add, experiment
from tests.unit.coordinator.test_driver import begun
from tests.unit.coordinator.test_new_experiment import asked
from tests.unit.protocol.helpers import START


def test_repro_a_clock_that_is_set_back_over_scrubbed_slots_does_not_end_the_driver() -> None:
    store, clock = MemoryStore(), ManualClock(START - 100_000)
    first = experiment(title="first")
    add(store, first)
    asyncio.run(Coordinator(store, clock).go())
    scrubbed = {one.epoch for one in store.rounds(first.digest)}
    # Three rounds too early: all the slots that come now have been lived through.
    clock._now = START - 100_000
    second = experiment(title="second")
    add(store, second)
    asyncio.run(Coordinator(store, clock).go())
    assert scrubbed.isdisjoint(one.epoch for one in store.rounds(second.digest))
    assert store.experiments()[1].standing is Standing.FINISHED


def test_repro_a_clock_that_is_set_back_while_nothing_runs_leaves_a_key_for_fetches() -> None:
    store, clock = MemoryStore(), ManualClock(START)
    coordinator = Coordinator(store, clock)
    for _ in range(3):
        asyncio.run(coordinator.step())
        clock.advance(GRID.period_s * 1000)
    clock._now = START
    asyncio.run(coordinator.step())
    found = coordinator.publisher.public("/v1/keys")
    assert found is not None
    (key,) = decode_key_configurations(found[0])
    assert key.key_id == (GRID.slot_of(START) + 1) % 256


def test_repro_an_experiment_that_begins_256_slots_from_now_does_not_take_the_key_id_of_now() -> None:
    store, clock = MemoryStore(), ManualClock(START - 100_000)
    coordinator = Coordinator(store, clock)
    add(store, experiment(title="now"))
    far = Windows(length_s=LENGTH_S, grace_s=GRACE_S, first_opening=START + 256 * GRID.period_s * 1000)
    add(store, experiment(title="far", windows=far))
    asyncio.run(coordinator.step())
    present = coordinator.ingest.present
    now, later = sorted(present.keys, key=lambda key: key.epoch)
    assert now.key_id == later.key_id
    assert present.epoch_of(now.key_id) == now.epoch


async def test_repro_a_pause_in_the_last_round_tells_its_end_only_when_it_goes_on() -> None:
    of, coordinator = begun(MemoryStore(), experiment(rounds=1))
    store = coordinator.store
    await coordinator.go(until=lambda: len(coordinator.sent) == 1)
    store.set_standing(of.digest, Standing.PAUSED)
    await coordinator.go(until=lambda: store.rounds(of.digest)[0].next_state is not None)
    await coordinator.step()
    assert store.experiments()[0].standing is Standing.PAUSED
    assert coordinator.publisher.public(f"/v1/blob/{store.rounds(of.digest)[0].tally}") is None
    store.set_standing(of.digest, Standing.RUNNING)
    await coordinator.go()
    assert store.experiments()[0].standing is Standing.FINISHED


def test_repro_an_experiment_that_cannot_be_announced_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    store, clock = MemoryStore(), ManualClock(START - 100_000)
    bad, good = experiment(title="bad"), experiment(title="good")
    add(store, bad)
    add(store, good)
    coordinator = Coordinator(store, clock)
    announce = coordinator.driver._announce

    def sometimes(book: Any, now: int) -> None:
        if book.stored.digest == bad.digest and book.rounds:
            raise LocalProtocolError("a manifest that is too long")
        announce(book, now)

    monkeypatch.setattr(coordinator.driver, "_announce", sometimes)
    asyncio.run(coordinator.go(until=lambda: store.experiments()[1].standing is Standing.FINISHED))
    assert store.experiments()[0].standing is Standing.PAUSED


def test_repro_an_epoch_is_scrubbed_while_the_event_loop_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, clock = SQLiteStore(tmp_path / "store"), ManualClock(START - 100_000)
    scrub, threads = store.scrub, set()

    def noted(epoch: int) -> None:
        threads.add(threading.current_thread())
        scrub(epoch)

    monkeypatch.setattr(store, "scrub", noted)
    add(store, experiment(rounds=1))
    asyncio.run(Coordinator(store, clock).go())
    store.close()
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("labels", [f"label {number}" for number in range(800)]), "at most 350 labels"),
        # In microseconds.
        (("windows.first_opening", START * 1000), "first_opening is more than a year ahead"),
        (("windows", {"length_s": 60, "grace_s": 5, "first_opening": START, "first_opening_s": 9}), "give one of them"),
    ],
)
def test_repro_what_would_end_the_driver_later_is_refused_at_once(change: tuple[str, object], sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence):
        asked(change)


def test_repro_the_largest_number_of_labels_fits_into_a_manifest() -> None:
    cells = [[9_999_999] * MOST_LABELS] * MOST_LABELS
    assert len(encode_document({"cells": cells})) < MAX_MANIFEST_BYTES - 2**15


@pytest.mark.parametrize(
    "asks",
    [
        Experiment(
            n_bins=4,
            labels=("length",),
            rule=Swift(),
            loss=Loss("epsilon-insensitive", Fraction(1, 10)),
            thinning=Thinning(rho=Fraction(3)),
            budget=5,
        ),
        Experiment(
            n_bins=4, labels=("a", "b", "c"), rule=Pegasos(lambda_=Fraction(1)), multiclass="ovo", budget=5,
            class_weights=(Fraction(1), Fraction(4), Fraction(1, 2)),
        ),
    ],
    ids=["a number as the label", "one against one, weighted"],
)  # fmt: skip
def test_other_kinds_of_experiments_are_driven_to_their_end_too(asks: Experiment) -> None:
    store, clock = MemoryStore(), ManualClock(START - 100_000)
    of = experiment(experiment=asks, binning=HashedBins(bins=4, hashes=1, salt=bytes(16)), rounds=2)

    def who(one: OpenRound) -> list[Package]:
        labels = len(asks.labels)
        told: list[Package] = [ParticipationPackage(cohort=Cohort.TRAIN, class_index=i % labels) for i in range(6)]
        told += [TrainPackage(model=i % asks.models.n_models, bin_index=i % 5, sign=1) for i in range(10)]
        return told if asks.loss.regression else [*told, TestPackage(true_class=0, predicted_class=labels - 1)]

    add(store, of)
    coordinator = Coordinator(store, clock)
    asyncio.run(coordinator.go(who))
    assert store.experiments()[0].standing is Standing.FINISHED
    shown = coordinator.publisher.public(f"/v1/experiment/{of.digest}/status")
    assert shown is not None
    told = json.loads(shown[0])["rounds"]
    assert [sum(one["participants"].values()) for one in told] == [6, 6]
    assert ("accuracy" in told[0]) is not asks.loss.regression
