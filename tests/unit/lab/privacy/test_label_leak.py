"""The law, its corrections, and the figures that are told of it."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.learning.thinning import Thinning
from secvm.privacy.leakage import auc_of, d_squared_of, exact_auc
from secvm_lab.privacy.label_leak import LabelGame, label_leak, total_variation_of
from secvm_lab.privacy.label_lemma import paper_leak
from secvm_lab.privacy.popularity import popularity

GAME = LabelGame(positive=3_000, negative=5_000, bins=1_000, features=50, rounds=1, zipf=1.0)

GAMES = st.builds(
    LabelGame,
    positive=st.integers(20, 20_000),
    negative=st.integers(20, 20_000),
    bins=st.integers(200, 5_000),
    features=st.integers(3, 100),
    rounds=st.integers(1, 10),
    thinning=st.sampled_from([Thinning(), Thinning(q=Fraction(1, 10)), Thinning(rho=Fraction(1))]),
    zipf=st.sampled_from([0.0, 0.8, 1.0, 1.2]),
)


@pytest.mark.parametrize(("d_squared", "expected"), [(0.0, 0.5), (2.0, 0.8413447), (1e9, 1.0), (math.inf, 1.0)])
def test_the_auc_is_the_normal_integral_of_d_over_root_two(d_squared: float, expected: float) -> None:
    assert auc_of(d_squared) == pytest.approx(expected, abs=1e-6)


@given(st.floats(0, 60))
def test_total_variation_is_what_the_best_threshold_gains(d_squared: float) -> None:
    half = math.sqrt(d_squared) / 2
    assert total_variation_of(d_squared) == pytest.approx(NormalDist().cdf(half) - NormalDist().cdf(-half), abs=1e-9)


@given(st.floats(0.5, 0.9999))
def test_the_d_of_an_auc_gives_that_auc(auc: float) -> None:
    assert auc_of(d_squared_of(auc)) == pytest.approx(auc, abs=1e-9)
    assert d_squared_of(0.55) == pytest.approx(0.0316, abs=5e-5)  # docs/privacy.md


@pytest.mark.parametrize("auc", [0.4, 1.0, math.nan])
def test_an_auc_that_cannot_be_planned_for_is_refused(auc: float) -> None:
    with pytest.raises(BadInputError):
        d_squared_of(auc)


# ── figures that are told ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_papers_own_numbers_give_the_label_away() -> None:
    found = paper_leak(participants=34_615, features=1_826, bins=95_880)
    assert found.auc == pytest.approx(0.88, abs=0.005)
    assert found.total_variation == pytest.approx(0.595, abs=0.001)
    assert found.d_prime == pytest.approx(math.sqrt(95_880 / 34_615), rel=1e-3)


def test_the_papers_worlds_do_not_depend_on_the_number_of_features() -> None:
    found = [paper_leak(participants=34_615, features=features, bins=95_880).auc for features in (1_000, 47_940, 10**6)]
    assert max(found) - min(found) < 1e-3


@pytest.mark.parametrize(
    ("people", "bins", "low", "high"),
    [pytest.param(3_000, 10_000, 0.99, 1.0, id="few"), pytest.param(100_000, 1_000, 0.5, 0.59, id="many")],
)
def test_few_people_hide_nothing_and_many_hide_something(people: int, bins: int, low: float, high: float) -> None:
    found = label_leak(
        LabelGame(positive=people // 2, negative=people // 2, bins=bins, features=100, rounds=1, zipf=1.0)
    )
    assert low <= found.auc <= high


# ── the law, and where it ends ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("zipf", [0.0, 0.8, 1.0, 1.2])
@pytest.mark.parametrize("features", [10, 100, 500])
def test_with_full_cells_every_bin_adds_the_same_however_popular(zipf: float, features: int) -> None:
    game = LabelGame(positive=10**7, negative=4 * 10**7, bins=1_000, features=features, rounds=1, zipf=zipf)
    found = label_leak(game)
    # Bins that everybody has are told by nobody: at most a few dozen of the thousand.
    assert found.d_squared == pytest.approx(found.law_d_squared, rel=0.05)


def test_people_who_differ_are_found_less_often_on_average() -> None:
    alike, skewed = (replace(GAME, positive=10**4, negative=10**4, features=3, zipf=zipf) for zipf in (0.0, 1.2))
    assert label_leak(skewed).auc < label_leak(alike).auc - 0.02


def test_the_law_promises_too_much_where_cells_are_small() -> None:
    game = LabelGame(
        positive=50, negative=50, bins=1_000, features=10, rounds=1, zipf=1.0, thinning=Thinning(q=Fraction(1, 10))
    )
    found = label_leak(game)
    assert found.law_auc > 0.92
    assert found.auc < 0.81
    # With probability .9^10 nothing at all is sent.
    assert found.total_variation < 1 - 0.9**10


def test_a_large_crowd_of_the_other_label_leaves_the_papers_two_worlds() -> None:
    both = LabelGame(positive=346, negative=10**9, bins=958, features=18, rounds=1)
    assert label_leak(both).auc == pytest.approx(paper_leak(participants=346, features=18, bins=958).auc, abs=1e-4)


@settings(max_examples=30, deadline=None)
@given(GAMES)
def test_labels_change_places_without_changing_anything(game: LabelGame) -> None:
    assert game.negative is not None
    turned = label_leak(replace(game, positive=game.negative, negative=game.positive))
    assert turned.auc == pytest.approx(label_leak(game).auc, abs=1e-9)


def test_the_same_people_again_tell_no_more_than_everything_once() -> None:
    once = label_leak(GAME)
    thinned = replace(GAME, thinning=Thinning(q=Fraction(1, 4)), same_people=True)
    found = [label_leak(replace(thinned, rounds=rounds)).d_squared for rounds in (1, 4, 16, 10**6)]
    assert all(less < more for less, more in pairwise(found))
    assert found[0] == pytest.approx(label_leak(replace(thinned, same_people=False)).d_squared)
    assert found[-1] == pytest.approx(once.d_squared, rel=0.02)
    # T q / (1 + (T - 1) q) of everything once, for rare bins.
    assert found[1] / once.d_squared == pytest.approx(4 / 4 / (1 + 3 / 4), rel=0.1)


def test_cover_that_drowns_the_background_decides_alone() -> None:
    noisy = label_leak(replace(GAME, cover_variance=1e6, rounds=7))
    # Two signs, F bins each shifted by about one, and the mean that is subtracted.
    squares = 2 * 7 * sum(p * (1 - p) for p in _shares()) / 1e6
    assert noisy.d_squared == pytest.approx(squares, rel=0.01)


def _shares() -> list[float]:
    found = popularity(bins=GAME.bins, features=GAME.features, exponent=GAME.zipf)
    return [share for share, size in zip(found.shares, found.sizes, strict=True) for _ in range(int(size))]


@pytest.mark.parametrize(
    "wrong",
    [
        {"positive": 0},
        {"negative": 0},
        {"rounds": 0},
        {"features": 0},
        {"features": 1_001},
        {"cover_variance": -1.0},
        {"cover_variance": math.nan},
    ],
)
def test_a_game_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BadInputError):
        replace(GAME, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"participants": 0}, {"features": 0}, {"bins": 1}, {"rounds": 0}])
def test_two_worlds_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BadInputError):
        paper_leak(**{"participants": 10, "features": 2, "bins": 20, "rounds": 1, **wrong})


@pytest.mark.parametrize("q", [Fraction(1), Fraction(1, 10)])
@pytest.mark.parametrize(("positive", "negative", "bins", "features"), [(3_000, 5_000, 1_000, 50), (9, 40, 200, 3)])
def test_the_exact_auc_of_statements_is_that_of_a_game_whose_bins_are_alike(
    positive: int, negative: int, bins: int, features: int, q: Fraction
) -> None:
    size: dict[str, Any] = {"positive": positive, "negative": negative, "bins": bins, "features": features, "rounds": 3}
    game = LabelGame(**size, thinning=Thinning(q=q))
    assert exact_auc(**size, q=float(q)) == pytest.approx(label_leak(game).auc, rel=1e-12)
