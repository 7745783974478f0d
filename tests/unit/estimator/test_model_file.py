"""Models as files: what was saved comes back, to the bit, and nothing else is believed."""

import hashlib
import json
import os
import random
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from secvm.errors import BadInputError, BadModelFileError
from secvm.estimator import SecVMClassifier, SecVMRegressor
from secvm.estimator.frames.plan import Column, FramePlan
from secvm.estimator.frames.quantise import Quantiser
from secvm.estimator.model import ModelFile
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.cover_law import RelayCover
from secvm.learning.experiment import Experiment, Robust
from secvm.learning.individual.binning import HashBinning, VocabularyBinning
from secvm.learning.losses import Loss
from secvm_lab.rigs.histories.random_experiments import draw_experiment
from tests.seeds import seed_for
from tests.unit.estimator.people import columns, numbers, state, texts
from tests.unit.learning.helpers import relay_cover


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
    "logistic": (texts, {"descent": "pegasos", "loss": "logistic", "lambda_": 0.25}),
    "squared hinge": (texts, {"loss": "squared-hinge", "loss_parameter": 2.5}),
    "pegasos thinned": (texts, {"descent": "pegasos", "thinning": "q=1/3", "averaging": 3, "step_cap": 0.5}),
    "budget and F": (texts, {"descent": "pegasos", "budget": 7, "features_per_person": 5}),
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
    model = SecVMClassifier(rounds=2).fit({str(j): column for j, column in enumerate(X.T)}, y)
    found = ModelFile(
        experiment=model.experiment_,
        binning=model.binner_.binning_,
        weights=model.weights_,
        presence=False,
        rounds=2,
        frame=model.binner_.frame_,
        columns=(),
        state=state(model),
    )
    return found.to_bytes()


def test_every_flipped_byte_is_seen(data: bytes) -> None:
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0x10
        with pytest.raises(BadModelFileError):
            ModelFile.from_bytes(bytes(broken))


def test_truncated_and_extended_files_are_refused(data: bytes) -> None:
    for wrong in (b"", data[:10], data[:-1], data + b"\0", data[: len(data) // 2]):
        with pytest.raises(BadModelFileError):
            ModelFile.from_bytes(wrong)


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
    "a column of no kind": lambda h: h["frame"][0].update(kind="code"),
    "falling knots": lambda h: h["frame"][0].update(edges=[2, 1]),
    "endless knots": lambda h: h["frame"][0].update(edges=[0, float("inf")]),
    "amounts without zero": lambda h: h["frame"][0].update(kind="amounts", edges=[1, 2]),
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
        ModelFile.from_bytes(resealed(data, LIES[lie]))
    ModelFile.from_bytes(resealed(data, lambda _: None))


def test_labels_of_another_kind_than_the_file_says_are_refused(data: bytes, tmp_path: Path) -> None:
    wrong = resealed(data, lambda h: h["experiment"].update(labels=["x", "y"]) or h.update(label_kind="int"))
    (tmp_path / "m").write_bytes(wrong)
    with pytest.raises(BadModelFileError, match="labels of another kind"):
        SecVMClassifier.load(tmp_path / "m")


def test_missing_file_and_the_other_kind_of_model_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadModelFileError, match=r"cannot read .*: No such file"):
        SecVMClassifier.load(tmp_path / "none")
    X, y = numbers()
    SecVMRegressor(rounds=2).fit(X, y).save(tmp_path / "r")
    with pytest.raises(BadInputError, match="load it with SecVMRegressor"):
        SecVMClassifier.load(tmp_path / "r")
    SecVMClassifier(rounds=2).fit(X, y > 10).save(tmp_path / "c")
    with pytest.raises(BadInputError, match="load it with SecVMClassifier"):
        SecVMRegressor.load(tmp_path / "c")


def test_repro_a_large_file_of_something_else_is_not_read(tmp_path: Path) -> None:
    large, model = tmp_path / "large", tmp_path / "model"
    # Nothing but a name and a length: no disk, and no memory either if nobody reads it.
    with large.open("wb") as file:
        file.truncate(2**42)
    with model.open("wb") as file:
        file.write(b"secvm-model-v1\n")
        file.truncate(2**42)
    loads: tuple[Callable[[Path], object], ...] = (SecVMClassifier.load, ModelFile.read)
    for load in loads:
        with pytest.raises(BadModelFileError, match="not a SecVM model file"):
            load(large)
        with pytest.raises(BadModelFileError, match=f"more than {2**31} bytes"):
            load(model)


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


# -- nothing is lost -------------------------------------------------------------------------------------------------


def drawn_experiments() -> list[Experiment]:
    """Experiments at random, offline ones and numbers for labels too: every field has a value of its own in some."""
    dice = random.Random(seed_for("experiments of model files"))
    robust = (Robust(clip=Fraction(5, 2)), Robust(trim=3), Robust(clip=Fraction(3), trim=5))
    found = [draw_experiment(dice) for _ in range(40)]
    found += [draw_experiment(dice, robust=dice.choice(robust), features_per_person=7) for _ in range(20)]
    found.append(Experiment(n_bins=3, labels=("a", "b"), rule=Swift(), fixed_point_rows=True))
    found.append(
        Experiment(
            n_bins=3, labels=("a", "b"), rule=Pegasos(), class_weights=(Fraction(1), Fraction(2)), weighted_updates=True
        )
    )
    number: dict[str, Any] = {"labels": ("y",), "target_centre": Fraction(-7, 3), "target_spread": Fraction(1, 9)}
    found.append(Experiment(n_bins=3, rule=Pegasos(), loss=Loss("pinball", Fraction(1, 4)), **number))
    covered = [relayed(labels) for labels in (("a", "b"), ("a", "b", "c"), ("y",))]
    return [*found, *covered, *(replace(one, robust=dice.choice(robust)) for one in covered)]


def relayed(labels: tuple[str, ...]) -> Experiment:
    """With two relays' cover."""
    kinds, models = len(labels), len(labels) if len(labels) > 2 else 1
    cover = relay_cover(
        bins=3,
        labels=kinds,
        models=models,
        train="7/3",
        here="1/3",
        tested="2",
        parts=5,
        room=1_000,
        train_share=Fraction(7, 10),
    )
    loss = Loss("pinball", Fraction(1, 4)) if kinds == 1 else Loss("hinge")
    return Experiment(n_bins=3, labels=labels, rule=Pegasos(), loss=loss, features_per_person=2, cover=cover)


def models() -> list[ModelFile]:
    """A model of each of them, with every other field of a model, too."""
    found = []
    for number, experiment in enumerate(drawn_experiments()):
        state = aggregate.start(experiment)
        hashed = HashBinning(n_bins=experiment.n_bins, salt=bytes([number]) * 16, n_hashes=1 + number % 3)
        words = VocabularyBinning(tuple(f"wörd{i}" for i in range(experiment.n_bins)))
        columns = np.arange(experiment.n_bins, dtype=np.float64)
        plan = (Column("Größe", "knots", (-1.5, 1e300)), Column("age", "bins", (0.1, 30.0)), Column("city", "words"))
        found.append(
            ModelFile(
                experiment=experiment,
                binning=hashed if number % 2 else words,
                weights=aggregate.evaluation_weights(experiment, state),
                presence=number % 3 == 0,
                rounds=number,
                quantiser=None if number % 4 else Quantiser(centre=columns, factor=columns + 1),
                frame=FramePlan(plan) if number % 4 == 1 else None,
                columns=None if number % 4 else tuple(f"c{i}" for i in range(experiment.n_bins)),
                state=state.to_bytes() if number % 5 else b"",
                seed=b"seed" if number % 5 else b"",
                label_kind="int" if number % 2 else "text",
                one_per_bin=number % 7 == 0,
            )
        )
    return found


def same(first: object, second: object) -> bool:
    """Equal in every field, however deep; arrays entry by entry."""
    if isinstance(first, np.ndarray):
        return isinstance(second, np.ndarray) and first.dtype == second.dtype and np.array_equal(first, second)
    if is_dataclass(first):
        names = [field.name for field in fields(first)]
        return type(first) is type(second) and all(same(getattr(first, n), getattr(second, n)) for n in names)
    return first == second


def test_repro_a_model_file_lost_cover_and_robust() -> None:
    for model in models():
        assert same(ModelFile.from_bytes(model.to_bytes()), model)


@pytest.mark.parametrize("kind", [ModelFile, Experiment, RelayCover, Robust])
def test_every_field_has_another_value_than_its_default_in_some_drawn_model(kind: type) -> None:
    # A field that is added one day is drawn here too, and then the test above sees whether a file keeps it.
    drawn = [
        part
        for model in models()
        for part in (model, model.experiment, model.experiment.cover, model.experiment.robust)
        if isinstance(part, kind)
    ]
    for field in fields(kind):
        values = [getattr(one, field.name) for one in drawn]
        assert any(not same(value, field.default) for value in values), field.name


def test_files_of_before_are_read_as_having_neither_cover_nor_robust() -> None:
    model = next(one for one in models() if one.experiment.cover is not None and one.experiment.robust is None)
    old = resealed(model.to_bytes(), lambda header: header["experiment"].pop("cover") and None)
    assert ModelFile.from_bytes(old).experiment == replace(model.experiment, cover=None)
