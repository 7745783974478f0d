"""Outputs appear all together or not at all, inputs stay what they are, and stdout that fails is one sentence."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from secvm.errors import BadInputError
from secvm.files import write_together
from tests.conftest import ROOT
from tests.system import parties
from tests.system.conftest import Program
from tests.system.parties import PROGRAM

EXAMPLE = str(ROOT / "examples" / "people.jsonl")
TRAIN = f"train {EXAMPLE} --test-fraction 0.25 --rounds 2"


@pytest.fixture
def model(tmp_path: Path, secvm: Program) -> Path:
    path = tmp_path / "m.secvm"
    assert secvm(TRAIN, "--out", path) == 0
    return path


@pytest.mark.parametrize("victim", ["model", "people"])
def test_repro_predict_does_not_overwrite_what_it_reads(
    model: Path, tmp_path: Path, victim: str, secvm: Program
) -> None:
    people = tmp_path / "people.jsonl"
    people.write_bytes(Path(EXAMPLE).read_bytes())
    place = model if victim == "model" else people
    before = place.read_bytes()
    assert secvm("predict", model, people, "--out", place) == 2
    assert place.read_bytes() == before


@pytest.mark.parametrize("option", ["--curve", "--plot"])
def test_repro_nothing_is_written_when_one_output_fails(tmp_path: Path, option: str, secvm: Program) -> None:
    assert secvm(TRAIN, "--out", tmp_path / "m", option, "/dev/full") == 2
    assert list(tmp_path.iterdir()) == []


def test_repro_two_outputs_may_not_be_one_file(tmp_path: Path, secvm: Program) -> None:
    place = tmp_path / "z"
    assert "--out and --curve name the same file" in secvm.refused(TRAIN, "--out", place, "--curve", place)
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


@pytest.mark.parametrize("redirect", ["> /dev/full", ">&-"])
def test_repro_stdout_that_cannot_be_written_is_one_sentence(redirect: str) -> None:
    program = f"exec {shlex.join(PROGRAM)} {TRAIN} --format json {redirect}"
    told = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)
    assert told.returncode == 2, told.stderr
    assert "standard output" in told.stderr
    assert "Traceback" not in told.stderr


def test_repro_labels_outside_ascii_are_written_whatever_the_locale_says(tmp_path: Path) -> None:
    people = tmp_path / "p.jsonl"
    people.write_text('{"label":"ä","features":["x"]}\n{"label":"b","features":["y"]}\n' * 5, encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    told = parties.secvm("train", people, "--test-fraction", "0.5", "--rounds", "3", env=environment, encoding="utf-8")
    assert told.returncode == 0, told.stderr
    assert "ä" in told.stdout


def test_repro_error_in_a_line_names_the_file(tmp_path: Path, secvm: Program) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"label":"north","features":[]}\nnot json\n')
    assert f"{bad}: line 2: " in secvm.refused("train", EXAMPLE, "--test", bad)


def test_repro_label_with_a_line_break_is_refused(tmp_path: Path, secvm: Program) -> None:
    people = tmp_path / "p.jsonl"
    people.write_text('{"label":"a\\nb","features":["x"]}\n{"label":"c","features":["y"]}\n')
    assert "cannot be printed" in secvm.refused("train", people, "--rounds 1")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--salt abc --bins 5", "pairs of hexadecimal digits"),
        ("--salt '' --bins 5", "must not be empty"),
        ("--descent swift --lambda abc", "--lambda must be a number"),
        (f"--rounds {2**20}", "rounds"),
    ],
)
def test_repro_options_are_refused_before_anything_is_read(arguments: str, sentence: str, secvm: Program) -> None:
    assert sentence in secvm.refused("train", EXAMPLE, arguments)
