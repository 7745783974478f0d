"""Tallies add in any order and grouping, and refuse what the experiment does not have."""

from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.learning.aggregate.tally import Tally
from secvm.learning.package import (
    Cohort,
    NullPackage,
    Package,
    ParticipationPackage,
    Sign,
    TestPackage,
    TrainPackage,
)

EMPTY = Tally.empty(n_models=2, n_bins=3, n_labels=2)
PACKAGES = st.one_of(
    st.builds(
        TrainPackage,
        model=st.integers(0, 1),
        bin_index=st.integers(0, 3),
        sign=st.sampled_from(cast("list[Sign]", [-1, 1])),
    ),
    st.builds(TestPackage, true_class=st.integers(0, 1), predicted_class=st.integers(0, 1)),
    st.builds(ParticipationPackage, cohort=st.sampled_from(Cohort), class_index=st.integers(0, 1)),
    st.just(NullPackage()),
)
LISTS = st.lists(PACKAGES, max_size=15)


@given(LISTS, LISTS, LISTS)
def test_merge_is_associative_and_commutative_and_empty_is_its_zero(
    a: list[Package], b: list[Package], c: list[Package]
) -> None:
    x, y, z = EMPTY.count(a), EMPTY.count(b), EMPTY.count(c)
    assert x.merge(y) == y.merge(x)
    assert x.merge(y).merge(z) == x.merge(y.merge(z))
    assert x.merge(EMPTY) == x == EMPTY.merge(x)
    assert x.merge(y).merge(z) == EMPTY.count(a + b + c) == x.count(c + b)


def test_counts_by_hand() -> None:
    packages: list[Package] = [
        TrainPackage(model=1, bin_index=3, sign=1),
        TrainPackage(model=1, bin_index=3, sign=1),
        TrainPackage(model=1, bin_index=3, sign=-1),
        ParticipationPackage(cohort=Cohort.TRAIN, class_index=1),
        ParticipationPackage(cohort=Cohort.TEST, class_index=0),
        TestPackage(true_class=0, predicted_class=1),
        NullPackage(),
    ]
    tally = EMPTY.count(packages)
    assert tally.plus.tolist() == [[0, 0, 0, 0], [0, 0, 0, 2]]
    assert tally.minus.tolist() == [[0, 0, 0, 0], [0, 0, 0, 1]]
    assert tally.participants.tolist() == [0, 1]  # those who test are no part of the normaliser
    assert tally.cells.tolist() == [[0, 1], [0, 0]]


def test_counting_leaves_the_tally_it_started_from_alone() -> None:
    EMPTY.count([TrainPackage(model=0, bin_index=0, sign=1)])
    assert not EMPTY.plus.any()


@pytest.mark.parametrize(
    "bad",
    [
        TrainPackage(model=2, bin_index=0, sign=1),
        TrainPackage(model=-1, bin_index=0, sign=1),
        TrainPackage(model=0, bin_index=4, sign=1),
        TrainPackage(model=0, bin_index=-1, sign=1),
        TrainPackage(model=0, bin_index=0, sign=cast("Sign", 0)),
        TrainPackage(model=0, bin_index=0, sign=cast("Sign", 7)),
        ParticipationPackage(cohort=Cohort.TRAIN, class_index=2),
        ParticipationPackage(cohort=Cohort.TEST, class_index=-1),
        TestPackage(true_class=2, predicted_class=0),
        TestPackage(true_class=0, predicted_class=-1),
    ],
)
def test_bad_package_is_refused_and_changes_nothing(bad: Package) -> None:
    good = EMPTY.count([TrainPackage(model=0, bin_index=3, sign=1)])
    with pytest.raises(BadInputError):
        good.count([TrainPackage(model=0, bin_index=3, sign=1), bad])
    assert int(good.plus.sum()) == 1


def test_tallies_of_different_experiments_do_not_merge() -> None:
    for other in (
        Tally.empty(n_models=1, n_bins=3, n_labels=2),
        Tally.empty(n_models=2, n_bins=4, n_labels=2),
        Tally.empty(n_models=2, n_bins=3, n_labels=3),
    ):
        with pytest.raises(BadInputError):
            EMPTY.merge(other)


def test_tallies_that_differ_in_one_count_are_not_equal() -> None:
    for name in ("plus", "minus", "participants", "cells"):
        other = EMPTY.merge(EMPTY)
        np.asarray(getattr(other, name)).flat[0] = 1
        assert other != EMPTY
