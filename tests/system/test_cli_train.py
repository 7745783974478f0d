"""secvm train, evaluate and predict on files of people: what they say, what they write, what they refuse."""

import gzip
import json
import re
import shlex
import shutil
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from secvm.cli.offline import options
from secvm.estimator import SecVMClassifier, SecVMRegressor
from secvm.learning.individual.dice import hold_out
from tests.conftest import ROOT
from tests.system import parties
from tests.system.conftest import Program

EXAMPLE = ROOT / "examples" / "people.jsonl"
#: A word that only a person of the bad files has: it must not show up in what the program says.
SECRET = "xylophone"


@pytest.fixture
def secvm(secvm: Program) -> Program:
    """One that repeats nothing of the bad files."""
    secvm.secrets = (SECRET,)
    return secvm


def lines(*people: tuple[Any, Any]) -> bytes:
    return b"".join(json.dumps({"label": label, "features": features}).encode() + b"\n" for label, features in people)


def cities(n: int = 90) -> bytes:
    """Three labels, each with words of its own, and values above 1. A fixed seed: tests compare figures of these."""
    rng = np.random.default_rng(4)
    people = []
    for i in range(n):
        label = ["bonn", "oslo", "rome"][i % 3]
        people.append(
            (label, {f"{label}{int(k)}": 2 for k in rng.integers(0, 8, 3)} | {f"any{int(rng.integers(9))}": 1})
        )
    return lines(*people)


def years(n: int = 80) -> bytes:
    """A number as the label: as many as there are rings. A fixed seed, as above."""
    rng = np.random.default_rng(5)
    return lines(*((10 + 2.5 * int(r), {"ring": int(r) + 1, f"bark{r % 5}": 1}) for r in rng.integers(0, 12, n)))


def folder(path: Path) -> list[str]:
    return sorted(p.name for p in path.iterdir())


# -- what train says -------------------------------------------------------------------------------------------------

#: Names of what is told, by type.
KEYS: dict[type, str] = {
    bool: "two_cycle",
    int: "n_train n_test n_held_out features bins rounds kept_round seed",
    float: "accuracy packages_per_person seconds peak_rss_mb",
    str: "stopped_because descent thinning loss",
    list: "accuracy_interval curve two_cycle_spells",
    dict: "recall recall_interval precision precision_interval baseline",
}
NAMES = " ".join(KEYS.values()).split()


def test_json_of_train_has_these_keys_of_these_types(secvm: Program) -> None:
    result = secvm.json("train", EXAMPLE, "--test-fraction 0.25 --rounds 20")
    assert sorted(result) == sorted(NAMES)
    for kind, names in KEYS.items():
        assert {type(result[name]) for name in names.split()} == {kind}
    assert set(result["recall"]) == set(result["precision"]) == set(result["baseline"]) == {"north", "south"}
    assert (result["n_train"], result["n_test"]) == (450, 150)
    assert [r for r, _ in result["curve"]] == list(range(1, 21))
    assert result["curve"][-1][1] == result["accuracy"] > result["baseline"]["north"]
    low, high = result["accuracy_interval"]
    assert low < result["accuracy"] < high
    assert (result["stopped_because"], result["rounds"], result["kept_round"]) == ("rounds", 20, 20)
    vocabulary = {w for line in EXAMPLE.read_text().splitlines() for w in json.loads(line)["features"]}
    assert result["features"] == result["bins"] == len(vocabulary)
    assert result["packages_per_person"] > 24


def test_json_of_a_regression_has_mae_and_r2(secvm: Program, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(years())
    result = secvm.json("train", tmp_path / "p.jsonl", "--loss", "epsilon-insensitive", "--test-fraction 0.25")
    assert set(result) == {"mae", "r2"} | {
        name for name in NAMES if not re.match("accuracy|recall|precision|baseline", name)
    }
    assert result["mae"] == result["curve"][-1][1]
    assert result["rounds"] == 400


def test_repro_regression_by_the_defaults_of_classification_missed_by_a_hundred_times_the_range(
    secvm: Program, tmp_path: Path
) -> None:
    """λ = 1e-4, 100 rounds and the mean of two: labels between 10 and 40 were missed by 2,400 on average."""
    (tmp_path / "p.jsonl").write_bytes(years())
    for loss in ("epsilon-insensitive", "pinball"):
        assert secvm.json("train", tmp_path / "p.jsonl", "--loss", loss, "--test-fraction 0.25")["r2"] > 0.7


def test_defaults_are_those_the_help_tells_and_the_estimators(secvm: Program, tmp_path: Path) -> None:
    result = secvm.json("train", EXAMPLE, "--out", tmp_path / "default")
    assert (result["descent"], result["thinning"], result["loss"], result["seed"]) == ("swift", "none", "hinge", 1)
    written_out = (
        f"--bins none --hashes 1 --values counts --descent swift --thinning none --rounds {result['rounds']}"
        " --loss hinge --multiclass ovr --stop none --seed 1 --threads 1"
    )
    secvm.json("train", EXAMPLE, "--out", tmp_path / "written", written_out)
    assert (tmp_path / "default").read_bytes() == (tmp_path / "written").read_bytes()
    assert secvm("train --help") == 0
    assert f"auto: swift {result['rounds']}, pegasos 200" in " ".join(secvm.out.split())
    people = [json.loads(line) for line in EXAMPLE.read_text().splitlines()]
    model = SecVMClassifier(dice_seed=options.seed_bytes(1))
    model.fit([person["features"] for person in people], [person["label"] for person in people])
    model.save(tmp_path / "estimator")
    assert (tmp_path / "default").read_bytes() == (tmp_path / "estimator").read_bytes()
    thinned = secvm.json("train", EXAMPLE, "--thinning 3 --rounds 2")
    assert thinned["thinning"] == "3"
    assert "clipped_share" in thinned


def test_numbers_have_the_regressors_defaults(secvm: Program, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(years())
    result = secvm.json("train", tmp_path / "p.jsonl", "--loss epsilon-insensitive --out", tmp_path / "m")
    assert (result["descent"], result["rounds"]) == ("pegasos", 400)
    people = [json.loads(line) for line in years().splitlines()]
    model = SecVMRegressor(dice_seed=options.seed_bytes(1))
    model.fit([person["features"] for person in people], [person["label"] for person in people])
    assert (SecVMRegressor.load(tmp_path / "m").coef_ == model.coef_).all()


def test_nobody_tested_gives_no_accuracy_and_says_how_to_get_one(secvm: Program) -> None:
    result = secvm.json("train", EXAMPLE, "--rounds 2")
    assert result["accuracy"] is None
    assert (result["n_train"], result["n_test"], result["curve"]) == (600, 0, [])
    assert secvm("train", EXAMPLE, "--rounds 2") == 0
    assert "nobody was tested: give --test, --test-fraction or --split-file" in secvm.out


def test_text_tells_the_headline_first(secvm: Program) -> None:
    assert secvm("train", EXAMPLE, "--test-fraction 0.25 --rounds 10") == 0
    assert secvm.err == ""
    assert re.match(r"accuracy 0\.\d{4}  \(95 %: 0\.\d{4} to [01]\.\d{4}\), 150 people\n", secvm.out)
    assert "450 people trained 10 rounds with swift" in secvm.out


def test_train_and_evaluate_tell_of_labels_in_one_table(secvm: Program, tmp_path: Path) -> None:
    people = [("f" if i % 3 else "m", [f"w{i % 7}", f"{i % 3}"]) for i in range(90)]
    (tmp_path / "p.jsonl").write_bytes(lines(*people))
    assert secvm("train", tmp_path / "p.jsonl", "--test", tmp_path / "p.jsonl", "--out", tmp_path / "m") == 0
    trained = secvm.out.splitlines()[:4]
    assert secvm("evaluate", tmp_path / "m", tmp_path / "p.jsonl") == 0
    assert secvm.out.splitlines() == trained
    # Labels are shorter than their heading.
    assert trained[1:] == [
        "label  recall  precision   share",
        "f      1.0000     1.0000  0.6667",
        "m      1.0000     1.0000  0.3333",
    ]


def test_three_ways_to_name_test_people_agree(secvm: Program, tmp_path: Path) -> None:
    people = EXAMPLE.read_bytes().splitlines(keepends=True)
    train = hold_out(600, Fraction(1, 4), options.seed_bytes(1))
    (tmp_path / "split").write_text("".join("train\n" if t else "test\n" for t in train))
    (tmp_path / "train.jsonl").write_bytes(b"".join(p for p, t in zip(people, train, strict=True) if t))
    with gzip.open(tmp_path / "test.jsonl.gz", "wb") as file:
        file.write(b"".join(p for p, t in zip(people, train, strict=True) if not t))
    asked = ["--bins", "64", "--rounds 10"]
    by_share = secvm.json("train", EXAMPLE, *asked, "--test-fraction 1/4")
    by_split = secvm.json("train", EXAMPLE, *asked, "--split-file", tmp_path / "split")
    by_files = secvm.json("train", tmp_path / "train.jsonl", *asked, "--test", tmp_path / "test.jsonl.gz")
    assert by_share["curve"] == by_split["curve"] == by_files["curve"]
    assert by_share["recall"] == by_files["recall"]
    assert by_share["n_test"] == by_split["n_test"] == by_files["n_test"] == 150


def test_vocabulary_values_and_hashes_decide_the_bins(secvm: Program, tmp_path: Path) -> None:
    (tmp_path / "words").write_text("rain\ntea\nsun\nsea\n")
    assert secvm.json("train", EXAMPLE, "--rounds 2", "--vocabulary", tmp_path / "words")["bins"] == 4
    hashed = secvm.json("train", EXAMPLE, "--rounds 2", "--bins", "50", "--hashes", "2", "--salt", "c0ffee")
    assert (hashed["bins"], hashed["hashes"], hashed["salt"]) == (50, 2, "c0ffee")
    assert hashed["features"] == secvm.json("train", EXAMPLE, "--rounds 2")["features"]
    counts, presence = (secvm.json("train", EXAMPLE, "--rounds 1", "--values", v) for v in ("counts", "presence"))
    assert presence["packages_per_person"] < counts["packages_per_person"] == 24


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_loss_is_the_one_that_is_asked_for(secvm: Program, loss: str) -> None:
    result = secvm.json("train", EXAMPLE, f"--test-fraction 0.25 --rounds 60 --loss {loss}")
    assert result["loss"] == loss
    assert result["accuracy"] > 0.7


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
@pytest.mark.parametrize("descent", ["pegasos", "swift"])
def test_three_labels_are_learned(secvm: Program, tmp_path: Path, multiclass: str, descent: str) -> None:
    (tmp_path / "p.jsonl").write_bytes(cities())
    asked = f"--multiclass {multiclass} --descent {descent} --test-fraction 0.3 --rounds 20"
    result = secvm.json("train", tmp_path / "p.jsonl", asked)
    assert result["accuracy"] > 0.8
    assert set(result["recall"]) == {"bonn", "oslo", "rome"}


def test_class_weights_move_the_recalls(secvm: Program) -> None:
    asked = ["train", EXAMPLE, "--test-fraction 0.25 --rounds 60 --descent pegasos --lambda 0.01"]
    north, south = (secvm.json(*asked, "--class-weight", f"{label}=5") for label in ("north", "south"))
    assert north["recall"]["north"] > south["recall"]["north"]
    assert north["recall"]["south"] < south["recall"]["south"]
    both = secvm.json(*asked, "--class-weight", "north=3", "--class-weight", "south=3")
    assert both["curve"] == secvm.json(*asked)["curve"]
    assert secvm.json(*asked, "--class-weight", "balanced")["accuracy"] > 0.7


def test_plateau_stops_early_and_says_so(secvm: Program) -> None:
    asked = ["train", EXAMPLE, "--test-fraction 0.25 --rounds 200", "--stop", "plateau"]
    result = secvm.json(*asked)
    assert result["stopped_because"] == "plateau"
    assert result["kept_round"] <= result["rounds"] < 200
    assert result["accuracy"] == dict(map(tuple, result["curve"]))[result["kept_round"]]
    assert secvm(*asked) == 0
    assert f"the model of round {result['kept_round']} was kept" in secvm.out


def test_svmlight_is_read_too(secvm: Program, tmp_path: Path) -> None:
    (tmp_path / "p.svm").write_text("".join(f"{1 if i % 2 else -1} {1 + i % 2}:3 {3 + i % 5}:1\n" for i in range(40)))
    result = secvm.json("train", tmp_path / "p.svm", "--test-fraction 0.25 --rounds 5")
    assert result["accuracy"] == 1
    assert set(result["recall"]) == {"-1", "1"}


# -- what train writes -----------------------------------------------------------------------------------------------


def test_curve_and_plot_are_written(secvm: Program, tmp_path: Path) -> None:
    asked = ("train", EXAMPLE, "--test-fraction 0.25 --rounds 5 --plot", tmp_path / "p.png")
    result = secvm.json(*asked, "--curve", tmp_path / "c.csv")
    rows = (tmp_path / "c.csv").read_text().splitlines()
    assert rows[0] == "round,accuracy"
    assert [row.split(",") for row in rows[1:]] == [[str(r), f"{v:.6f}"] for r, v in result["curve"]]
    picture = (tmp_path / "p.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    secvm.json(*asked)
    assert (tmp_path / "p.png").read_bytes() == picture
    assert folder(tmp_path) == ["c.csv", "p.png"]


MODELS = {
    "unhashed": "",
    "hashed": "--bins 64 --hashes 2",
    "presence": "--values presence",
    "pegasos": "--descent pegasos",
    "logistic": "--loss logistic",
}


@pytest.mark.parametrize("model", MODELS)
def test_evaluate_and_predict_agree_with_train(secvm: Program, tmp_path: Path, model: str) -> None:
    people = EXAMPLE.read_bytes().splitlines(keepends=True)
    (tmp_path / "train.jsonl").write_bytes(b"".join(people[:450]))
    (tmp_path / "test.jsonl").write_bytes(b"".join(people[450:]))
    asked = ("train", tmp_path / "train.jsonl", "--test", tmp_path / "test.jsonl", "--rounds 10", MODELS[model])
    said = secvm.json(*asked, "--out", tmp_path / "m")
    assert said["model"] == str(tmp_path / "m")
    evaluated = secvm.json("evaluate", tmp_path / "m", tmp_path / "test.jsonl")
    for key in ("accuracy", "accuracy_interval", "recall", "precision", "baseline", "n_test"):
        assert evaluated[key] == said[key]
    predicted = secvm.json("predict", tmp_path / "m", tmp_path / "test.jsonl")
    truth = [json.loads(p)["label"] for p in people[450:]]
    assert np.mean([p == t for p, t in zip(predicted["labels"], truth, strict=True)]) == pytest.approx(said["accuracy"])
    assert predicted["classes"] == ["north", "south"]
    # Labels are not looked at, and one a line is what --out writes.
    nameless = b"".join(json.dumps({"features": json.loads(p)["features"]}).encode() + b"\n" for p in people[450:])
    (tmp_path / "nameless.jsonl").write_bytes(nameless)
    assert secvm("predict", tmp_path / "m", tmp_path / "nameless.jsonl", "--out", tmp_path / "labels") == 0
    assert (tmp_path / "labels").read_text().splitlines() == predicted["labels"]
    # The same file opens in Python.
    loaded = SecVMClassifier.load(tmp_path / "m")
    features = [json.loads(p)["features"] for p in people[450:]]
    assert loaded.predict(features).tolist() == predicted["labels"]
    assert np.ravel(loaded.decision_function(features)).tolist() == np.ravel(predicted["scores"]).tolist()


def test_evaluate_and_predict_agree_with_train_on_numbers(secvm: Program, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(years())
    (tmp_path / "t.jsonl").write_bytes(years(30))
    asked = ("train", tmp_path / "p.jsonl", "--test", tmp_path / "t.jsonl", "--loss pinball --lambda 0.1")
    said = secvm.json(*asked, "--out", tmp_path / "m")
    evaluated = secvm.json("evaluate", tmp_path / "m", tmp_path / "t.jsonl")
    assert {k: evaluated[k] for k in ("mae", "r2", "n_test")} == {k: said[k] for k in ("mae", "r2", "n_test")}
    predicted = secvm.json("predict", tmp_path / "m", tmp_path / "t.jsonl")["labels"]
    features = [json.loads(line)["features"] for line in years(30).splitlines()]
    assert SecVMRegressor.load(tmp_path / "m").predict(features).tolist() == predicted


def test_train_and_the_estimator_make_the_same_weights(secvm: Program, tmp_path: Path) -> None:
    folk = [json.loads(line) for line in EXAMPLE.read_text().splitlines()]
    cases: tuple[tuple[list[str], dict[str, Any]], ...] = (
        (["--bins", "64"], {"n_bins": 64, "salt": options.salt_bytes(None, 7)}),
        (["--descent", "pegasos"], {"descent": "pegasos"}),
        (["--thinning", "3", "--class-weight", "north=2.5"], {"thinning": 3, "class_weight": {"north": 2.5}}),
    )
    for asked, parameters in cases:
        secvm.json("train", EXAMPLE, "--rounds 6", "--seed", "7", "--out", tmp_path / "m", *asked)
        model = SecVMClassifier(rounds=6, dice_seed=options.seed_bytes(7), **parameters)
        model.fit([p["features"] for p in folk], [p["label"] for p in folk])
        loaded = SecVMClassifier.load(tmp_path / "m")
        assert (loaded.coef_ == model.coef_).all()
        assert loaded.experiment_ == model.experiment_


def test_output_replaces_a_file_and_passes_through_a_device(secvm: Program, tmp_path: Path) -> None:
    (tmp_path / "m").write_text("old")
    secvm.json("train", EXAMPLE, "--rounds 1", "--out", tmp_path / "m")
    assert (tmp_path / "m").read_bytes().startswith(b"secvm-model-v1\n")
    assert folder(tmp_path) == ["m"]
    secvm.json("train", EXAMPLE, "--rounds 1", "--out", "/dev/null")


# -- what train refuses ----------------------------------------------------------------------------------------------

GOOD = lines(*(("a" if i % 2 else "b", [f"w{i % 5}", SECRET]) for i in range(20)))
BROKEN_GZIP = gzip.compress(GOOD)[:-30]

#: Content of the people file (None: there is none), its name, options, and a part of the sentence.
BAD_FILES: dict[str, tuple[bytes | None, str, str]] = {
    "missing file": (None, "p.jsonl", "o such file"),
    "broken gzip": (BROKEN_GZIP, "p.jsonl.gz", "gzip"),
    "not JSON": (GOOD + f'{{"label": "a", {SECRET}\n'.encode(), "p.jsonl", "line 21"),
    "not an object": (GOOD + b'["a"]\n', "p.jsonl", "line 21"),
    "label missing": (GOOD + f'{{"features": ["{SECRET}"]}}\n'.encode(), "p.jsonl", "line 21"),
    "NaN value": (GOOD + f'{{"label": "a", "features": {{"{SECRET}": NaN}}}}\n'.encode(), "p.jsonl", "line 21"),
    "NaN in svmlight": (b"1 1:2\n-1 1:nan\n", "p.svm", "line 2"),
    "real value": (GOOD + f'{{"label": "a", "features": {{"{SECRET}": 1.5}}}}\n'.encode(), "p.jsonl", "line 21"),
    "one class only": (lines(("a", [SECRET]), ("a", ["w"])), "p.jsonl", "at least two labels"),
    "nobody": (b"", "p.jsonl", ""),
    "not UTF-8": (GOOD + b'{"label": "a", "features": ["\xff"]}\n', "p.jsonl", "line 21"),
}


@pytest.mark.parametrize("bad", BAD_FILES)
def test_bad_file_is_one_sentence_and_nothing_is_written(secvm: Program, tmp_path: Path, bad: str) -> None:
    content, name, sentence = BAD_FILES[bad]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    before = folder(tmp_path)
    places = ("--out", tmp_path / "m", "--curve", tmp_path / "c.csv", "--plot", tmp_path / "p.png")
    assert sentence in secvm.refused("train", tmp_path / name, "--test-fraction 0.5", *places)
    assert folder(tmp_path) == before


BAD_OPTIONS: dict[str, tuple[list[str], str]] = {
    "bins 0": (["--bins", "0"], "--bins must lie between 1 and"),
    "bins beyond the hash": (["--bins", "99999999999"], "--bins must lie between 1 and"),
    "bins in words": (["--bins", "many"], "--bins must be a whole number, none or auto"),
    "unknown label weighed": (["--class-weight", "c=2"], "which does not occur"),
    "weight without number": (["--class-weight", "a"], "LABEL=W or balanced"),
    "weight that is none": (["--class-weight", "a=heavy"], "must be a number"),
    "negative weight": (["--class-weight", "a=-1"], "must not be negative"),
    "no weight left": (["--class-weight", "a=0", "--class-weight", "b=0"], "above zero"),
    "out in no folder": (["--out", "no/such/folder/m"], "its folder does not exist"),
    "out where nothing can be made": (["--out", "/proc/m"], "cannot write /proc/m (--out): "),
    "plot where nothing can be made": (["--test-fraction 0.5", "--plot", "/proc/p.png"], "/proc/p.png (--plot): "),
    "out is a folder": (["--out", "."], "it is a folder"),
    "curve in no folder": (["--test-fraction 0.5", "--curve", "no/c.csv"], "its folder does not exist"),
    "plot in no folder": (["--test-fraction 0.5", "--plot", "no/p.png"], "its folder does not exist"),
    "averaging with swift": (["--descent", "swift", "--averaging", "2"], "--averaging belongs to pegasos"),
    "step cap with swift": (["--descent", "swift", "--step-cap", "0.5"], "--step-cap belongs to pegasos"),
    "decay with pegasos": (["--descent pegasos --decay", "0.1"], "--decay belongs to swift"),
    "rho with pegasos": (["--descent pegasos --thinning", "3"], "belongs to normalised rows"),
    "q with swift": (["--descent", "swift", "--thinning", "q=1/2"], "rho"),
    "unknown descent": (["--descent", "adam"], "--descent must be pegasos or swift"),
    "unknown loss": (["--loss", "absolute"], "--loss must be one of"),
    "unknown values": (["--values", "tfidf"], "--values must be auto or counts or presence"),
    "unknown multiclass": (["--multiclass", "ovx"], "--multiclass must be ovr or ovo"),
    "unknown stop": (["--stop", "soon"], "--stop must be none or plateau"),
    "lambda 0": (["--descent pegasos --lambda", "0"], "lambda"),
    "lambda with swift": (["--lambda", "0.1"], "--lambda belongs to pegasos: swift has step_size"),
    "lambda in words": (["--lambda", "small"], "--lambda must be a number"),
    "rounds 0": (["--rounds 0"], "--rounds must be a whole number from 1 to"),
    "rounds in words": (["--rounds many"], "--rounds must be a whole number from 1 to"),
    "threads 0": (["--threads", "0"], "--threads"),
    "hashes 0": (["--bins", "8", "--hashes", "0"], "hashes must be a whole number, at least 1"),
    "hashes unhashed": (["--hashes", "2"], "--hashes needs --bins"),
    "bins and vocabulary": (["--bins", "8", "--vocabulary", "words"], "exclude each other"),
    "no vocabulary": (["--vocabulary", "none.txt"], "o such file"),
    "salt in words": (["--bins", "8", "--salt", "salty"], "hexadecimal"),
    "fraction of 2": (["--test-fraction 2"], "--test-fraction must lie between 0 and 1"),
    "fraction of nobody": (["--test-fraction 0.001"], "leaves nobody"),
    "two ways to test": (["--test-fraction 0.5", "--split-file", "split"], "exclude each other"),
    "split of others": (["--split-file", "short"], "the split has 1 lines for 20 people"),
    "no test file": (["--test", "none.jsonl"], "o such file"),
    "labels for a regression": (["--loss", "pinball"], "numbers as labels"),
    "unknown option": (["--depth", "3"], "no such option"),
}


@pytest.mark.parametrize("bad", BAD_OPTIONS)
def test_bad_option_is_one_sentence_and_nothing_is_written(
    secvm: Program, tmp_path: Path, bad: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.jsonl").write_bytes(GOOD)
    (tmp_path / "words").write_text("w1\n")
    (tmp_path / "short").write_text("train\n")
    before = folder(tmp_path)
    asked, sentence = BAD_OPTIONS[bad]
    if "--out" not in asked:
        asked = [*asked, "--out", "m"]
    assert sentence in secvm.refused("train", "p.jsonl", *asked)
    assert folder(tmp_path) == before


def test_bins_beyond_memory_are_refused_before_they_are_tried(
    secvm: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine with one megabyte free.
    monkeypatch.setattr(options, "_VECTORS", 12 * 10**6)
    (tmp_path / "p.jsonl").write_bytes(GOOD)
    assert "MB are free" in secvm.refused("train", tmp_path / "p.jsonl", "--bins", "16000000", "--out", tmp_path / "m")
    assert secvm.err.splitlines()[1] == "Take fewer bins."
    assert folder(tmp_path) == ["p.jsonl"]


def test_unwritable_output_is_refused(secvm: Program, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(GOOD)
    assert "cannot write" in secvm.refused("train", tmp_path / "p.jsonl", "--out", "/proc/secvm/model")
    assert "No space left" in secvm.refused("train", tmp_path / "p.jsonl", "--out", "/dev/full")


def test_test_person_with_an_unknown_label_is_refused(secvm: Program, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(GOOD)
    (tmp_path / "t.jsonl").write_bytes(lines((SECRET, ["w1"])))
    asked = ["--test", tmp_path / "t.jsonl", "--out", tmp_path / "m"]
    assert "a label that no training person has" in secvm.refused("train", tmp_path / "p.jsonl", *asked)
    secvm.json("train", tmp_path / "p.jsonl", "--rounds 1", "--out", tmp_path / "m")
    assert "a label that the model does not know" in secvm.refused("evaluate", tmp_path / "m", tmp_path / "t.jsonl")


BAD_MODELS: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, "o such file"),
    "something else": (b"PK\x03\x04", "not a SecVM model file"),
    "empty": (b"", "not a SecVM model file"),
}


@pytest.mark.parametrize("command", ["predict", "evaluate"])
@pytest.mark.parametrize("bad", [*BAD_MODELS, "changed"])
def test_bad_model_is_one_sentence(secvm: Program, tmp_path: Path, command: str, bad: str) -> None:
    (tmp_path / "p.jsonl").write_bytes(GOOD)
    if bad == "changed":
        secvm.json("train", tmp_path / "p.jsonl", "--rounds 1", "--out", tmp_path / "m")
        data = bytearray((tmp_path / "m").read_bytes())
        data[len(data) // 2] ^= 1
        (tmp_path / "m").write_bytes(data)
        sentence = "the model file is damaged"
    else:
        content, sentence = BAD_MODELS[bad]
        if content is not None:
            (tmp_path / "m").write_bytes(content)
    assert sentence in secvm.refused(command, tmp_path / "m", tmp_path / "p.jsonl")


def test_predict_refuses_what_it_cannot_read_or_write(secvm: Program, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(GOOD)
    secvm.json("train", tmp_path / "p.jsonl", "--rounds 1", "--out", tmp_path / "m")
    before = folder(tmp_path)
    for bad, (content, name, sentence) in BAD_FILES.items():
        if bad in ("label missing", "one class only"):
            continue
        if content is not None:
            (tmp_path / f"bad-{name}").write_bytes(content)
        assert sentence in secvm.refused(
            "predict", tmp_path / "m", tmp_path / f"bad-{name}", "--out", tmp_path / "labels"
        )
        (tmp_path / f"bad-{name}").unlink(missing_ok=True)
    assert "cannot write" in secvm.refused(
        "predict", tmp_path / "m", tmp_path / "p.jsonl", "--out", tmp_path / "no" / "labels"
    )
    assert folder(tmp_path) == before


def test_model_of_columns_is_refused_with_where_to_use_it(secvm: Program, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(GOOD)
    SecVMRegressor(rounds=1).fit([[0.5], [1.5]], [1.0, 2.0]).save(tmp_path / "m")
    assert "use it from Python" in secvm.refused("predict", tmp_path / "m", tmp_path / "p.jsonl")


# -- found bugs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--curve", "--plot"])
def test_repro_plot_without_test_people_was_refused_after_the_model_was_written(
    secvm: Program, tmp_path: Path, option: str
) -> None:
    (tmp_path / "p.jsonl").write_bytes(GOOD)
    assert "a curve needs people to test on" in secvm.refused(
        "train", tmp_path / "p.jsonl", "--out", tmp_path / "m", option, tmp_path / "c"
    )
    assert folder(tmp_path) == ["p.jsonl"]


def test_repro_missing_matplotlib_was_noticed_after_the_model_was_written(
    secvm: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (tmp_path / "p.jsonl").write_bytes(GOOD)
    asked = ["--test-fraction 0.5", "--out", tmp_path / "m", "--plot", tmp_path / "p.png"]
    assert "drawing needs the package matplotlib, which is not installed" in secvm.refused(
        "train", tmp_path / "p.jsonl", *asked
    )
    assert folder(tmp_path) == ["p.jsonl"]


def test_repro_regression_on_equal_test_labels_ended_in_a_traceback(secvm: Program, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(years(20))
    (tmp_path / "t.jsonl").write_bytes(lines((12.5, {"ring": 2})))
    asked = ["train", tmp_path / "p.jsonl", "--test", tmp_path / "t.jsonl", "--loss", "pinball", "--rounds 3"]
    assert secvm(*asked) == 0
    assert ", r2 -, 1 people" in secvm.out
    assert secvm.json(*asked)["r2"] is None


def test_repro_few_people_at_a_plateau_were_told_of_an_option_they_had_not_given(
    secvm: Program, tmp_path: Path
) -> None:
    (tmp_path / "p.jsonl").write_bytes(lines(("a", ["x"]), ("b", ["y"])))
    assert "--stop plateau leaves nobody" in secvm.refused("train", tmp_path / "p.jsonl", "--stop", "plateau")


def test_repro_number_with_an_endless_exponent_was_computed(secvm: Program) -> None:
    assert "--lambda must be a number" in secvm.refused("train", EXAMPLE, "--lambda", "1e-999999999")


def test_repro_negative_value_of_a_test_person_changed_the_model(secvm: Program, tmp_path: Path) -> None:
    """Whether values are negative decides how class weights are applied: test people have no say in that."""
    good = lines(*(("a" if i % 3 else "b", {f"w{i % 5}": 1 + i % 2}) for i in range(20)))
    (tmp_path / "one.jsonl").write_bytes(good + lines(("a", {"w1": 1})))
    (tmp_path / "two.jsonl").write_bytes(good + lines(("a", {"w1": -1})))
    (tmp_path / "split").write_text("train\n" * 20 + "test\n")
    for name in ("one", "two"):
        asked = "--descent swift --class-weight balanced --rounds 4"
        places = ("--split-file", tmp_path / "split", "--out", tmp_path / name)
        secvm.json("train", tmp_path / f"{name}.jsonl", asked, *places)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


# -- columns ---------------------------------------------------------------------------------------------------------


def shoppers(n: int = 200) -> str:
    """Ages, cities and days, with gaps; who is old or in Rome buys. A fixed seed, as above."""
    rng = np.random.default_rng(6)
    rows = ["age,city,joined,buys"]
    for i in range(n):
        age, city = int(rng.integers(18, 90)), ["Rome", "Oslo", "Bern"][int(rng.integers(3))]
        buys = "yes" if age > 60 or city == "Rome" else "no"
        rows.append(f"{age if i % 20 else ''},{city},2024-0{i % 9 + 1}-11,{buys}")
    return "\n".join(rows) + "\n"


def test_columns_train_as_a_data_frame_does(secvm: Program, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(shoppers())
    result = secvm.json("train", tmp_path / "p.csv", "--label buys --test-fraction 0.25 --out", tmp_path / "m")
    assert result["accuracy"] > 0.8
    assert (result["n_train"], result["n_test"]) == (150, 50)
    everybody = secvm.json("train", tmp_path / "p.csv", "--label buys --out", tmp_path / "all")
    frame = pd.read_csv(tmp_path / "p.csv", parse_dates=["joined"])
    answers = frame.pop("buys")
    model = SecVMClassifier(dice_seed=options.seed_bytes(1)).fit(frame, answers)
    loaded = SecVMClassifier.load(tmp_path / "all")
    assert (loaded.coef_ == model.coef_).all()
    assert everybody["packages_per_person"] == model.packages_per_person_
    # Predicting needs no label, and takes columns in any order.
    frame[["city", "joined", "age"]].to_csv(tmp_path / "others.csv", index=False)
    predicted = secvm.json("predict", tmp_path / "all", tmp_path / "others.csv")["labels"]
    assert predicted == model.predict(frame).tolist()
    told = secvm.json("evaluate", tmp_path / "all", tmp_path / "p.csv", "--label buys")
    assert told["accuracy"] == model.score(frame, answers)


def test_repro_every_price_became_a_class(secvm: Program, tmp_path: Path) -> None:
    people = "".join(f"{i % 7},{i % 7 + 0.5}\n" for i in range(80))
    (tmp_path / "p.csv").write_text("age,price\n" + people)
    said = secvm.refused("train", tmp_path / "p.csv", "--label price --test-fraction 0.25")
    assert "a label is a number that is not whole" in said
    assert "--loss epsilon-insensitive" in said
    assert secvm.json("train", tmp_path / "p.csv", "--label price --loss epsilon-insensitive --rounds 5")["rounds"] == 5


def test_many_whole_numbers_as_labels_are_said_to_be_classes(secvm: Program, tmp_path: Path) -> None:
    people = "".join(f"{'Rome' if i % 4 else 'Oslo'},{i % 30}\n" for i in range(60))
    (tmp_path / "p.csv").write_text("city,age\n" + people)
    secvm.json("train", tmp_path / "p.csv", "--label age --rounds 2", quiet=False)
    assert "the labels are 30 different numbers, each a class of its own" in secvm.err
    assert "--loss epsilon-insensitive" in secvm.err


def test_a_column_of_names_is_said_to_tell_nothing(secvm: Program, tmp_path: Path) -> None:
    people = "".join(f"u{i},{i % 5},{'yes' if i % 5 > 2 else 'no'}\n" for i in range(80))
    (tmp_path / "p.csv").write_text("account,visits,buys\n" + people)
    secvm.json("train", tmp_path / "p.csv", "--label buys --rounds 3", quiet=False)
    assert "column 'account' holds texts that hardly two people share" in secvm.err


def test_columns_are_hashed_weighed_and_kept_private(secvm: Program, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(shoppers())
    (tmp_path / "t.csv").write_text(shoppers(40))
    asked = ["train", tmp_path / "p.csv", "--label buys", "--test", tmp_path / "t.csv"]
    hashed = secvm.json(*asked, "--bins 64 --class-weight balanced")
    assert (hashed["bins"], hashed["n_test"]) == (64, 40)
    assert hashed["features"] > 10
    promise = "--bins 64 --epsilon 4 --delta 1e-3 --contribution 8 --out"
    private = secvm.json(*asked, promise, tmp_path / "m", quiet=False)
    assert private["privacy"]["epsilon"] == 4
    assert secvm.json("evaluate", tmp_path / "m", tmp_path / "t.csv", "--label buys")["accuracy"] == private["accuracy"]


def test_repro_columns_under_an_epsilon_send_as_few_packages_as_a_data_frame(secvm: Program, tmp_path: Path) -> None:
    """``train`` planned 300 features for each person of three columns, and its model was worth far less."""
    (tmp_path / "p.csv").write_text(shoppers())
    asked = ("train", tmp_path / "p.csv", "--label buys --epsilon 6 --delta 1e-3 --seed 1 --out", tmp_path / "m")
    private = secvm.json(*asked, quiet=False)
    frame = pd.read_csv(tmp_path / "p.csv", parse_dates=["joined"])
    answers = frame.pop("buys")
    model = SecVMClassifier(
        epsilon=6, delta=1e-3, dice_seed=options.seed_bytes(1), salt=options.salt_bytes(None, 1)
    ).fit(frame, answers)
    model.save(tmp_path / "same")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "same").read_bytes()
    # Age, city, year, month, weekday; a participation package and a canary.
    assert private["privacy"]["contribution"] == 5
    assert private["privacy"]["budget_per_device_round"] == 8


BAD_COLUMNS: dict[str, tuple[str, str, str]] = {
    "no label named": ("train p.csv", "nobody says which one is the label", "Give --label COLUMN"),
    "another label": ("train p.csv --label bought", "there is no column 'bought'", "There are age, city"),
    "a label for lines": ("train p.jsonl --label buys", "--label names a column, and this file has none", ""),
    "lines for columns": ("predict m p.jsonl", "trained on columns; give it CSV or Parquet", ""),
    "columns for lines": ("predict words p.csv", "trained on words; give it JSON lines", ""),
    "a column lost": ("predict m short.csv", "columns that are not there: age, city, joined", ""),
    "another kind of test": ("train p.csv --label buys --test p.jsonl", "those who test have none", ""),
}


@pytest.mark.parametrize("bad", BAD_COLUMNS)
def test_files_that_do_not_fit_are_told_apart(
    secvm: Program, tmp_path: Path, bad: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.jsonl").write_bytes(GOOD)
    (tmp_path / "p.csv").write_text(shoppers(40))
    (tmp_path / "short.csv").write_text("buys\nyes\n")
    secvm.json("train p.csv --label buys --rounds 1 --out m")
    secvm.json("train p.jsonl --rounds 1 --out words")
    asked, sentence, next_step = BAD_COLUMNS[bad]
    assert sentence in secvm.refused(asked)
    assert next_step in secvm.err


# -- real processes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["train", "predict", "evaluate"])
def test_examples_of_the_help_work_when_pasted(tmp_path: Path, command: str) -> None:
    (tmp_path / "examples").mkdir()
    shutil.copy(EXAMPLE, tmp_path / "examples")
    helped = parties.secvm(command, "--help", cwd=tmp_path)
    assert (helped.returncode, helped.stderr) == (0, "")
    examples = re.findall(r"^ *\./secvm (.+)$", helped.stdout, flags=re.MULTILINE)
    assert len(examples) == (2 if command == "train" else 1), helped.stdout
    if command != "train":
        made = parties.secvm("train", "examples/people.jsonl", "--rounds", "3", "--out", "model.secvm", cwd=tmp_path)
        assert made.returncode == 0, made.stderr
    for example in examples:
        told = parties.secvm(*shlex.split(example), cwd=tmp_path)
        assert told.returncode == 0, example
        # On a slow machine it tells now and then how far it is.
        said = re.sub(r"^[a-z ]+: \d+ of \d+(, about .* left)?\n", "", told.stderr, flags=re.MULTILINE)
        # What a guarantee costs is said before it starts, beside the result.
        assert ("each device sends" in said) if "--epsilon" in example else said == "", example
        assert told.stdout
    assert (tmp_path / "model.secvm").exists()


def test_process_ends_with_two_and_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_bytes(BAD_FILES["NaN value"][0] or b"")
    told = parties.secvm("train", "p.jsonl", "--out", "m", cwd=tmp_path)
    assert (told.returncode, told.stdout) == (2, "")
    assert "line 21" in told.stderr
    assert SECRET not in told.stderr
    assert folder(tmp_path) == ["p.jsonl"]
