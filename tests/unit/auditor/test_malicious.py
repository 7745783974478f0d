"""The liars of ``secvm.testing``: what can be seen from outside is found each time, and the one that cannot is not."""

import random

import pytest

from secvm.auditor.audit import audit_files
from secvm.auditor.files import GivenFiles
from secvm.protocol.evidence.plain import examine
from secvm_lab.rigs.lies.catalogue import FORGED_TALLY, LIES

VISIBLE = [name for name, lie in LIES.items() if lie.visible_from_outside]
#: Of these the server has signed all that it takes to convict it.
PROVABLE = {
    "wrong-lambda",
    "wrong-normaliser",
    "wrong-class-weight",
    "first-state-not-zero",
    "weights-not-of-the-state",
    "several-gateway-keys",
    "relay-count-withheld",
}


@pytest.mark.parametrize("name", VISIBLE)
def test_lie_that_can_be_seen_from_outside_is_found(name: str) -> None:
    for seed in range(8):
        _, told = LIES[name].told(random.Random(f"audit {name} {seed}"))
        report = audit_files(GivenFiles(told.public), now=told.now, experiment=told.joined)
        assert not report.ok, (seed, told.variant)
        assert report.faults
        for data in report.evidence:
            assert examine(data).sentence
        if name in PROVABLE:
            assert report.evidence, (seed, told.variant)


def test_provable_lies_are_among_those_that_are_told() -> None:
    assert set(VISIBLE) >= PROVABLE


def test_forged_tally_within_the_budget_is_not_found_by_anybody() -> None:
    for seed in range(8):
        _, told = FORGED_TALLY.told(random.Random(f"audit forged {seed}"))
        assert audit_files(GivenFiles(told.public), now=told.now).ok, seed
