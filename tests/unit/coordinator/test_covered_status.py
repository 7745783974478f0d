"""The public status of an experiment with cover: counts as published, people without cover, and wider intervals."""

import json
from typing import Any

import pytest

from secvm.coordinator.status import TellableRound, Watchers, status
from secvm.coordinator.store.port import Standing
from secvm.learning.aggregate.convergence import Plateau
from secvm.learning.aggregate.scoring import score
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.protocol.manifest import LastRound
from tests.unit.protocol.helpers import START, covered_document, document

LAST = LastRound(tally="ab" * 32, participants=(700, 900), cells=((500, 280), (290, 450)))


def told(of: ExperimentDocument) -> dict[str, Any]:
    one = TellableRound(1, "published", START, START + 1, START + 2, LAST)
    data = status(of, standing=Standing.RUNNING, rounds=[one], watchers=Watchers(of.experiment))
    content: dict[str, Any] = json.loads(data)
    return content


def test_people_are_told_without_cover_beside_the_counts_as_signed() -> None:
    of = covered_document()
    cover = of.experiment.cover
    assert cover is not None
    found = told(of)["rounds"][0]
    assert found["participants"] == {"a": 700, "b": 900}
    assert found["cells"] == [[500, 280], [290, 450]]
    devices = cover.devices(LAST.counts)
    assert sum(found["people"].values()) == pytest.approx(float(devices * cover.train_share), abs=1)
    assert found["people"]["a"] < 700
    assert found["accuracy"]["of"] < 1520
    plain = score(LAST.counts.cells).accuracy.interval
    assert found["accuracy"]["high"] - found["accuracy"]["low"] > plain[1] - plain[0]
    assert told(of)["privacy"]["epsilon"] == 2
    assert told(of)["privacy"]["honest"] == 500


def test_plain_experiments_say_so_and_have_as_many_people_as_participants() -> None:
    found = told(document())
    assert found["privacy"] == {"kind": "plain", "note": "no formal guarantee"}
    assert found["rounds"][0]["people"] == found["rounds"][0]["participants"]


def test_watchers_look_at_counts_without_cover() -> None:
    of = covered_document()
    watchers = Watchers(of.experiment, plateau=Plateau(patience=2, at_least=1))
    tally = of.experiment.empty_tally()
    tally.participants[:] = 700, 900
    tally.cells[:] = LAST.cells
    for number in range(1, 6):
        # Bias counts that hold nothing but cover: taken off, some are below zero, and nothing swings.
        tally.plus[0, -1], tally.minus[0, -1] = (90, 10) if number % 2 else (10, 90)
        watchers.watch(number, tally)
    assert watchers.two_cycle.spells == []
    assert watchers.stop
