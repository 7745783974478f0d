"""Shares of bins: held against all ranks one by one, and against people drawn with dice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm_lab.privacy.popularity import popularity
from tests.deep.statistical.bounds import standard_errors
from tests.seeds import FALSE_ALARM, seed_for

SIZES = st.integers(1, 20_000).flatmap(lambda bins: st.tuples(st.just(bins), st.integers(1, bins)))


@given(SIZES, st.floats(0, 1.5))
def test_all_bins_are_there_and_a_person_has_its_features(sizes: tuple[int, int], exponent: float) -> None:
    bins, features = sizes
    found = popularity(bins=bins, features=features, exponent=exponent)
    assert found.bins == bins
    assert found.features == pytest.approx(features, rel=1e-9)
    assert (found.shares > 0).all()
    assert (found.shares <= 1).all()
    assert (np.diff(found.shares) <= 1e-12).all()


def test_groups_stand_for_their_ranks() -> None:
    bins, features, exponent = 30_000, 300, 1.1
    found = popularity(bins=bins, features=features, exponent=exponent)
    weights = np.arange(1, bins + 1) ** -exponent
    low, high = 0.0, 1e9
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if -np.expm1(-middle * weights).sum() < features else (low, middle)
    shares = -np.expm1(-low * weights)
    assert np.repeat(found.shares, found.sizes.astype(int)) == pytest.approx(shares, rel=0.02)
    assert len(found.sizes) < 400


def test_people_drawn_without_putting_back_have_these_bins() -> None:
    """The form is off by .01. Fails by chance with probability at most 1e-6: Efron's bound, shared by 60 bins."""
    bins, features, exponent, people = 60, 15, 1.0, 20_000
    dice = np.random.default_rng(seed_for("popularity"))
    clocks = dice.exponential(size=(people, bins)) / np.arange(1, bins + 1) ** -exponent
    held = np.bincount(np.argsort(clocks, axis=1)[:, :features].ravel(), minlength=bins) / people
    found = popularity(bins=bins, features=features, exponent=exponent)
    shares = np.repeat(found.shares, found.sizes.astype(int))
    errors = standard_errors(FALSE_ALARM / bins)
    assert (np.abs(held - shares) < 0.01 + errors * np.sqrt(shares * (1 - shares) / people)).all()


@pytest.mark.parametrize(
    ("bins", "features", "exponent"), [(5, 6, 0.0), (5, 0, 1.0), (5, 2, -0.1), (5, 2, float("nan"))]
)
def test_what_cannot_be_is_refused(bins: int, features: int, exponent: float) -> None:
    with pytest.raises(BadInputError):
        popularity(bins=bins, features=features, exponent=exponent)
