"""Plans: what they allow keeps to the AUC, and a little more does not."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.learning.thinning import Thinning
from secvm.privacy.leakage import d_squared_of
from secvm_lab.privacy.label_leak import (
    LabelGame,
    fewest_participants,
    label_leak,
    most_bins,
    most_rounds,
    plan,
    split_by_label,
)

GAME = LabelGame(positive=200_000, negative=800_000, bins=1_000, features=50, rounds=1, zipf=1.0)
UNIFORM = replace(GAME, zipf=0.0)


def test_the_rule_of_thumb_is_what_the_plan_says_with_full_cells() -> None:
    limit = d_squared_of(0.55)
    over_people = 1 / UNIFORM.positive + 1 / 800_000
    assert most_rounds(UNIFORM) == int(limit / (UNIFORM.bins * over_people))
    assert most_bins(UNIFORM) == pytest.approx(limit / over_people, rel=0.01)
    assert fewest_participants(UNIFORM) == pytest.approx(UNIFORM.bins * (1 / 0.2 + 1 / 0.8) / limit, rel=0.01)


@settings(max_examples=4, deadline=None)
@given(
    st.builds(
        LabelGame,
        positive=st.integers(1_000, 100_000),
        negative=st.integers(1_000, 100_000),
        bins=st.integers(100, 2_000),
        features=st.integers(5, 50),
        rounds=st.integers(1, 10),
        zipf=st.sampled_from([0.0, 1.1]),
    ),
    st.sampled_from([0.55, 0.7, 0.9]),
)
def test_what_is_allowed_keeps_to_the_auc_and_a_little_more_does_not(game: LabelGame, auc: float) -> None:
    found = plan(game, wanted_auc=auc)

    def leaks(**changed: object) -> float:
        return label_leak(replace(game, **changed)).auc  # type: ignore[arg-type]

    assert found.leak == label_leak(game)
    assert found.most_rounds == 0 or leaks(rounds=found.most_rounds) <= auc
    assert leaks(rounds=found.most_rounds + 1 + found.most_rounds // 500) > auc
    if found.most_bins:
        assert leaks(bins=found.most_bins) <= auc
        assert leaks(bins=found.most_bins + 1 + found.most_bins // 500) > auc
    if found.most_q is not None:
        assert leaks(thinning=Thinning(q=found.most_q)) <= auc
        assert (
            found.most_q == 1 or leaks(thinning=Thinning(q=min(Fraction(1), found.most_q * Fraction(101, 100)))) > auc
        )
    assert found.fewest_participants is not None
    assert game.negative is not None
    share = game.positive / (game.positive + game.negative)
    positive, negative = split_by_label(found.fewest_participants + found.fewest_participants // 500 + 1, share)
    assert leaks(positive=positive, negative=negative) <= auc
    positive, negative = split_by_label(max(2, found.fewest_participants * 99 // 100 - 2), share)
    assert found.fewest_participants < 50 or leaks(positive=positive, negative=negative) > auc


def test_no_round_at_all_may_be_the_answer() -> None:
    small = replace(GAME, positive=100, negative=100)
    assert most_rounds(small) == 0
    assert most_bins(small) == 0
    assert plan(small).most_rounds == 0


def test_a_plan_needs_both_labels_and_an_auc() -> None:
    with pytest.raises(BadInputError):
        plan(replace(GAME, negative=None))
    with pytest.raises(BadInputError):
        plan(GAME, wanted_auc=1.0)


@pytest.mark.parametrize(
    ("participants", "share", "expected"), [(10, 0.1, (1, 9)), (3, 0.01, (1, 2)), (3, 0.99, (2, 1))]
)
def test_each_label_has_somebody(participants: int, share: float, expected: tuple[int, int]) -> None:
    assert split_by_label(participants, share) == expected


@pytest.mark.parametrize(("participants", "share"), [(1, 0.5), (10, 0.0), (10, 1.0)])
def test_a_label_that_nobody_has_is_refused(participants: int, share: float) -> None:
    with pytest.raises(BadInputError):
        split_by_label(participants, share)
