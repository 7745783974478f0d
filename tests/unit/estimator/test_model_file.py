"""Models as files: what was saved comes back, to the bit, and nothing else is believed."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from secvm.errors import BadInputError, BadModelFileError
from secvm.estimator import SecVMClassifier, SecVMRegressor
from secvm.estimator.model import Model
from tests.unit.estimator.people import columns, numbers, state, texts


def frame(**more: Any) -> tuple[Any, Any]:
    X, y = columns(**more)
    return pd.DataFrame(X, columns=["a", "b", "c", "d", "ä"]), y


def sparse(**more: Any) -> tuple[Any, Any]:
    import scipy.sparse as sp

    X, y = columns(**more)
    return sp.csr_matrix(np.where(np.abs(X) > 1, X, 0)), y


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "words": (texts, {}),
    "words hashed twice": (texts, {"n_bins": 40, "n_hashes": 2, "salt": "c0ffee"}),
    "words present": (texts, {"values": "presence"}),
    "columns": (columns, {}),
    "columns hashed": (columns, {"n_bins": 9}),
    "data frame": (frame, {}),
    "sparse": (sparse, {}),
    "swift thinned": (texts, {"descent": "swift", "thinning": 2.5, "decay": 0.05}),
    "swift whole": (texts, {"descent": "swift", "thinning": None}),
    "one-vs-one": (texts, {"multiclass": "ovo", "class_weight": {0: 2.0}}),
    "logistic": (texts, {"loss": "logistic", "lambda_": 0.25}),
    "squared hinge": (texts, {"loss": "squared-hinge", "loss_parameter": 2.5}),
    "pegasos thinned": (texts, {"thinning": "q=1/3", "averaging": 3, "step_cap": 0.5}),
    "budget and F": (texts, {"budget": 7, "features_per_person": 5}),
}


def trained(case: str) -> tuple[SecVMClassifier, Any, Any]:
    make, parameters = CASES[case]
    X, y = make(labels=3)
    return SecVMClassifier(rounds=4, dice_seed=b"file", **parameters).fit(X, y), X, y


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_loaded_classifier_answers_alike_and_saves_the_same_bytes(case: str, with_state: bool, tmp_path: Path) -> None:
    model, X, _ = trained(case)
    model.save(tmp_path / "m", with_state=with_state)
    loaded = SecVMClassifier.load(tmp_path / "m")
    assert (loaded.decision_function(X) == model.decision_function(X)).all()
    assert (loaded.predict(X) == model.predict(X)).all()
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.n_iter_ == 4
    assert (loaded.coef_ == model.coef_).all()
    assert loaded.get_feature_names_out().tolist() == model.get_feature_names_out().tolist()
    loaded.save(tmp_path / "again", with_state=with_state)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.mark.parametrize("case", CASES)
def test_loaded_state_goes_on_to_the_same_bytes(case: str, tmp_path: Path) -> None:
    model, X, y = trained(case)
    model.save(tmp_path / "m", with_state=True)
    loaded = SecVMClassifier.load(str(tmp_path / "m"))
    for _ in range(2):
        assert state(loaded.partial_fit(X, y)) == state(model.partial_fit(X, y))
    assert loaded.n_iter_ == 6


@pytest.mark.parametrize("case", CASES)
def test_clone_of_a_loaded_model_asks_the_same_question(case: str, tmp_path: Path) -> None:
    model, X, y = trained(case)
    model.save(tmp_path / "m")
    twin = clone(SecVMClassifier.load(tmp_path / "m")).set_params(rounds=4, dice_seed=b"file")
    assert state(twin.fit(X, y)) == state(model)


@pytest.mark.parametrize("loss", ["epsilon-insensitive", "pinball"])
def test_loaded_regressor_answers_and_goes_on_alike(loss: str, tmp_path: Path) -> None:
    X, y = numbers()
    model = SecVMRegressor(rounds=30, loss=loss).fit(X, y)
    model.save(tmp_path / "m", with_state=True)
    loaded = SecVMRegressor.load(tmp_path / "m")
    assert (loaded.predict(X) == model.predict(X)).all()
    loaded.save(tmp_path / "again", with_state=True)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    assert state(loaded.partial_fit(X, y)) == state(model.partial_fit(X, y))


@pytest.mark.parametrize("names", [["no", "yes"], [False, True], [3, 4], [1.0, 2.0]])
def test_repro_labels_came_back_as_text(names: list[Any], tmp_path: Path) -> None:
    X, y = texts()
    model = SecVMClassifier(rounds=5).fit(X, np.array(names)[y])
    model.save(tmp_path / "m")
    loaded = SecVMClassifier.load(tmp_path / "m")
    assert loaded.classes_.tolist() == names
    assert loaded.score(X, np.array(names)[y]) == model.score(X, np.array(names)[y])


def test_repro_thinned_training_went_on_with_other_dice(tmp_path: Path) -> None:
    X, y = texts()
    y = np.random.default_rng(0).integers(0, 2, 60)
    model = SecVMClassifier(descent="swift", rounds=2, random_state=5).fit(X, y)
    model.save(tmp_path / "m", with_state=True)
    loaded = SecVMClassifier.load(tmp_path / "m").partial_fit(X, y)
    assert state(loaded) == state(SecVMClassifier(descent="swift", rounds=3, random_state=5).fit(X, y))


def test_repro_model_without_state_fitted_anew_could_not_go_on(tmp_path: Path) -> None:
    X, y = texts()
    SecVMClassifier(rounds=2).fit(X, y).save(tmp_path / "m")
    loaded = SecVMClassifier.load(tmp_path / "m")
    with pytest.raises(BadInputError, match="saved without its state"):
        loaded.partial_fit(X, y)
    loaded.set_params(rounds=2).fit(X, y).partial_fit(X, y)
    assert state(loaded) == state(SecVMClassifier(rounds=3).fit(X, y))


def test_repro_model_without_state_saved_an_empty_one(tmp_path: Path) -> None:
    X, y = texts()
    SecVMClassifier(rounds=2).fit(X, y).save(tmp_path / "m")
    with pytest.raises(BadInputError, match="has none to save"):
        SecVMClassifier.load(tmp_path / "m").save(tmp_path / "again", with_state=True)
    assert not (tmp_path / "again").exists()


def test_seed_of_the_dice_is_in_the_file_only_with_the_state(tmp_path: Path) -> None:
    X, y = texts()
    model = SecVMClassifier(rounds=2, descent="swift", dice_seed=b"the seed of dice").fit(X, y)
    model.save(tmp_path / "without")
    model.save(tmp_path / "with", with_state=True)
    assert b"the seed of dice" not in (tmp_path / "without").read_bytes()
    assert b"the seed of dice" in (tmp_path / "with").read_bytes()


# -- files that are not to be believed -------------------------------------------------------------------------------


@pytest.fixture
def data() -> bytes:
    X, y = columns()
    model = SecVMClassifier(rounds=2).fit(X, y)
    found = Model(
        experiment=model.experiment_,
        binning=model.binner_.binning_,
        weights=model.weights_,
        presence=False,
        rounds=2,
        quantiser=model.binner_.quantiser_,
        columns=(),
        state=state(model),
    )
    return found.to_bytes()


def test_every_flipped_byte_is_seen(data: bytes) -> None:
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0x10
        with pytest.raises(BadModelFileError):
            Model.from_bytes(bytes(broken))


def test_truncated_and_extended_files_are_refused(data: bytes) -> None:
    for wrong in (b"", data[:10], data[:-1], data + b"\0", data[: len(data) // 2]):
        with pytest.raises(BadModelFileError):
            Model.from_bytes(wrong)


def resealed(data: bytes, change: Any) -> bytes:
    """The file with another header and a digest that fits it: what a liar would write."""
    magic, line, rest = data.split(b"\n", 2)
    header = json.loads(line)
    changed = change(header)
    line = changed if isinstance(changed, bytes) else json.dumps(header, sort_keys=True).encode()
    body = magic + b"\n" + line + b"\n" + rest[:-32]
    return body + hashlib.blake2b(body, digest_size=32).digest()


LIES: dict[str, Any] = {
    "no experiment": lambda h: h.pop("experiment"),
    "other bins": lambda h: h["experiment"].update(bins=3),
    "endless bins": lambda h: h["experiment"].update(bins=10**18),
    "negative section": lambda h: h["sections"].insert(0, ["x", "bytes", -4]),
    "long section": lambda h: h["sections"].append(["x", "bytes", 10**9]),
    "endless number": lambda h: h["weights"].update(unit="1e999999999"),
    "ratio over zero": lambda h: h["weights"].update(unit="1/0"),
    "unknown rule": lambda h: h["experiment"]["rule"].update(name="adam"),
    "endless lambda": lambda h: h["experiment"]["rule"].update({"lambda": "1e-999999999"}),
    "columns that do not fit": lambda h: h.update(columns=["a", "b"]),
    "unknown kind of labels": lambda h: h.update(label_kind="code"),
    "one label": lambda h: h["experiment"].update(labels=["a"]),
    "a list for a header": lambda _: b"[]",
    "deep nesting": lambda _: b"[" * 200_000,
    "not JSON": lambda _: b"{",
    "not UTF-8": lambda _: b'{"a": "\xff"}',
    "state of other averaging": lambda h: h["experiment"]["rule"].update(averaging="3"),
}


@pytest.mark.parametrize("lie", LIES)
def test_sealed_lies_are_refused_with_a_sentence(lie: str, data: bytes) -> None:
    with pytest.raises(BadModelFileError):
        Model.from_bytes(resealed(data, LIES[lie]))
    Model.from_bytes(resealed(data, lambda _: None))


def test_labels_of_another_kind_than_the_file_says_are_refused(data: bytes, tmp_path: Path) -> None:
    wrong = resealed(data, lambda h: h["experiment"].update(labels=["x", "y"]) or h.update(label_kind="int"))
    (tmp_path / "m").write_bytes(wrong)
    with pytest.raises(BadModelFileError, match="labels of another kind"):
        SecVMClassifier.load(tmp_path / "m")


def test_missing_file_and_the_other_kind_of_model_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadModelFileError, match="cannot read the model file: No such file"):
        SecVMClassifier.load(tmp_path / "none")
    X, y = numbers()
    SecVMRegressor(rounds=2).fit(X, y).save(tmp_path / "r")
    with pytest.raises(BadInputError, match="load it with SecVMRegressor"):
        SecVMClassifier.load(tmp_path / "r")
    SecVMClassifier(rounds=2).fit(X, y > 10).save(tmp_path / "c")
    with pytest.raises(BadInputError, match="load it with SecVMClassifier"):
        SecVMRegressor.load(tmp_path / "c")


# -- whole or not at all ---------------------------------------------------------------------------------------------


def test_repro_failed_save_left_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = texts()
    model = SecVMClassifier(rounds=2).fit(X, y)
    model.save(tmp_path / "m")
    before = (tmp_path / "m").read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for name in ("m", "new"):
        with pytest.raises(BadInputError, match="No space left"):
            model.partial_fit(X, y).save(tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    assert (tmp_path / "m").read_bytes() == before


def test_save_into_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    X, y = texts()
    model = SecVMClassifier(rounds=2).fit(X, y)
    with pytest.raises(BadInputError, match="No such file"):
        model.save(tmp_path / "no" / "m")
    with pytest.raises(BadInputError, match="it is a folder"):
        model.save(tmp_path)
    assert list(tmp_path.iterdir()) == []
