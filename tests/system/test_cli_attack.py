"""``secvm attack`` as it is typed."""

import csv
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from secvm_lab.attacks import registry
from secvm_lab.attacks.attack import Measurement, Row
from secvm_lab.attacks.report_page import page
from secvm_lab.cli.attack import as_text
from secvm_lab.reports import SCRIPT
from tests.program import Program

FEW = ("timing-clusters", "replay", "collusion")


@pytest.fixture
def only_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    every = registry.attacks()
    monkeypatch.setattr(registry, "attacks", lambda: {slug: every[slug] for slug in FEW})


def test_the_list_names_every_attack_by_its_number(secvm: Program) -> None:
    listed = secvm.json("attack list")["attacks"]
    assert [one["name"].split()[0] for one in listed] == [f"A{a.number}" for a in registry.attacks().values()]
    assert secvm("attack list") == 0
    # Its metric and, below, its defence.
    assert len(secvm.out.splitlines()) == 2 * len(listed)
    assert all(one["defence"] in secvm.out for one in listed)


def test_a_run_gives_both_sides_with_intervals(secvm: Program) -> None:
    told = secvm.json("attack run A4 --trials 3 --seed 5", quiet=False)
    assert told["name"] == "A4 timing clusters"
    assert told["trials"] == {"undefended": 3, "defended": 3}
    assert told["met"] is True
    for side in ("undefended", "defended"):
        low, high = told["ci95"][side]
        assert low <= told[side] <= high
    assert secvm("attack run timing-clusters --trials 3 --seed 5") == 0
    assert "Goal: at most 0.01 with the defence: met" in secvm.out
    assert f"{told['undefended']:.3f}" in secvm.out
    assert "Small run: 3 trials show that it works, " in secvm.out


def test_what_the_accountant_allows_stands_beside_what_was_measured() -> None:
    sure = Measurement(1.0, (0.9, 1.0), 10)
    row = Row(registry.find("A12"), sure, Measurement(0.55, (0.5, 0.6), 10, {"accountant_auc": 0.5625}))
    assert row.as_json()["allowed"] == 0.5625
    assert "bound (95 % interval), here 0.562: met" in as_text(row)
    assert ", allowed 0.562" in page([row], quick=True, seed=0)
    assert Row(registry.find("A14"), sure, sure).as_json()["allowed"] is None


def test_an_unknown_attack_is_one_sentence(secvm: Program) -> None:
    said = secvm.refused("attack run timing-cluster")
    assert "there is no attack 'timing-cluster'" in said
    assert "Did you mean timing-clusters?" in said


@pytest.mark.usefixtures("only_a_few")
def test_a_report_has_an_object_for_each_attack(secvm: Program) -> None:
    told = secvm.json("attack report --quick", quiet=False)
    assert "attacking: A14 replay" in secvm.err
    assert told["goals_met"] is True
    assert [one["slug"] for one in told["attacks"]] == list(FEW)
    for one in told["attacks"]:
        assert {"name", "metric", "undefended", "defended", "ci95"} <= one.keys()
        assert ("goal" in one) == ("met" in one)
    assert [one["built"] for one in told["attacks"]] == [True, True, True]


@pytest.mark.usefixtures("only_a_few")
def test_the_page_is_whole_and_refers_to_nothing_outside(tmp_path: Path, secvm: Program) -> None:
    assert secvm("attack report --quick --out", tmp_path / "a.html", "--csv", tmp_path / "a.csv") == 0
    assert "A15 relay-coordinator collusion" in secvm.out
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["slug"] for row in rows] == list(FEW)
    for row in rows:
        assert float(row["defended_low"]) <= float(row["defended"]) <= float(row["defended_high"])
        assert row["metric"] in secvm.out
        assert row["goal"] in secvm.out
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


@pytest.mark.parametrize(
    "command", ["attack report --quick --out", "attack report --csv", "demo --report", "reproduce lemmas --picture"]
)
def test_repro_a_file_that_cannot_be_written_is_said_before_the_work(
    command: str, tmp_path: Path, secvm: Program
) -> None:
    said = secvm.refused(command, tmp_path / "none" / "file")
    assert "cannot write" in said
    assert said.count("\n") == 1
