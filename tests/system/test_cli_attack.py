"""``secvm attack`` as it is typed."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from secvm.cli.main import run
from secvm_lab.attacks import registry
from secvm_lab.attacks.attack import Measurement, Row
from secvm_lab.attacks.report_page import page
from secvm_lab.cli.attack import as_text
from secvm_lab.reports import SCRIPT

FEW = ("timing-clusters", "replay", "collusion")


@pytest.fixture
def only_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    every = registry.attacks()
    monkeypatch.setattr(registry, "attacks", lambda: {slug: every[slug] for slug in FEW})


def test_the_list_names_every_attack_by_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["attack", "list", "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)["attacks"]
    assert [one["name"].split()[0] for one in listed] == [f"A{a.number}" for a in registry.attacks().values()]
    assert run(["attack", "list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(listed)


def test_a_run_gives_both_sides_with_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["attack", "run", "A4", "--trials", "3", "--seed", "5", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["name"] == "A4 timing clusters"
    assert told["trials"] == {"undefended": 3, "defended": 3}
    assert told["met"] is True
    for side in ("undefended", "defended"):
        low, high = told["ci95"][side]
        assert low <= told[side] <= high
    assert run(["attack", "run", "timing-clusters", "--trials", "3", "--seed", "5"]) == 0
    said = capsys.readouterr().out
    assert "Goal: at most 0.01 with the defence: met" in said
    assert f"{told['undefended']:.3f}" in said


def test_what_the_accountant_allows_stands_beside_what_was_measured() -> None:
    sure = Measurement(1.0, (0.9, 1.0), 10)
    row = Row(registry.find("A12"), sure, Measurement(0.55, (0.5, 0.6), 10, {"accountant_auc": 0.5625}))
    assert row.as_json()["allowed"] == 0.5625
    assert "bound (95 % interval), here 0.562: met" in as_text(row)
    assert ", allowed 0.562" in page([row], quick=True, seed=0)
    assert Row(registry.find("A14"), sure, sure).as_json()["allowed"] is None


def test_an_unknown_attack_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["attack", "run", "timing-cluster"]) == 2
    said = capsys.readouterr().err
    assert "there is no attack 'timing-cluster'" in said
    assert "Did you mean timing-clusters?" in said


@pytest.mark.usefixtures("only_a_few")
def test_a_report_has_an_object_for_each_attack(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["attack", "report", "--quick", "--format", "json"]) == 0
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert "attacking: A14 replay" in said.err
    assert told["goals_met"] is True
    assert [one["slug"] for one in told["attacks"]] == list(FEW)
    for one in told["attacks"]:
        assert {"name", "metric", "undefended", "defended", "ci95"} <= one.keys()
        assert ("goal" in one) == ("met" in one)
    assert [one["built"] for one in told["attacks"]] == [True, True, True]


@pytest.mark.usefixtures("only_a_few")
def test_the_page_is_whole_and_refers_to_nothing_outside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["attack", "report", "--quick", "--out", str(tmp_path / "a.html")]) == 0
    assert "A15 relay-coordinator collusion" in capsys.readouterr().out
    page = (tmp_path / "a.html").read_text(encoding="utf-8").replace(f'<script type="module">{SCRIPT}</script>', "")
    assert not re.search(r"https?://|//[a-z]|@import|url\(|<script| (src|href|srcset|action|onclick)=", page)
    assert "default-src 'none'" in page
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    # The overview for a desk and for a phone; the curve of the collusion is drawn by the page's script.
    assert len(drawings) == 2
    assert page.count(" data-spec=") == 1
    for drawing in drawings:
        tree = ET.fromstring(drawing)
        assert tree.find("title") is not None
        assert tree.find("desc") is not None
    assert "not built" in page


def test_a_page_that_cannot_be_written_is_said_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["attack", "report", "--quick", "--out", str(tmp_path / "none" / "a.html")]) == 2
    said = capsys.readouterr().err
    assert "cannot write" in said
    assert "attacking" not in said
