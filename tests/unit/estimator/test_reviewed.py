"""What a reviewer stumbled over: numpy's integers, columns of data frames, ranges of the dice, vocabulary in a repr."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from secvm.errors import ArithmeticRangeError, BadInputError
from secvm.estimator import FeatureBinner, SecVMClassifier, SecVMRegressor
from secvm.estimator.training import OfflineTraining
from secvm.learning._kernels import reference, vectorised
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import VocabularyBinning
from secvm.learning.individual.dice import Purpose, UnsafeSeededDice

WORDS = [["tea", "rain"], ["sea", "sun"], ["tea", "fog"], ["sun", "sand"]] * 5
LABELS = ["n", "s", "n", "s"] * 5


def test_repro_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    whole = {"n_bins": 16, "n_hashes": 2, "budget": 50, "features_per_person": 2, "averaging": 2, "rounds": 3}
    model = SecVMClassifier(descent="pegasos").set_params(**{name: np.int64(value) for name, value in whole.items()})
    model.set_params(lambda_=np.float64(1e-3)).fit(WORDS, LABELS)
    model.save(tmp_path / "m")
    assert SecVMClassifier.load(tmp_path / "m").predict(WORDS).tolist() == model.predict(WORDS).tolist()


def test_repro_column_of_a_data_frame_may_hold_lists_of_words() -> None:
    frame = pd.DataFrame({"words": WORDS})
    from_frame = SecVMClassifier(rounds=5).fit(frame["words"], LABELS)
    assert from_frame.state_.to_bytes() == SecVMClassifier(rounds=5).fit(WORDS, LABELS).state_.to_bytes()
    assert from_frame.predict(frame["words"]).tolist() == LABELS


def test_repro_text_in_columns_is_refused_without_showing_it() -> None:
    with pytest.raises(BadInputError) as error:
        FeatureBinner(8).fit(np.array([["secretword", "x"], ["y", "z"]], dtype=object))
    assert "secretword" not in str(error.value)


@pytest.mark.parametrize(("round_number", "model"), [(2**20, 0), (-1, 0), (0, 2**12), (0, -1)])
def test_repro_dice_have_no_words_beyond_their_counter(round_number: int, model: int) -> None:
    with pytest.raises(ArithmeticRangeError):
        reference.dice_word(bytes(16), round_number, model, 0)
    with pytest.raises(ArithmeticRangeError):
        vectorised.dice_words(np.zeros((2, 2), dtype=np.uint64), round_number, model, 0)
    with pytest.raises(ArithmeticRangeError):
        UnsafeSeededDice(b"", 0).words(Purpose.COIN, round_number, model, 1)


def test_repro_vocabulary_found_among_people_does_not_print_itself() -> None:
    assert "alice" not in repr(VocabularyBinning(("alice@example.org",)))


def test_repro_regression_converges_with_its_defaults() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 6, (300, 5)).astype(float)
    y = x @ np.array([3.0, -2.0, 1.0, 0.5, 0.0]) + 7 + rng.normal(0, 0.3, 300)
    assert SecVMRegressor().fit(x, y).score(x, y) > 0.9


def test_many_threads_are_no_more_than_there_are_processors() -> None:
    experiment = Experiment(n_bins=3, labels=("a", "b"), rule=Pegasos())
    assert OfflineTraining(experiment, threads=100_000)._threads <= (os.cpu_count() or 1)


def test_round_that_is_kept_at_a_plateau_is_told() -> None:
    model = SecVMClassifier(stop="plateau", rounds=60, validation_fraction=0.3, random_state=0).fit(
        WORDS * 4, LABELS * 4
    )
    assert model.stopped_because_ == "plateau"
    assert model.kept_round_ == model.state_.step <= model.n_iter_


def test_repro_hash_is_never_unsalted() -> None:
    for empty in ("", b""):
        with pytest.raises(BadInputError, match="must not be empty"):
            FeatureBinner(8, salt=empty).fit(WORDS)
    salts = {SecVMClassifier(n_bins=8, rounds=1, random_state=i).fit(WORDS, LABELS).binner_.binning_ for i in range(3)}
    assert len(salts) == 3
    again = [SecVMClassifier(n_bins=8, rounds=1, random_state=7).fit(WORDS, LABELS).binner_.binning_ for _ in range(2)]
    assert again[0] == again[1]
