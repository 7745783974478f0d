"""Outputs appear all together or not at all, inputs stay what they are, and stdout that fails is one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from secvm.cli.main import run
from secvm.errors import BadInputError
from secvm.files import write_together
from tests.conftest import ROOT

EXAMPLE = str(ROOT / "examples" / "people.jsonl")
TRAIN = ["train", EXAMPLE, "--test-fraction", "0.25", "--rounds", "2"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.secvm"
    assert run([*TRAIN, "--out", str(path)]) == 0
    return path


@pytest.mark.parametrize("victim", ["model", "people"])
def test_repro_predict_does_not_overwrite_what_it_reads(model: Path, tmp_path: Path, victim: str) -> None:
    people = tmp_path / "people.jsonl"
    people.write_bytes(Path(EXAMPLE).read_bytes())
    place = model if victim == "model" else people
    before = place.read_bytes()
    assert run(["predict", str(model), str(people), "--out", str(place)]) == 2
    assert place.read_bytes() == before


@pytest.mark.parametrize("option", ["--curve", "--plot"])
def test_repro_nothing_is_written_when_one_output_fails(tmp_path: Path, option: str) -> None:
    assert run([*TRAIN, "--out", str(tmp_path / "m"), option, "/dev/full"]) == 2
    assert list(tmp_path.iterdir()) == []


def test_repro_two_outputs_may_not_be_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(tmp_path / "z")
    assert run([*TRAIN, "--out", place, "--curve", place]) == 2
    assert "--out and --curve name the same file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_files_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("before")
    with pytest.raises(BadInputError, match="cannot write"):
        write_together({old: b"after", tmp_path / "missing" / "new": b"x"})
    assert old.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["old"]
    old.chmod(0o640)
    write_together({old: b"after", tmp_path / "new": b"x"})
    assert (old.read_bytes(), (tmp_path / "new").read_bytes()) == (b"after", b"x")
    assert old.stat().st_mode & 0o777 == 0o640


def in_shell(redirect: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = f'exec "{sys.executable}" -P -m secvm.cli.main {" ".join(TRAIN)} --format json {redirect}'
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}
    return subprocess.run(["bash", "-c", program], env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("redirect", ["> /dev/full", ">&-"])
def test_repro_stdout_that_cannot_be_written_is_one_sentence(redirect: str) -> None:
    told = in_shell(redirect)
    assert told.returncode == 2, told.stderr
    assert "standard output" in told.stderr
    assert "Traceback" not in told.stderr


def test_repro_labels_outside_ascii_are_written_whatever_the_locale_says(tmp_path: Path) -> None:
    people = tmp_path / "p.jsonl"
    people.write_text('{"label":"ä","features":["x"]}\n{"label":"b","features":["y"]}\n' * 5, encoding="utf-8")
    told = subprocess.run(
        [sys.executable, "-P", "-m", "secvm.cli.main", "train", people, "--test-fraction", "0.5", "--rounds", "3"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert "ä".encode() in told.stdout


def test_repro_error_in_a_line_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"label":"north","features":[]}\nnot json\n')
    assert run(["train", EXAMPLE, "--test", str(bad)]) == 2
    assert f"{bad}: line 2: " in capsys.readouterr().err


def test_repro_label_with_a_line_break_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people = tmp_path / "p.jsonl"
    people.write_text('{"label":"a\\nb","features":["x"]}\n{"label":"c","features":["y"]}\n')
    assert run(["train", str(people), "--rounds", "1"]) == 2
    assert "cannot be printed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--salt", "abc", "--bins", "5"], "pairs of hexadecimal digits"),
        (["--salt", "", "--bins", "5"], "must not be empty"),
        (["--descent", "swift", "--lambda", "abc"], "--lambda must be a number"),
        (["--rounds", str(2**20)], "rounds"),
    ],
)
def test_repro_options_are_refused_before_anything_is_read(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", EXAMPLE, *arguments]) == 2
    assert sentence in capsys.readouterr().err
