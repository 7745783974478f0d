"""``secvm privacy statement`` as it is typed."""

from pathlib import Path

import pytest

from secvm.protocol.documents.experiment import publish
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR as RELAYED
from secvm_lab.rigs.histories.relayed_rounds import relayed_document
from tests.program import Program
from tests.unit.participant.world import real_document
from tests.unit.protocol.helpers import COORDINATOR

NUMBERS = "privacy statement --participants 4000 --bins 30 --features 5 --rounds 4"


def test_plan_without_epsilon_has_no_guarantee(secvm: Program) -> None:
    content = secvm.json(NUMBERS)
    assert (content["kind"], content["formal"]) == ("plain", False)
    assert content["leak_without_guarantee"]["auc"] > 0.55
    assert any("no formal guarantee" in one for one in content["words"])
    assert content["budget"] == 7


def test_a_plan_with_an_epsilon_rests_on_one_of_two_relays(secvm: Program) -> None:
    content = secvm.json(f"{NUMBERS} --epsilon 4 --delta 0.001 --own-delta 0.001")
    assert (content["kind"], content["formal"], content["kept"]) == ("relays", True, True)
    assert content["own"]["epsilon"] <= 4
    assert content["budget"] == 2 + 5 + 1
    assert any("one of operator A (the entry relay) and operator B" in one for one in content["words"])


def test_published_experiment_is_read_from_its_file(tmp_path: Path, secvm: Program) -> None:
    for of, key, kind in ((relayed_document(), RELAYED, "relays"), (real_document(), COORDINATOR, "plain")):
        (tmp_path / "envelope").write_bytes(publish(of, keys=(key,)))
        content = secvm.json("privacy statement", tmp_path / "envelope")
        assert content["kind"] == kind
        assert content["rounds"] == of.rounds
    assert secvm("privacy statement", tmp_path / "envelope") == 0
    assert "Tallies are public" in secvm.out


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("privacy statement", "name a file"),
        ("privacy statement --coordinator http://127.0.0.1:1", "name a file"),
        ("privacy statement --participants 10", "--bins and --features and --rounds"),
        (f"{NUMBERS} --own-delta 0", "between 0 and 1"),
        (f"{NUMBERS} --labels 1", "two labels"),
        ("privacy statement /dev/null", "no published experiment"),
        ("privacy statement /nowhere/at/all", "cannot be read"),
    ],
)
def test_bad_input_is_one_sentence(command: str, said: str, secvm: Program) -> None:
    assert said in secvm.refused(command)
