"""Dice, cohorts and the sample of features: what is drawn, from which words."""

import hashlib
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.learning._kernels import reference, vectorised
from secvm.learning.individual.dice import Purpose, UnsafeSeededDice, dice_key, dice_keys, draw_cohort, sample_features
from secvm.learning.package import Cohort


class LoadedDice:
    """Dice that show what the test wants, and remember what they were asked."""

    def __init__(self, words: list[int]) -> None:
        self._words = words
        self.asked: list[tuple[Purpose, int, int, int]] = []

    def words(self, purpose: Purpose, round_number: int, model: int, count: int) -> list[int]:
        self.asked.append((purpose, round_number, model, count))
        return self._words[:count]


# ── dice ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_word_does_not_depend_on_how_many_are_asked_for() -> None:
    dice = UnsafeSeededDice(b"seed", 3)
    many = dice.words(Purpose.THINNING, 5, 2, 50)
    assert dice.words(Purpose.THINNING, 5, 2, 7) == many[:7]
    assert dice.words(Purpose.THINNING, 5, 2, 50) == many
    assert dice.words(Purpose.THINNING, 5, 2, 0) == []


def test_every_argument_changes_the_words() -> None:
    def first(seed: bytes, participant: int, purpose: Purpose, round_number: int, model: int) -> int:
        return UnsafeSeededDice(seed, participant).words(purpose, round_number, model, 1)[0]

    base = first(b"s", 1, Purpose.COIN, 1, 1)
    others = [
        first(b"t", 1, Purpose.COIN, 1, 1),
        first(b"s", 2, Purpose.COIN, 1, 1),
        first(b"s", 1, Purpose.THINNING, 1, 1),
        first(b"s", 1, Purpose.COIN, 2, 1),
        first(b"s", 1, Purpose.COIN, 1, 2),
        UnsafeSeededDice(b"s", 1).words(Purpose.COIN, 1, 1, 2)[1],
    ]
    assert len({base, *others}) == 7
    assert first(b"s", 1, Purpose.COIN, 1, 1) == base


def test_no_two_purposes_share_a_key_even_when_seeds_end_in_their_names() -> None:
    keys = {dice_key(seed, 0, purpose) for seed in (b"", b"coin", b"x" * 40) for purpose in Purpose}
    assert len(keys) == 3 * len(Purpose)
    message = (7).to_bytes(8, "little") + (4).to_bytes(4, "little") + b"seed" + b"coin"
    expected = hashlib.blake2b(message, digest_size=16, person=b"secvm-v1-dice\0\0\0").digest()
    assert dice_key(b"seed", 7, Purpose.COIN) == expected


@given(
    st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=8),
    st.integers(0, 2**20 - 1),
    st.integers(0, 4095),
    st.integers(0, 2**32 - 1),
)
def test_words_of_many_people_equal_the_reference(people: list[int], round_number: int, model: int, i: int) -> None:
    keys = dice_keys(b"seed", np.array(people, dtype=np.int64), Purpose.COIN)
    words = vectorised.dice_words(keys, round_number, model, i)
    expected = [reference.dice_word(dice_key(b"seed", p, Purpose.COIN), round_number, model, i) for p in people]
    assert words.tolist() == expected


# ── cohort ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("word", "share", "cohort"),
    [
        (0, Fraction(7, 10), Cohort.TRAIN),
        (2**64 - 1, Fraction(7, 10), Cohort.TEST),
        (2**63, Fraction(1, 2), Cohort.TEST),  # the word of exactly one half is not below one half
        (2**63 - 1, Fraction(1, 2), Cohort.TRAIN),
        (2**64 - 1, Fraction(1), Cohort.TRAIN),
        (0, Fraction(0), Cohort.TEST),
    ],
)
def test_cohort_is_train_when_the_word_lies_below_the_share(word: int, share: Fraction, cohort: Cohort) -> None:
    dice = LoadedDice([word])
    assert draw_cohort(share, dice) is cohort
    assert dice.asked == [(Purpose.COHORT, 0, 0, 1)]


# ── the sample of features ───────────────────────────────────────────────────────────────────────────────────────────

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
FEATURES = st.dictionaries(NAMES, st.integers(-3, 3), max_size=12)


@given(FEATURES, st.integers(1, 14), st.randoms(use_true_random=False))
def test_sample_has_exactly_so_many_features_whatever_their_order(
    features: dict[str, int], limit: int, shuffler: random.Random
) -> None:
    there = {name: value for name, value in features.items() if value}
    sample = sample_features(features, limit, UnsafeSeededDice(b"s", 1))
    assert len(sample) == min(limit, len(there))
    assert sample.items() <= there.items()
    names = list(features)
    shuffler.shuffle(names)
    again = sample_features({n: features[n] for n in names}, limit, UnsafeSeededDice(b"s", 1))
    assert again == sample


def test_smallest_words_win_in_the_order_of_utf8_bytes() -> None:
    # U+FF61 sorts before U+10000 in UTF-8 and after it in UTF-16: the order is that of bytes.
    features = {"\U00010000": 1, "z": 1, "｡": 1, "a": 0}
    dice = LoadedDice([5, 9, 3])
    assert sample_features(features, 1, dice) == {"\U00010000": 1}
    assert sample_features(features, 2, dice) == {"z": 1, "\U00010000": 1}
    assert dice.asked[0] == (Purpose.FEATURES, 0, 0, 3)


def test_equal_words_are_decided_by_order() -> None:
    assert sample_features({"c": 1, "a": 1, "b": 1}, 2, LoadedDice([4, 4, 4])) == {"a": 1, "b": 1}


def test_few_features_or_no_limit_throw_no_dice() -> None:
    dice = LoadedDice([])
    assert sample_features({"a": 2, "b": 0}, 1, dice) == {"a": 2}
    assert sample_features({"a": 2, "b": 1}, None, dice) == {"a": 2, "b": 1}
    assert dice.asked == []


def test_limit_below_one_is_refused() -> None:
    with pytest.raises(BadInputError):
        sample_features({"a": 1}, 0, LoadedDice([1]))


def test_features_without_utf8_are_refused_without_showing_them() -> None:
    with pytest.raises(BadInputError) as refused:
        sample_features({"illness \udc80": 1, "b": 1}, 1, LoadedDice([1, 2]))
    assert "illness" not in str(refused.value)
