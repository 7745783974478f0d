"""``secvm simulate`` and ``secvm reproduce online`` as they are typed."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from secvm.cli.output import Format
from secvm.errors import BadInputError
from secvm_lab.cli.time_left import EVERY_S, TimeLeft, tell_and_write
from secvm_lab.reports import ReportPage
from tests.system.conftest import Program

SMALL = "--people 300 --words 20 --bins 100 --days 1 --hours 8-12 --floor 5"


def test_a_simulation_tells_rounds_means_and_what_it_took(secvm: Program) -> None:
    told = secvm.json("simulate", SMALL, quiet=False)
    assert len(told["rounds"]) == 22
    assert told["seconds"] > 0
    assert told["peak_rss_mb"] > 0
    assert told["means"]["night"] is None
    assert "cost" not in told


def test_with_an_attack_and_clipping_the_cost_is_told_and_files_are_written(tmp_path: Path, secvm: Program) -> None:
    folder = tmp_path / "out"
    assert secvm("simulate", SMALL, "--attack 'label flip' --attackers 0.1 --robust auto --folder", folder) == 0
    assert "cost: recall lost" in secvm.out
    assert "recall of the minority lost at the edges of the day, beside its middle: " in secvm.out
    assert "recall   majority" in secvm.out
    assert "rounds" in secvm.err
    assert {"report.html", "recall.csv", "precision.csv", "participants.csv", "beside.csv"} <= {
        path.name for path in folder.iterdir()
    }


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ("--hours morning", "--hours"),
        ("--hours 25-3", "--hours"),
        ("--hours 8-25", "--hours"),
        ("--attack nothing", "--attack"),
        ("--attackers 0.5", "--attack"),
        ("--descent swift --lambda 1", "--lambda"),
        ("--descent newton", "--descent"),
        ("--zones Berlin", "--zones"),
        ("--zones Nowhere/Land=1", "time zone"),
        ("--epsilon 1 --descent swift", "--epsilon"),
        ("--class-weight 0", "--class-weight"),
        ("--minority 0.7", "minority"),
        ("--data nobody.jsonl", "--words"),
        ("--hours \N{SUPERSCRIPT TWO}-5", "--hours"),
        ("--averaging 0", "averaging must be a whole number"),
        ("--signal inf", "signal"),
        ("--epsilon inf", "--epsilon"),
        ("--epsilon 2 --delta 0", "delta must be a number"),
        ("--epsilon 33", "at most 32"),
        ("--epsilon 2 --averaging 3", "--epsilon"),
        ("--delta 0.1", "--epsilon"),
        ("--contribution 300", "--epsilon"),
        ("--attackers 0.01", "--attack"),
        ("--words 70000", "packages"),
    ],
)
def test_bad_words_are_one_sentence(asked: str, word: str, secvm: Program) -> None:
    assert word in secvm.refused("simulate", SMALL, asked)


def test_repro_recalls_of_a_model_that_never_learnt_were_told(secvm: Program) -> None:
    assert secvm("simulate --people 10 --days 1 --bins 20 --words 5") == 0
    assert "the model has learnt nothing: in no round did enough people train" in secvm.out
    assert "recall" not in secvm.out


def test_repro_a_weight_that_nobody_gave_was_taken_silently(tmp_path: Path, secvm: Program) -> None:
    lines = [f'{{"label": "{"a" if i % 3 else "b"}", "features": ["w{i % 9}"]}}' for i in range(60)]
    (tmp_path / "p.jsonl").write_text("\n".join(lines))
    asked = ("simulate --people 20 --bins 20 --days 1 --rounds 2 --data", tmp_path / "p.jsonl")
    assert secvm(*asked) == 0
    assert "weighs 4 times as much" in secvm.err
    assert secvm(*asked, "--class-weight 1") == 0
    assert "times as much" not in secvm.err


def test_a_file_that_will_not_do_is_one_sentence(tmp_path: Path, secvm: Program) -> None:
    path = tmp_path / "people.jsonl"
    path.write_text("".join(json.dumps({"label": "abc"[i % 3], "features": ["w"]}) + "\n" for i in range(30)))
    for data, words in ((path, "two labels"), (tmp_path / "nobody.jsonl", "no such file")):
        assert secvm("simulate --people 20 --bins 20 --data", data) == 2
        assert words in secvm.err


@pytest.mark.parametrize("command", ["simulate", "reproduce online", "reproduce beyond"])
def test_repro_a_folder_that_cannot_be_written_is_refused_before_the_work(
    command: str, tmp_path: Path, secvm: Program
) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        said = secvm.refused(command, "--folder", folder)
        assert said.count("\n") == 1
        assert "cannot write into the folder" in said
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_repro_a_report_names_the_command_that_makes_it_again(tmp_path: Path, secvm: Program) -> None:
    folder = tmp_path / "deep" / "out"
    asked = f"simulate {SMALL} --attack 'label flip' --robust 2 --seed 3"
    secvm.json(asked, "--folder", folder, quiet=False)
    page = (folder / "report.html").read_text()
    told = html.escape(f"./secvm {asked}")
    # Options come in the order of the help page.
    shown = re.search(r"<code>([^<]*)</code>", page[page.index("<footer>") :])
    assert shown is not None
    assert sorted(shown.group(1).split()) == sorted(told.split())
    assert str(folder) not in page


def test_the_online_evaluation_has_the_keys_that_were_promised(tmp_path: Path, secvm: Program) -> None:
    told = secvm.json("reproduce online --people 300 --words 20 --no-choose --folder", tmp_path, quiet=False)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Small run: 300 people show that it works and judge nothing. 10,000 or more are enough." in page
    assert set(re.findall(r'class="verdict (\w+)"', page)) == {"open"}
    assert {"continuous", "daytime", "seconds", "peak_rss_mb"} <= told.keys()
    for run_told in (told["continuous"], told["daytime"]):
        assert {"rounds", "night_drop", "night_drop_error"} <= run_told.keys()
        for line in run_told["rounds"]:
            assert {"round", "night", "participants", "recall", "precision", "baseline"} <= line.keys()
    assert len(told["continuous"]["rounds"]) == 393
    assert [line["round"] for line in told["daytime"]["rounds"]] == list(range(1, 133))


def test_a_result_is_shown_before_its_report_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "full").write_text("")
    told: dict[str, object] = {"answer": 42}
    with pytest.raises(BadInputError, match="cannot make the folder"):
        tell_and_write(
            told, Format.TXT, lambda shown: [f"answer {shown['answer']}"], tmp_path / "full", lambda: ReportPage("", "")
        )
    assert capsys.readouterr().out == "answer 42\n"


def test_progress_tells_the_time_that_is_left() -> None:
    said: list[str] = []
    now = 0.0
    left = TimeLeft(said.append, lambda: now)
    left.watch("rounds", 1, 101)
    now = EVERY_S - 1
    left.watch("rounds", 2, 101)
    now = 10.0
    left.watch("rounds", 11, 101)
    left.watch("another", 0, 0)
    now = 20.0
    left.watch("another", 3, 0)
    assert said == ["rounds", "rounds: 11 of 101, 90 s left", "another", "another: 3"]
