"""``secvm privacy statement`` as it is typed."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from secvm.cli.main import run
from secvm.protocol.experiment_document import publish
from tests.unit.participant.covered import covered_document
from tests.unit.participant.world import real_document
from tests.unit.protocol.helpers import COORDINATOR

NUMBERS = "privacy statement --participants 4000 --bins 30 --features 5 --rounds 4"


def told(command: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run([*shlex.split(command), "--format", "json"]) == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


def test_plan_without_epsilon_has_no_guarantee(capsys: pytest.CaptureFixture[str]) -> None:
    content = told(NUMBERS, capsys)
    assert (content["kind"], content["formal"], content["own"]) == ("plain", False, None)
    assert content["leak_without_guarantee"]["auc"] > 0.55
    assert any("no formal guarantee" in one for one in content["words"])
    assert content["budget"] == 7


def test_plan_with_epsilon_keeps_it_and_the_device_has_a_view_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    content = told(f"{NUMBERS} --epsilon 1 --own-participants 3200", capsys)
    assert content["formal"]
    assert content["planned"]["epsilon"] <= 1 < content["own"]["epsilon"]
    assert content["own"]["honest"] == 1600
    assert 0.5 < content["own"]["auc_at_most_curve"] < content["own"]["auc_at_most"] < 0.9
    assert told(f"{NUMBERS} --epsilon 1 --relay-mode interval", capsys)["formal"] is False


def test_published_experiment_is_read_from_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for of, kind in ((covered_document(), "cover"), (real_document(), "plain")):
        (tmp_path / "envelope").write_bytes(publish(of, keys=(COORDINATOR,)))
        content = told(f"privacy statement {tmp_path / 'envelope'}", capsys)
        assert content["kind"] == kind
        assert content["rounds"] == of.rounds
    assert run(["privacy", "statement", str(tmp_path / "envelope")]) == 0
    assert "Tallies are public" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("privacy statement", "name a file"),
        ("privacy statement --coordinator http://127.0.0.1:1", "name a file"),
        ("privacy statement --participants 10", "--bins and --features and --rounds"),
        (f"{NUMBERS} --own-gamma 0", "share above 0"),
        (f"{NUMBERS} --labels 1", "two labels"),
        (f"{NUMBERS} --relay-mode fast", "round, interval or forward"),
        ("privacy statement /dev/null", "no published experiment"),
        ("privacy statement /nowhere/at/all", "cannot be read"),
    ],
)
def test_bad_input_is_one_sentence(command: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shlex.split(command)) == 2
    complaint = capsys.readouterr().err
    assert said in complaint
    assert len(complaint.splitlines()) <= 2
