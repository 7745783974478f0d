"""The leakage meter: from public counts alone, after each round."""

import asyncio
import json

import pytest

from secvm.coordinator.experiments.status_document import LeakageMeter
from secvm.coordinator.store.memory import MemoryStore
from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.privacy.leakage import auc_of, law
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.testing.clock import ManualClock
from tests.unit.coordinator.rounds import Coordinator, add, experiment
from tests.unit.protocol.helpers import START


def tally(of: ExperimentDocument, plus: int, minus: int) -> Tally:
    found = aggregate.empty_tally(of.experiment)
    found.plus[0, -1], found.minus[0, -1] = plus, minus
    return found


def test_meter_adds_up_what_the_bias_tells_of_senders() -> None:
    of = experiment(floor=100)
    meter = LeakageMeter(of)
    for number, senders in enumerate([(60, 40), (20, 10)], 1):
        meter.watch(number, tally(of, *senders))
    told = json.loads(meter.text(public_rounds=3))
    squared = [law(q=1, bins=10, senders=senders) for senders in [(60, 40), (20, 10)]]
    assert told["d_prime"] ** 2 == pytest.approx(sum(squared))
    assert told["auc"] == pytest.approx(auc_of(sum(squared)))
    assert [one["round"] for one in told["per_round"]] == [1, 2]
    assert told["planned_d_prime"] ** 2 == pytest.approx(3 * law(q=1, bins=10, senders=(50, 50)))
    assert not told["formal_guarantee"]
    # What is not public yet is not told.
    assert json.loads(meter.text(public_rounds=1))["d_prime"] ** 2 == pytest.approx(squared[0])
    assert json.loads(LeakageMeter(of).text(public_rounds=0))["auc"] == 0.5


def test_public_status_has_the_meter(tmp_path: object) -> None:
    store = MemoryStore()
    of, coordinator = experiment(rounds=2), Coordinator(store, ManualClock(START - 1_000_000))
    add(store, of)
    asyncio.run(coordinator.go())
    shown = coordinator.shown()[f"/v1/experiment/{of.digest}/status"]
    told = json.loads(shown)["leakage"]
    assert told["rounds_told"] == 2
    assert len(told["per_round"]) == 2
    assert told["d_prime"] > 0
