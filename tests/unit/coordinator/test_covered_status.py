"""The public status of a plain experiment: it says so, and its people are its participants."""

import json
from typing import Any

from secvm.coordinator.experiments.status_document import TellableRound, Watchers, status
from secvm.coordinator.store.port import Standing
from secvm.privacy.statements.relayed_text import PLAIN
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import LastRound
from tests.unit.coordinator.rounds import times
from tests.unit.protocol.helpers import START, document

LAST = LastRound(tally="ab" * 32, participants=(700, 900), cells=((500, 280), (290, 450)))


def told(of: ExperimentDocument) -> dict[str, Any]:
    one = TellableRound(1, "published", times(START), LAST)
    data = status(of, standing=Standing.RUNNING, rounds=[one], watchers=Watchers(of.experiment))
    content: dict[str, Any] = json.loads(data)
    return content


def test_plain_experiments_say_so_and_have_as_many_people_as_participants() -> None:
    found = told(document())
    assert found["privacy"] == {"kind": "plain", "note": PLAIN}
    assert found["rounds"][0]["people"] == found["rounds"][0]["participants"]
