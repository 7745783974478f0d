"""An experiment with two relays on the page: its status is read, and its guarantee is the document's."""

import asyncio
import json

import pytest

from secvm.coordinator.store.memory import MemoryStore
from secvm.dashboard import view
from secvm.dashboard.public_status import ExperimentListing, ExperimentStatus
from secvm_lab.rigs.histories.relayed_rounds import relayed_document
from tests.unit.coordinator.test_private_experiment import document as private_document
from tests.unit.coordinator.test_relayed_rounds import start


@pytest.fixture(scope="module")
def played() -> tuple[bytes, str]:
    federation = start(MemoryStore())
    asyncio.run(federation.go())
    return federation.public("status"), federation.relays.document.digest


def test_a_status_of_opened_rounds_is_read_and_summed_up(played: tuple[bytes, str]) -> None:
    data, digest = played
    found, told = ExperimentStatus.read(data, digest=digest), json.loads(data)
    assert [one.state for one in found.rounds] == ["opened", "opened"]
    assert view.columns(found, [1, 2])["people"] == {
        label: [one["people"][label] for one in told["rounds"]] for label in "ab"
    }
    of = relayed_document()
    made = view.summary(ExperimentListing(digest=digest, title="t", standing="finished"), of, found)
    assert (made["privacy_kind"], made["formal_guarantee"]) == ("relays", True)
    assert (made["epsilon"], made["epsilon_planned"], made["auc"]) == (None, 1.0, None)
    assert found.leakage.formal_guarantee == view.has_guarantee(of)


def test_facts_name_roles_and_operators_and_the_statement_rests_on_them() -> None:
    of = private_document()
    assert [(one["role"], one["operator"]) for one in view.facts(of)["relays"]] == [
        ("entry", "Entry e.V."),
        ("mix", "Mix Ltd."),
    ]
    told = view.privacy(of)
    assert told["kind"] == "relays"
    assert told["epsilon"] <= 4
    relied_on = "one of Entry e.V. (the entry relay) and Mix Ltd. (the mixing relay)"
    assert any(relied_on in one for one in told["assumptions"])
