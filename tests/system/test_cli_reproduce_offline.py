"""`secvm reproduce offline` as people run it: figures, splits that others can use, and going on after a kill."""

import contextlib
import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from secvm_lab.paper.offline.statements import BESIDE, SMALL
from tests.conftest import ROOT
from tests.program import Program
from tests.system.parties import party

PEOPLE = ROOT / "examples" / "people.jsonl"


@pytest.fixture
def offline(secvm: Program) -> Program:
    secvm.before = ("reproduce offline",)
    return secvm


def test_every_figure_of_a_file_and_a_page_about_them(tmp_path: Path, offline: Program) -> None:
    asked = ("--data", PEOPLE, "--splits 4 --rounds 12 --folder", tmp_path / "out")
    found = offline.json(*asked, quiet=False)
    assert list(found) == [
        *("data", "settings", "figure_1a", "figure_1b", "lambda", "hashes", "rules", "baselines", "statements"),
        *("models", "folder", "seconds", "peak_rss_mb"),
    ]
    assert found["data"]["people"] == 600
    assert found["data"]["labels"] == {"north": 355, "south": 245}
    assert [one["bins"] for one in found["figure_1b"]] == [None, 9, 1]
    entry = found["figure_1b"][0]
    assert len(entry["accuracies"]) == 4
    assert len(entry["curve"]["mean"]) == entry["rounds"] == 12
    assert set(entry["recall"]) == {"north", "south"}
    assert [one["averaging"] for one in found["figure_1a"]["curves"]] == [1, 2, 3, 5, 10]
    assert len(found["figure_1a"]["choice"]) == 9
    assert [one["n_hashes"] for one in found["hashes"]] == [1, 2, 3]
    rules = found["rules"]["entries"]
    assert [(one["rule"], one["rho"]) for one in rules] == [
        *(("pegasos", None), ("swift", None), ("swift", "10"), ("swift", "3"), ("swift", "1"))
    ]
    assert rules[1]["curve"]["packages_per_person"] is None
    assert rules[4]["curve"]["packages_per_person"][-1] < rules[0]["curve"]["packages_per_person"][-1]
    ways = found["baselines"]["entries"]
    assert {"LinearSVC", "federated averaging", "SecVM, Pegasos", "central DP, ε = 1"} <= {one["name"] for one in ways}
    # Sixty people test: what they say is shown and not judged.
    assert {one["verdict"] for one in found["statements"]} == {SMALL, BESIDE}
    documented = set(re.findall(r"`(\w+)`", (ROOT / "docs/results/offline.md").read_text(encoding="utf-8")))
    points = [found["figure_1a"]["choice"][0], found["figure_1a"]["curves"][0], found["lambda"][0], found["hashes"][0]]
    for some in (found, found["settings"], entry, entry["curve"], entry["two_cycle"], rules[0], ways[0], *points):
        assert set(some) <= documented
    names = {path.name for path in (tmp_path / "out").iterdir()}
    figures = ("figure_1a", "figure_1b", "lambda", "hashes", "rules_by_rounds", "rules_by_packages", "baselines")
    assert names >= {"report.html", "results.json", *(f"{name}.csv" for name in figures)}
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "costs much here" in page
    assert "Small run: 600 people show that it works and judge nothing. 5,000 or more are enough." in page
    assert 'class="verdict fails"' not in page
    assert "59.2 % of them north" in page
    assert offline.json(*asked, "--figure lambda", quiet=False)["models"]["computed"] == 0


def test_made_up_people_with_bins_are_fig_1b_alone(tmp_path: Path, offline: Program) -> None:
    arguments = ("--people 300 --splits 3 --bins 500 --rounds 5 --folder", tmp_path)
    found = offline.json(*arguments, quiet=False)
    assert [key for key in found if key.startswith(("figure", "lambda", "hashes", "rules"))] == ["figure_1b"]
    assert [one["bins"] for one in found["figure_1b"]] == [500]
    (tmp_path / "lambda.csv").write_bytes(b"of another run")
    assert offline(*arguments) == 0
    assert "300 made-up people" in offline.out
    assert "Fig. 1b" in offline.out
    assert "Of an earlier run, and not in this report: lambda (CSV, PNG)" in offline.err


def test_killed_run_goes_on_where_it_was(tmp_path: Path, offline: Program) -> None:
    arguments = ["--data", str(PEOPLE), *["--splits", "10", "--bins", "none,40", "--rounds", "150", "--threads", "1"]]
    whole = offline.json(*arguments, "--folder", tmp_path / "whole", quiet=False)
    results = tmp_path / "killed" / "results"
    with party("reproduce", "offline", *arguments, "--folder", str(tmp_path / "killed")) as command:
        while command.process.returncode is None and not any(results.glob("*.json")):
            with contextlib.suppress(subprocess.TimeoutExpired):
                command.process.wait(timeout=0.01)
        command.process.kill()
        assert command.end() == -signal.SIGKILL
    kept = len(list(results.glob("*.json")))
    assert 0 < kept < 20
    some = next(results.glob("*.json"))
    some.write_bytes(some.read_bytes()[:-5])
    found = offline.json(*arguments, "--folder", tmp_path / "killed", quiet=False)
    assert "worked out anew" in offline.err
    assert found["models"] == {"asked": 20, "computed": 20 - kept + 1}
    for times in ("seconds", "peak_rss_mb", "models", "folder"):
        found.pop(times)
        whole.pop(times)
    assert found == whole
    files = [(tmp_path / name / "results.json").read_bytes() for name in ("whole", "killed")]
    assert files[0] == files[1]


def test_splits_are_written_once_and_then_read(tmp_path: Path, offline: Program) -> None:
    splits = tmp_path / "splits.json"
    arguments = ("--data", PEOPLE, "--bins 40 --rounds 3 --split-file", splits, "--folder")
    first = offline.json(*arguments, tmp_path / "one", "--splits 3", quiet=False)
    written = splits.read_bytes()
    content = json.loads(written)
    assert content["people"] == 600
    assert [len(test) for test in content["splits"]] == [60, 60, 60]
    assert {name: len(half["test"]) for name, half in content["halves"].items()} == {"A": 30, "B": 30}
    # Another seed is another hash, and the same splits.
    second = offline.json(*arguments, tmp_path / "two", "--seed 2", quiet=False)
    assert splits.read_bytes() == written
    assert second["settings"]["splits"] == 3
    assert second["figure_1b"][0]["accuracies"] != first["figure_1b"][0]["accuracies"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--people 100", "--data and --people exclude each other"),
        ("--split-file SPLITS", "splits 7 people, and there are 600"),
        ("--bins many", "--bins takes whole numbers above zero, not 'many'"),
        ("--data NOBODY", "No such file or directory"),
        ("--engine dask", "dask together with --scheduler"),
        ("--figure 9z", "'--figure': '9z' is not one of"),
        ("--lambda big", "--lambda must be a number"),
        ("--bins ,", "--bins names no number"),
        # Bins, hashes and λ were looked at after folder and splits had been written; a large seed at the very end.
        ("--bins 99999999999", "bins must be a whole number, at least 1 and at most 16777216"),
        ("--bins 9 --hashes 17", "hashes must be a whole number, at least 1 and at most 16"),
        ("--hashes 17", "hashes must be a whole number, at least 1 and at most 16"),
        ("--lambda 0", "lambda must be a number"),
        ("--folder SPLITS", "cannot write into"),
        (f"--seed {2**64}", "--seed must be at most"),
        (f"--people {10**11}", "--people must be at most"),
    ],
)
def test_repro_bad_input_is_one_sentence_and_leaves_neither_folder_nor_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, sentence: str, offline: Program
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "SPLITS").write_text('{"people": 7, "splits": [[1]]}', encoding="utf-8")
    asked = ("--data", PEOPLE, "--splits 1 --rounds 2 --split-file splits.json", arguments)
    assert sentence in offline.refused(*asked)
    assert [path.name for path in tmp_path.iterdir()] == ["SPLITS"]


def test_repro_a_split_that_a_baseline_cannot_learn_from_is_told_before_all_the_work(
    tmp_path: Path, offline: Program
) -> None:
    """It was told by the last figure, after hours, and there was no report."""
    people, splits = tmp_path / "people.jsonl", tmp_path / "splits.json"
    rows = [{"label": "b" if i == 7 else "a", "features": ["w", f"w{i % 5}"]} for i in range(20)]
    people.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    splits.write_text('{"people": 20, "splits": [[1, 2], [7, 8]]}', encoding="utf-8")
    asked = ("--data", people, "--split-file", splits, "--rounds 2 --folder", tmp_path / "out")
    said = offline.refused(*asked, "--figure 1b --figure baselines")
    assert "in split 1 everybody who trains has the same label" in said
    assert not (tmp_path / "out").exists()
    assert offline(*asked, "--figure 1b") == 0
