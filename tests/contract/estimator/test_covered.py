"""The keystone under cover: offline tallies are those of everybody's packages, cover included, to the bit."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from secvm.errors import BadInputError
from secvm.estimator import PrivacyWarning, SecVMClassifier, SecVMRegressor
from secvm.estimator.frames.plan import public_bins
from secvm.estimator.privacy import contributed
from secvm.estimator.round_cover import simulated_origins
from secvm.learning.individual.binning import HashBinning, bin_features
from secvm.learning.individual.contribution import Individual
from secvm.learning.individual.dice import UnsafeSeededDice, sample_features
from tests.unit.estimator.people import texts
from tests.unit.estimator.relayed_packages import RelayedPath
from tests.unit.learning.helpers import rows_of

#: Little noise for few people: what is tried here is equality, not protection.
SMALL: dict[str, Any] = {"epsilon": 7.5, "delta": 0.01}
ASKED: dict[str, Any] = {**SMALL, "features_per_person": 6, "rounds": 2}


def test_an_estimator_with_privacy_is_a_deployment_with_cover() -> None:
    folk, y = texts(40)
    model = SecVMClassifier(n_bins=7, dice_seed=b"deployed", **ASKED).fit(folk, y)
    binning = model.binner_.binning_
    assert isinstance(binning, HashBinning)
    people = []
    for i, (words, label) in enumerate(zip(folk, y.tolist(), strict=True)):
        sample = sample_features(dict.fromkeys(words, 1), 6, UnsafeSeededDice(b"deployed", i))
        people.append(Individual(vector=bin_features(sample, binning, one_per_bin=True), label=label))
    origins = simulated_origins(model.experiment_, b"deployed")
    path = RelayedPath(model.experiment_, people, b"deployed", random.Random(2), origins)
    assert path.run(2).to_bytes() == model.state_.to_bytes()
    assert model.experiment_.cover == model.privacy_.cover
    assert model.n_iter_ == 2
    assert model.epsilon_spent_ == model.privacy_.epsilon <= 7.5
    assert model.privacy_.budget == 2 + 6 + 1
    assert model.history_ == [{"round": 1, "packages": 9}, {"round": 2, "packages": 9}]
    assert str(model.privacy_).startswith("ε = 7.5, δ = 0.01 over all 2 rounds")
    assert model.privacy_.label_epsilon > model.privacy_.epsilon


def test_rounds_and_thinning_that_are_not_given_follow_from_public_numbers() -> None:
    folk, y = texts(40)
    chosen = SecVMClassifier(n_bins=7, **SMALL, features_per_person=6, random_state=1).fit(folk, y)
    assert chosen.n_iter_ == chosen.privacy_.settings.rounds
    given = SecVMClassifier(n_bins=7, thinning=1.5, random_state=1, **ASKED).fit(folk, y)
    assert given.experiment_.thinning.rho == Fraction(3, 2)
    with pytest.raises(BadInputError, match="thinned"):
        SecVMClassifier(n_bins=7, thinning=None, **ASKED).fit(folk, y)


def test_private_models_are_saved_loaded_and_cloned(tmp_path: Path) -> None:
    folk, y = texts(40)
    model = SecVMClassifier(n_bins=7, random_state=3, **ASKED).fit(folk, y)
    again = clone(model).fit(folk, y)
    assert again.state_.to_bytes() == model.state_.to_bytes()
    assert model.set_params(epsilon=None).get_params()["epsilon"] is None
    file = tmp_path / "model.secvm"
    again.save(file)
    loaded = SecVMClassifier.load(file)
    assert loaded.values == "one-per-bin"
    np.testing.assert_array_equal(loaded.decision_function(folk), again.decision_function(folk))
    with pytest.raises(BadInputError, match="beyond the plan"):
        again.save(file, with_state=True)
    with pytest.raises(BadInputError, match="beyond the plan"):
        again.partial_fit(folk, y)


def test_a_number_as_the_label_needs_a_public_range() -> None:
    X, y = np.eye(6)[np.arange(30) % 6], np.arange(30) % 6.0
    with pytest.raises(BadInputError, match="label_range"):
        SecVMRegressor(**ASKED).fit(X, y)
    model = SecVMRegressor(label_range=(0.0, 4.0), random_state=1, **ASKED).fit(X, y)
    assert model.experiment_.cover is not None
    assert model.experiment_.cover.test is None
    assert model.experiment_.target_centre == 2
    assert model.experiment_.target_spread == 1


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"descent": "pegasos"}, "descent is decided"),
        ({"values": "presence"}, "values is decided"),
        ({"budget": 50}, "budget is decided"),
        ({"class_weight": "balanced"}, "balanced"),
        ({"stop": "plateau"}, "plateau"),
        ({"n_bins": None}, "vocabulary found among people"),
    ],
)
def test_what_would_look_beyond_the_promise_is_refused(given: dict[str, Any], match: str) -> None:
    folk, y = texts(20)
    parameters: dict[str, Any] = {"n_bins": 7, **ASKED, **given}
    model = SecVMClassifier(**parameters)
    with pytest.raises(BadInputError, match=match):
        model.fit(folk, y)


def test_a_delta_of_more_than_one_in_all_people_is_said() -> None:
    folk, y = texts(40)
    with pytest.warns(PrivacyWarning, match="delta = 0.1 is more than one in 40 people"):
        SecVMClassifier(n_bins=7, **ASKED | {"delta": 0.1}).fit(folk, y)


def test_an_epsilon_that_protects_nobody_is_said() -> None:
    folk, y = texts(40)
    with pytest.warns(PrivacyWarning, match="From ε = 8 on a guarantee is a number and no protection"):
        SecVMClassifier(n_bins=7, **ASKED | {"epsilon": 8}).fit(folk, y)


def test_repro_free_text_under_an_epsilon_taught_nothing_without_a_word() -> None:
    reviews = {"review": [f"what a good film is number {i}" for i in range(40)]}
    with pytest.warns(PrivacyWarning, match="column 'review' holds texts that hardly two people share"):
        SecVMClassifier(n_bins=7, **ASKED).fit(reviews, ["n", "s"] * 20)


def test_repro_what_people_sent_of_their_own_was_told_under_an_epsilon() -> None:
    folk, y = texts(40)
    told = []
    without_words: list[list[str]] = [[] for _ in folk]
    for people in (folk, without_words):
        model = SecVMClassifier(n_bins=7, random_state=0, **ASKED).fit(people, y)
        told.append((model.packages_per_person_, model.history_))
    assert told[0] == told[1] == (18, [{"round": 1, "packages": 9}, {"round": 2, "packages": 9}])


def test_a_plan_is_there_after_a_fit_with_epsilon_alone() -> None:
    folk, y = texts(20)
    model = SecVMClassifier(n_bins=7, **ASKED).fit(folk, y)
    assert str(model.privacy_).count("\n") == 4
    assert repr(model.privacy_) == "<PrivacyPlan: ε = 7.5, δ = 0.01, rounds: 2>"
    model.set_params(epsilon=None).fit(folk, y)
    assert not hasattr(model, "privacy_")
    with pytest.raises(AttributeError, match="without it there is no formal guarantee"):
        _ = model.privacy_


def test_bins_that_are_not_given_follow_from_columns_alone() -> None:
    assert public_bins([["tea"], ["sea"]]) == 1024
    assert public_bins(np.zeros((3, 5))) == 1280
    assert public_bins({"age": [1, 2], "city": ["x", "y"]}) == 1024
    assert public_bins(np.zeros((3, 99))) == 4096
    folk, y = texts(20)
    assert SecVMClassifier(random_state=0, **ASKED).fit(folk, y).experiment_.n_bins == 1024


def test_repro_people_with_differently_many_words_could_not_be_trained_on_under_an_epsilon() -> None:
    assert public_bins([["tea", "rain"], ["sea"], []]) == 1024
    model = SecVMClassifier(epsilon=7, delta=1e-2, rounds=1).fit([["tea", "rain"], ["sea"]] * 20, ["n", "s"] * 20)
    assert model.experiment_.n_bins == 1024


def test_numbers_under_an_epsilon_are_binned_by_public_edges() -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, 1500)
    X, y = np.column_stack([age, rng.normal(0, 1, 1500)]), np.where(age > 50, "old", "young")
    asked: dict[str, Any] = {"epsilon": 7, "delta": 1e-4, "random_state": 0}
    assert SecVMClassifier(**asked).fit(X, y).score(X, y) > 0.9
    edges = {"0": [30, 50, 70], "1": (-3, 3)}
    assert SecVMClassifier(edges=edges, **asked).fit(X, y).score(X, y) > 0.9


def test_privacy_goes_with_neither_weights_nor_partial_fit() -> None:
    folk, y = texts(20)
    with pytest.raises(BadInputError, match="weights"):
        SecVMClassifier(n_bins=7, **ASKED).fit(folk, y, sample_weight=np.ones(20))
    with pytest.raises(BadInputError, match="use fit"):
        SecVMClassifier(n_bins=7, **ASKED).partial_fit(folk, y)


@given(st.lists(st.sets(st.integers(0, 30)), min_size=1, max_size=6), st.integers(1, 9), st.binary(max_size=3))
def test_bins_are_drawn_as_features_are(rows: list[set[int]], most: int, seed: bytes) -> None:
    drawn = contributed(rows_of((dict.fromkeys(row, 3) for row in rows), 31), most, seed)
    assert (drawn.values == 1).all()
    for i, row in enumerate(rows):
        # Two digits, so that the order of names is the order of bins.
        named = {f"{b:02d}": 1 for b in row}
        expected = sample_features(named, most, UnsafeSeededDice(seed, i))
        assert drawn.bins[drawn.indptr[i] : drawn.indptr[i + 1]].tolist() == sorted(map(int, expected))
