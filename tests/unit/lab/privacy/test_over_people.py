"""Means over people, held against all vectors there are."""

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm_lab.privacy.popularity import PerBin, Popularity, mean_over_people, popularity

Row = list[float]


def all_vectors(shares: Row, without: Row, having: Row, features: int, factor: float) -> float:
    """E Φ(√(factor D)) over every set of so many bins, each as likely as independent bins make it."""
    total = weight = 0.0
    for held in itertools.combinations(range(len(shares)), features):
        chance = math.prod(p if j in held else 1 - p for j, p in enumerate(shares))
        d = sum(having[j] if j in held else without[j] for j in range(len(shares)))
        total += chance * NormalDist().cdf(math.sqrt(factor * d))
        weight += chance
    return total / weight


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 0.3), st.floats(0, 0.05)), min_size=12, max_size=12), st.sampled_from([3, 5]))
def test_the_mean_over_people_is_that_over_all_vectors(scales: list[tuple[float, float]], features: int) -> None:
    bins = popularity(bins=12, features=features, exponent=0.7)
    having, without = [one for one, _ in scales], [other for _, other in scales]
    for factor in (0.5, 0.25):
        found = mean_over_people(bins, PerBin(np.array(without), np.array(having)), factor)
        assert found == pytest.approx(all_vectors(bins.shares.tolist(), without, having, features, factor), abs=3e-3)


def test_bins_that_everybody_has_are_left_out() -> None:
    bins = Popularity(np.array([3.0, 1000.0]), np.array([1.0, 0.1]))
    told = PerBin(np.zeros(2), np.array([0.0, 0.02]))
    assert mean_over_people(bins, told, 0.5) == pytest.approx(NormalDist().cdf(1.0), abs=1e-6)
    only = Popularity(np.array([3.0]), np.array([1.0]))
    assert mean_over_people(only, PerBin(np.zeros(1), np.zeros(1)), 0.5) == pytest.approx(0.5)


def test_who_is_plain_outright_is_found_whatever_the_rest_says() -> None:
    bins = Popularity(np.array([1000.0]), np.array([0.1]))
    # Each of 100 bins is silent with probability .99, and tells nothing else.
    silence = PerBin(np.zeros(1), np.array([-math.log(0.99)]))
    assert mean_over_people(bins, PerBin(np.zeros(1), np.zeros(1)), 0.5, silence) == pytest.approx(1 - 0.99**100 / 2)
