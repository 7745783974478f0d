"""The quick twin of the cover's sampler gives the same packages, person by person, and knows when it does not know."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from secvm.learning._kernels.dispatch import kernels
from secvm.learning.cover_digits import CoverDigits, digits_of
from secvm.learning.cover_noise import CoverNoise
from secvm.learning.individual import cover
from secvm.learning.individual.cover import draw_cells
from secvm.learning.individual.dice import Purpose, UnsafeSeededDice, dice_keys

SEED = b"twin"
NOISE = CoverNoise(cells=14, share=Fraction(1, 8), odds=Fraction(9, 2), cap=30)


def sampled(noise: CoverNoise, person: int, round_number: int) -> NDArray[np.int64]:
    """What the sampler itself draws, counted."""
    cells = draw_cells(noise, Purpose.COVER, dice=UnsafeSeededDice(SEED, person), round_number=round_number)
    return np.bincount(cells, minlength=noise.cells).astype(np.int64)


def twin(
    digits: CoverDigits, people: list[int], round_number: int, *, threads: int = 1
) -> tuple[NDArray[np.int64], list[int]]:
    keys = dice_keys(SEED, np.array(people, dtype=np.int64), Purpose.COVER)
    counts, left_open = kernels("fast").cover_counts(digits, keys, round_number, threads=threads)
    return counts, left_open.tolist()


def noises() -> st.SearchStrategy[CoverNoise]:
    """Few cells and many, sizes of one and of hundreds, whole means and others, caps that cut and caps that do not."""
    odds = st.one_of(
        st.fractions(Fraction(1, 64), 40, max_denominator=64), st.sampled_from([Fraction(1), Fraction(700)])
    )
    share = st.one_of(
        st.sampled_from([Fraction(1), Fraction(2)]), st.fractions(Fraction(1, 500), 2, max_denominator=999)
    )

    def made(parts: tuple[int, Fraction, Fraction, int]) -> CoverNoise:
        cells, share, odds, cap = parts
        # At most some 400 packages: the sampler is slow, and is asked for each person.
        share = min(share, Fraction(400) / (cells * odds))
        return CoverNoise(cells=cells, share=share, odds=odds, cap=cap)

    return st.tuples(st.integers(1, 3000), share, odds, st.sampled_from([0, 1, 7, 100, 10_000])).map(made)


@settings(max_examples=60)
@given(noises(), st.integers(0, 2**20 - 1), st.integers(0, 2**32))
def test_the_twin_draws_what_the_sampler_draws(noise: CoverNoise, round_number: int, first: int) -> None:
    for person in (first, first + 1):
        counts, left_open = twin(digits_of(noise), [person], round_number)
        assert left_open == []
        np.testing.assert_array_equal(counts, sampled(noise, person, round_number))


def test_many_people_are_added_up_whatever_the_threads() -> None:
    people = list(range(5, 105))
    expected = sum((sampled(NOISE, person, 3) for person in people), np.zeros(NOISE.cells, np.int64))
    for threads in (1, 2, 5):
        counts, left_open = twin(digits_of(NOISE), people, 3, threads=threads)
        assert left_open == []
        np.testing.assert_array_equal(counts, expected)


def test_without_numba_everybody_is_left_to_the_sampler() -> None:
    keys = dice_keys(SEED, np.arange(4), Purpose.COVER)
    counts, left_open = kernels("reference").cover_counts(digits_of(NOISE), keys, 1)
    assert not counts.any()
    assert left_open.tolist() == [0, 1, 2, 3]


# ── ties ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Watched:
    """Records the first word of every comparison that the sampler makes, for one person."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.compared: list[tuple[int, int, int]] = []
        self.sizes: list[int] = []
        below, geometric = cover.below, cover._geometric

        def watched_below(numerator: int, denominator: int, words: Iterator[int]) -> bool:
            first: list[int] = []
            found = below(numerator, denominator, _told(words, first))
            self.compared += [(numerator, denominator, word) for word in first[:1]]
            return found

        def watched_geometric(p: Fraction, words: Iterator[int]) -> int:
            first: list[int] = []
            found = geometric(p, _told(words, first))
            self.sizes += first[:1]
            return found

        monkeypatch.setattr(cover, "below", watched_below)
        monkeypatch.setattr(cover, "_geometric", watched_geometric)


def _told(words: Iterator[int], seen: list[int]) -> Iterator[int]:
    for word in words:
        seen.append(word)
        yield word


def others_agree(digits: CoverDigits, tied: int, people: list[int]) -> None:
    """The tied person is handed back, and nothing of it is counted."""
    alone, left_open = twin(digits, [tied], 1)
    assert left_open == [0]
    assert not alone.any()
    assert tied in [people[i] for i in twin(digits, people, 1, threads=2)[1]]


@pytest.mark.parametrize("person", range(3))
def test_a_word_that_equals_a_digit_hands_the_person_back(person: int, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    sampled(NOISE, person, 1)
    digits, people = digits_of(NOISE), list(range(10))
    mean = NOISE.mean_packages
    stays = [w for n, d, w in watched.compared if Fraction(n, d) == mean / digits.units]
    # The first comparison of a proposal: of k = 0 with the chance 1/2.
    proposals = [w for n, d, w in watched.compared if (n, d) == (1, 2)]
    assert stays
    assert proposals
    assert watched.sizes
    others_agree(replace(digits, stay=stays[0]), person, people)
    others_agree(replace(digits, accept=(proposals[0], *digits.accept[1:])), person, people)
    powers: list[Any] = list(digits.powers)
    word = watched.sizes[0]
    powers[min(bisect_left(powers, word), len(powers) - 1)] = word
    others_agree(replace(digits, powers=tuple(powers)), person, people)


def test_digits_next_to_a_word_decide_and_do_not_hand_back(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    sampled(NOISE, 0, 1)
    digits = digits_of(NOISE)
    word = next(w for n, d, w in watched.compared if Fraction(n, d) == NOISE.mean_packages / digits.units)
    below, _ = twin(replace(digits, stay=word + 1), [0], 1)
    above, _ = twin(replace(digits, stay=word - 1), [0], 1)
    assert twin(replace(digits, stay=word + 1), [0], 1)[1] == []
    assert twin(replace(digits, stay=word - 1), [0], 1)[1] == []
    # One stays and the other does not, so that all words after it mean something else.
    assert not np.array_equal(below, above)
