"""The keystone under cover: offline tallies are those of everybody's packages, cover included, to the bit."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from secvm.errors import BadInputError
from secvm.estimator import Privacy, SecVMClassifier, SecVMRegressor
from secvm.estimator.privacy import contributed
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning._kernels.dispatch import Name
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.cover import COHORTS, Cover
from secvm.learning.cover_noise import CoverNoise
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import BinnedVector, HashBinning, bin_features
from secvm.learning.individual.contribution import Individual
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.individual.features import sample_features
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning
from tests.unit.estimator.packages import PackagePath
from tests.unit.estimator.people import texts

#: Little noise for few people: what is tried here is equality, not protection.
SMALL = Privacy(epsilon=8, delta=0.01, contribution=6, rounds=2, shape=15)


def cover_of(n_bins: int, n_models: int, n_labels: int, real_cap: int, cap: int) -> Cover:
    return Cover(
        train=CoverNoise(cells=2 * n_models * (n_bins + 1), share=Fraction(1, 5), odds=Fraction(7, 3), cap=cap),
        participation=CoverNoise(cells=COHORTS * n_labels, share=Fraction(1, 3), odds=Fraction(1, 2), cap=2),
        test=CoverNoise(cells=n_labels**2, share=Fraction(1, 9), odds=Fraction(1), cap=1),
        real_cap=real_cap,
    )


@settings(max_examples=25)
@given(st.data())
def test_offline_tallies_are_those_of_the_packages(data: st.DataObject) -> None:
    draw = data.draw
    n_bins, n_labels = draw(st.sampled_from([1, 4, 9])), draw(st.integers(2, 3))
    labels = tuple("abc"[:n_labels])
    rows = draw(st.lists(st.sets(st.integers(0, n_bins - 1)), min_size=n_labels + 2, max_size=8))
    codes = [i % n_labels for i in range(len(rows))]
    swift = draw(st.booleans())
    thinning = (
        Thinning(rho=Fraction(3, 2)) if swift else draw(st.sampled_from([Thinning(), Thinning(q=Fraction(1, 2))]))
    )
    experiment = Experiment(
        n_bins=n_bins,
        labels=labels,
        rule=Swift() if swift else Pegasos(lambda_=Fraction(1, 10)),
        thinning=thinning,
        features_per_person=n_bins,
        cover=cover_of(n_bins, 1 if n_labels == 2 else n_labels, n_labels, draw(st.sampled_from([1, 3, 40])), 25),
    )
    seed, rounds = draw(st.binary(max_size=3)), 3
    people = [
        Individual(vector=BinnedVector(values=dict.fromkeys(sorted(bins), 1), n_bins=n_bins), label=code)
        for bins, code in zip(rows, codes, strict=True)
    ]
    table = np.array(draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))) + [True] * len(rows))
    attendance = table.reshape(2, len(rows))
    path = PackagePath(experiment, people, seed, random.Random(1))
    expected = path.run(rounds, attendance)
    indptr = np.cumsum([0, *map(len, rows)])
    bins = np.array([b for row in rows for b in sorted(row)], dtype=np.int32)
    binned = BinnedRows(indptr=indptr, bins=bins, values=np.ones_like(bins), n_bins=n_bins)
    kernels: tuple[Name, ...] = ("fast", "reference")
    for kernel in kernels:
        training = OfflineTraining(experiment, seed=seed, threads=2, kernel=kernel)
        for _ in range(rounds):
            training.advance(
                Population(rows=binned, labels=np.array(codes, dtype=np.int64)),
                lambda number: attendance[(number - 1) % 2],
            )
        assert training.state.to_bytes() == expected.to_bytes()


def test_an_estimator_with_privacy_is_a_deployment_with_cover() -> None:
    folk, y = texts(40)
    model = SecVMClassifier(n_bins=7, privacy=SMALL, dice_seed=b"deployed").fit(folk, y)
    binning = model.binner_.binning_
    assert isinstance(binning, HashBinning)
    people = []
    for i, (words, label) in enumerate(zip(folk, y.tolist(), strict=True)):
        sample = sample_features(dict.fromkeys(words, 1), SMALL.contribution, UnsafeSeededDice(b"deployed", i))
        people.append(Individual(vector=bin_features(sample, binning, one_per_bin=True), label=label))
    path = PackagePath(model.experiment_, people, b"deployed", random.Random(2))
    assert path.run(2).to_bytes() == model.state_.to_bytes()
    assert model.experiment_.cover == model.privacy_.cover
    assert model.n_iter_ == 2
    assert model.privacy_.epsilon <= 8
    assert model.privacy_.budget == model.privacy_.plan.budget


def test_private_models_are_saved_loaded_and_cloned(tmp_path: Path) -> None:
    folk, y = texts(40)
    model = SecVMClassifier(n_bins=7, privacy=SMALL, random_state=3).fit(folk, y)
    again = clone(model).fit(folk, y)
    assert again.state_.to_bytes() == model.state_.to_bytes()
    assert model.set_params(privacy=None).get_params()["privacy"] is None
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
        SecVMRegressor(privacy=SMALL).fit(X, y)
    ranged = Privacy(epsilon=8, delta=0.01, contribution=6, rounds=2, shape=15, label_range=(0.0, 4.0))
    model = SecVMRegressor(privacy=ranged, random_state=1).fit(X, y)
    assert model.experiment_.target_centre == 2
    assert model.experiment_.target_spread == 1


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"rounds": 10}, "rounds is decided by privacy"),
        ({"descent": "swift"}, "descent is decided"),
        ({"values": "presence"}, "values is decided"),
        ({"features_per_person": 3}, "features_per_person is decided"),
        ({"budget": 50}, "budget is decided"),
        ({"class_weight": "balanced"}, "balanced"),
        ({"stop": "plateau"}, "plateau"),
        ({"n_bins": None}, "vocabulary found among people"),
        ({"privacy": Privacy(epsilon=-1)}, "epsilon must lie above 0"),
    ],
)
def test_what_would_look_beyond_the_promise_is_refused(given: dict[str, Any], match: str) -> None:
    folk, y = texts(20)
    parameters: dict[str, Any] = {"n_bins": 7, "privacy": SMALL, **given}
    model = SecVMClassifier(**parameters)
    with pytest.raises(BadInputError, match=match):
        model.fit(folk, y)


def test_privacy_goes_with_neither_weights_nor_partial_fit() -> None:
    folk, y = texts(20)
    with pytest.raises(BadInputError, match="weights"):
        SecVMClassifier(n_bins=7, privacy=SMALL).fit(folk, y, sample_weight=np.ones(20))
    with pytest.raises(BadInputError, match="use fit"):
        SecVMClassifier(n_bins=7, privacy=SMALL).partial_fit(folk, y)


@given(st.lists(st.sets(st.integers(0, 30)), min_size=1, max_size=6), st.integers(1, 9), st.binary(max_size=3))
def test_bins_are_drawn_as_features_are(rows: list[set[int]], most: int, seed: bytes) -> None:
    bins = np.array([b for row in rows for b in sorted(row)], dtype=np.int32)
    values = np.full(len(bins), 3, dtype=np.int32)
    binned = BinnedRows(indptr=np.cumsum([0, *map(len, rows)]), bins=bins, values=values, n_bins=31)
    drawn = contributed(binned, most, seed)
    assert (drawn.values == 1).all()
    for i, row in enumerate(rows):
        # Two digits, so that the order of names is the order of bins.
        named = {f"{b:02d}": 1 for b in row}
        expected = sample_features(named, most, UnsafeSeededDice(seed, i))
        assert drawn.bins[drawn.indptr[i] : drawn.indptr[i + 1]].tolist() == sorted(map(int, expected))
