"""Coalitions: everybody who is enough, by the numbers of the experiment."""

from dataclasses import replace

import pytest

from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.privacy.statements.operators import in_words
from secvm.privacy.statements.plain import Terms, as_text, coalitions, state
from secvm.protocol.documents.privacy_terms import terms_of
from tests.unit.protocol.helpers import document

PLAIN = Terms(experiment=Experiment(n_bins=10, labels=("a", "b"), rule=Pegasos(), budget=5), rounds=3, floor=20)
RELAY, COORDINATOR = "the relay alone", "the coordinator alone"
BOTH = "the coordinator and the relay together"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"quorum": (2, 3)},
            [RELAY, COORDINATOR, "the coordinator and 1 of the 3 witnesses", BOTH],
        ),
        (
            {"quorum": (4, 5)},
            [RELAY, COORDINATOR, "the coordinator and 3 of the 5 witnesses", BOTH],
        ),
        (
            {"quorum": (3, 3)},
            [RELAY, COORDINATOR, "the coordinator and 3 of the 3 witnesses", BOTH],
        ),
        (
            {"quorum": (1, 2)},
            [RELAY, COORDINATOR, "the coordinator alone, for 1 of 2 witnesses are no majority,", BOTH],
        ),
        (
            {},
            [
                RELAY,
                COORDINATOR,
                "the coordinator and as many witnesses as two of their quorums share",
                BOTH,
            ],
        ),
        (
            {"logged": False},
            [RELAY, COORDINATOR, "the coordinator alone, for there is no log,", BOTH],
        ),
        (
            {"relays": 2, "quorum": (2, 3)},
            [
                "each of the 2 relays, for the packages that take it, alone",
                COORDINATOR,
                "the coordinator and 1 of the 3 witnesses",
                "the coordinator and the relays that your packages take together",
            ],
        ),
        ({"relays": 0, "logged": False}, [COORDINATOR, "the coordinator alone, for there is no log,"]),
    ],
)
def test_every_sufficient_coalition_is_found(changes: dict[str, object], expected: list[str]) -> None:
    found = coalitions(replace(PLAIN, **changes))  # type: ignore[arg-type]
    assert [one.parties for one in found] == expected
    assert in_words(found).startswith(f"(1) {expected[0]} can ")


def test_repro_a_plain_statement_said_that_relay_and_coordinator_are_needed() -> None:
    told = as_text(state(terms_of(document())))
    for party in (RELAY, COORDINATOR, "for there is no log", BOTH):
        assert party in told
