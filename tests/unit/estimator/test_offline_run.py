"""Runs over people files: test people have no say, numbers have their own defaults, nothing is computed for hours."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from secvm.cli.main import run
from secvm.errors import BadInputError
from secvm.estimator import SecVMClassifier
from secvm.estimator.offline_run import train_bins_only
from secvm.learning.individual.binning import VocabularyBinning
from secvm.learning.thinning import Thinning, parse_thinning
from secvm.people.reader import read_people


def write(path: Path, people: list[tuple[Any, Any]]) -> Path:
    path.write_text("".join(json.dumps({"label": label, "features": f}) + "\n" for label, f in people))
    return path


def test_words_that_only_test_people_have_are_no_bins(tmp_path: Path) -> None:
    folk = read_people(write(tmp_path / "p.jsonl", [("a", ["x", "rare"]), ("b", ["y", "x"]), ("a", ["z"])]), None)
    smaller = train_bins_only(folk, np.array([False, True, True]))
    assert isinstance(smaller.binning, VocabularyBinning)
    assert smaller.binning.words == ("x", "y", "z")
    assert smaller.n_features == 3
    assert smaller.rows.indptr.tolist() == [0, 1, 3, 4]
    assert smaller.rows.bins.tolist() == [0, 0, 1, 2]
    assert train_bins_only(folk, np.ones(3, dtype=np.bool_)) is folk


def test_model_of_a_split_equals_the_model_of_its_train_people_alone(tmp_path: Path) -> None:
    people = [("a" if i % 3 else "b", [f"w{i % 7}", f"v{i % 5}", f"only{i}"]) for i in range(60)]
    everybody = write(tmp_path / "all.jsonl", people)
    some = write(tmp_path / "some.jsonl", [p for i, p in enumerate(people) if i % 4])
    (tmp_path / "split.txt").write_text("".join("train\n" if i % 4 else "test\n" for i in range(60)))
    for source, extra, out in ((everybody, ["--split-file", str(tmp_path / "split.txt")], "1"), (some, [], "2")):
        arguments = ["train", str(source), *extra, "--descent", "swift", "--thinning", "none", "--rounds", "5"]
        assert run([*arguments, "--out", str(tmp_path / out)]) == 0
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


@pytest.mark.parametrize("text", ["q=1e-999999999", "1e-999999999", "1e999999999", "q=x", "x", "q=1/0", "nan"])
def test_repro_thinning_that_is_no_reasonable_number_is_refused_at_once(text: str) -> None:
    with pytest.raises(BadInputError):
        parse_thinning(text, Thinning())


def test_repro_model_with_many_named_columns_can_be_loaded(tmp_path: Path) -> None:
    names = [f"a column with quite a long name, number {j}" for j in range(27_000)]
    frame = pd.DataFrame(np.eye(3, len(names), dtype=np.int64), columns=names)
    model = SecVMClassifier(rounds=1).fit(frame, [0, 1, 1])
    model.save(tmp_path / "model")
    assert len((tmp_path / "model").read_bytes()) > 1 << 20
    assert SecVMClassifier.load(tmp_path / "model").predict(frame).tolist() == model.predict(frame).tolist()


def test_repro_output_must_not_be_one_of_the_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people = write(tmp_path / "p.jsonl", [("a", ["x"]), ("b", ["y"])])
    before = people.read_bytes()
    assert run(["train", str(people), "--rounds", "1", "--out", str(people)]) == 2
    assert "one of the files to be read" in capsys.readouterr().err
    assert people.read_bytes() == before


def test_default_epsilon_is_a_tenth_of_the_scale_of_the_label(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people = [(1000.0 * (i % 5), {"x": i % 5, "y": 1}) for i in range(50)]
    path = tmp_path / "p.jsonl.gz"
    lines = "".join(json.dumps({"label": label, "features": f}) + "\n" for label, f in people)
    path.write_bytes(gzip.compress(lines.encode()))
    results = []
    # Labels 0, 1000, … 4000, equally often: 16 % quantile 0, 84 % quantile 4000, so the scale is 2000.
    for extra in ([], ["--loss-parameter", "200"], ["--loss-parameter", "900"]):
        command = ["train", str(path), "--test", str(path), "--loss", "epsilon-insensitive", "--rounds", "50"]
        assert run([*command, *extra, "--format", "json"]) == 0
        results.append(json.loads(capsys.readouterr().out)["curve"])
    assert results[0] == results[1] != results[2]


def test_people_held_out_for_the_plateau_do_not_count_as_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people = write(tmp_path / "p.jsonl", [("a" if i % 2 else "b", [f"w{i % 2}", f"n{i}"]) for i in range(100)])
    assert run(["train", str(people), "--stop", "plateau", "--rounds", "40", "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["n_train"], result["n_held_out"]) == (90, 10)
