"""Longer cases of ``tests/contract/estimator/test_keystone.py``."""

import random
from typing import Any

import numpy as np
import pytest

from secvm.estimator import SecVMClassifier
from secvm_lab.population import ZipfPeople
from tests.contract.estimator.test_keystone import Person, assert_packages_agree


@pytest.mark.parametrize(
    "rule",
    [
        {"descent": "swift", "thinning": 3.0},
        {"descent": "swift", "thinning": 3.0, "budget": 8, "features_per_person": 60},
        {"descent": "pegasos", "n_bins": 500, "n_hashes": 2},
        {"descent": "pegasos", "thinning": "q=1/10", "budget": 24, "class_weight": "balanced"},
    ],
    ids=["swift", "swift with budget and F", "pegasos hashed", "pegasos thinned with budget"],
)
def test_population_of_text_ends_in_the_bytes_of_the_packages(rule: dict[str, Any]) -> None:
    folk, y = text_like(600, 120)
    model = SecVMClassifier(rounds=3, dice_seed=b"real size", n_jobs=2, **rule)
    attendance = np.random.default_rng(3).random((3, len(folk))) < 0.8
    assert_packages_agree(model, folk, y, network=random.Random(5), attendance=attendance)


@pytest.mark.parametrize(
    "rule", [{"descent": "swift", "thinning": 3.0}, {"descent": "pegasos"}], ids=["swift", "pegasos"]
)
def test_people_of_real_size_end_in_the_bytes_of_the_packages(rule: dict[str, Any]) -> None:
    """A page of 1,260 different words each, in 10,000 bins: about a million packages with Pegasos."""
    words, labels = ZipfPeople(n_people=400, words_per_person=1_260).generate(12)
    folk: list[Person] = [{f"word{w}": 1 for w in row} for row in words.tolist()]
    model = SecVMClassifier(n_bins=10_000, salt="5ec7", rounds=2, dice_seed=b"real size", **rule)
    assert_packages_agree(model, folk, labels.tolist(), network=random.Random(6), attendance=None)


def text_like(n_people: int, words_per_person: int) -> tuple[list[Person], list[str]]:
    """People with words as text has them, each word up to three times."""
    words, labels = ZipfPeople(n_people=n_people, words_per_person=words_per_person, vocabulary=5_000).generate(11)
    folk = [{str(w): 1 + int(w) % 3 for w in row} for row in words]
    return folk, ["f" if label else "m" for label in labels]
