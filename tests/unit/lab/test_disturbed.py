"""What counts as a federation that was disturbed and did nothing wrong."""

from __future__ import annotations

from typing import Any

import pytest

from secvm.learning.aggregate.tally import Tally
from secvm_lab.disturbed import Outcome


def an_outcome(**changes: Any) -> Outcome:
    told: dict[str, Any] = {
        "state": b"state",
        "expected": b"state",
        "scheduled": [150, 150],
        "acknowledged": [150, 150],
        "counted": [150, 150],
        "given_up": [0, 0],
        "tallies": [None, None],
        "expected_tallies": [None, None],
        "faults": [],
        "forks": 0,
    }
    return Outcome(**{**told, **changes})


def test_repro_answers_that_died_with_their_device_change_nothing() -> None:
    # `dev simulate` once called this "other bytes": it asked that every device had noted every answer.
    assert an_outcome(acknowledged=[146, 150]).right


@pytest.mark.parametrize(
    "changes",
    [
        {"state": b"another"},
        {"counted": [149, 150]},
        {"counted": [151, 150]},
        {"tallies": [Tally.empty(n_models=1, n_bins=2, n_labels=2), None]},
        {"faults": ["the model does not follow"]},
        {"forks": 1},
    ],
)
def test_any_other_difference_is_a_fault(changes: dict[str, Any]) -> None:
    assert an_outcome().right
    assert not an_outcome(**changes).right
