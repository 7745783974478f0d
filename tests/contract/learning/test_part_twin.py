"""The quick twin of the sampler names the same cells in the same order for a part of a relay's cover, also on ties."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import count
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.crypto.sealing.part_streams import PartStream
from secvm.learning import cover_sampler
from secvm.learning._kernels import part_covering, reference
from secvm.learning._kernels.dispatch import kernels
from secvm.learning._kernels.reference import Clusters, TakeBytes
from secvm.learning.cover_sampler import CellLaw, draw_clusters, power_digits

ANY = 2**62
WORD = 2**64


def stream(number: int) -> TakeBytes:
    return PartStream(number.to_bytes(32, "little"), "train").take


def from_words(words: list[int], number: int = 0) -> TakeBytes:
    """These words, and a stream after them."""
    rest, first = PartStream(number.to_bytes(32, "little"), "test"), [b"".join(w.to_bytes(8, "little") for w in words)]

    def take(size: int) -> bytes:
        found = first.pop() if first else b""
        assert len(found) <= size
        return found + rest.take(size - len(found))

    return take


def pairs(found: Clusters | None) -> list[tuple[int, int]] | None:
    return None if found is None else list(zip(found[0].tolist(), found[1].tolist(), strict=True))


def laws(most: int = 400) -> st.SearchStrategy[CellLaw]:
    """One cell and many, sizes of one and of hundreds, whole means and others."""
    odds = st.one_of(
        st.fractions(Fraction(1, 64), 40, max_denominator=64), st.sampled_from([Fraction(1), Fraction(700)])
    )
    shape = st.one_of(
        st.sampled_from([Fraction(1), Fraction(15, 8)]), st.fractions(Fraction(1, 500), 2, max_denominator=999)
    )

    def made(parts: tuple[int, Fraction, Fraction]) -> CellLaw:
        cells, shape, odds = parts
        return CellLaw(cells=cells, shape=min(shape, Fraction(most) / (cells * odds)), odds=odds)

    return st.tuples(st.integers(1, 3000), shape, odds).map(made)


@settings(max_examples=80, deadline=None)
@given(laws(), st.integers(0, 2**32))
def test_the_twin_draws_what_the_sampler_draws(law: CellLaw, number: int) -> None:
    sampled = list(draw_clusters(law, reference.PartWords(stream(number))))
    assert pairs(kernels("reference").cover_clusters(law, stream(number), ANY)) == sampled
    assert pairs(kernels("fast").cover_clusters(law, stream(number), ANY)) == sampled


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
def test_blocks_of_any_length_give_the_same(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    law = CellLaw(cells=37, shape=Fraction(3, 7), odds=Fraction(9, 2))
    whole = pairs(kernels("fast").cover_clusters(law, stream(5), ANY))
    monkeypatch.setattr(reference, "_BLOCK", block)
    for name in ("fast", "reference"):
        assert pairs(kernels(name).cover_clusters(law, stream(5), ANY)) == whole


@settings(max_examples=30, deadline=None)
@given(laws(), st.integers(0, 2**32))
def test_one_package_too_many_is_an_overflow_to_both(law: CellLaw, number: int) -> None:
    total = sum(size for _, size in draw_clusters(law, reference.PartWords(stream(number))))
    for name in ("fast", "reference"):
        draw = kernels(name).cover_clusters
        assert draw(law, stream(number), total) is not None
        assert total == 0 or draw(law, stream(number), total - 1) is None


# ── ties: words that equal a digit ───────────────────────────────────────────────────────────────────────────────────


def digit(numerator: int, denominator: int) -> int:
    return (numerator << 64) // denominator


#: Three units of which 3/4 · 3 stay; sizes with p = 3/4.
LAW = CellLaw(cells=5, shape=Fraction(3, 20), odds=Fraction(3))
#: A proposal of one point is accepted without a further word.
ONE_POINT = 0b01


def tied() -> Iterator[tuple[str, list[int]]]:
    """Words that reach every comparison of the draw with the very digit that it is compared with."""
    for k in (0, 3, 4, 9):
        for after in (0, 1, WORD - 1):
            yield f"poisson {k} {after}", [(1 << k) - 1, digit(1 << k, 2 * factorial(k)), after]
    yield "a word of ones", [WORD - 1, 0b0111, 0]
    points = [ONE_POINT] * 3
    for after in (0, 1, WORD - 1):
        yield f"staying {after}", [*points, digit(3, 4), after, 0, 0]
    stay = [*points, 0, 0, 0]
    p = LAW.p
    for i in range(1, len(power_digits(p)) + 1):
        for after in (0, WORD - 1):
            yield f"size {i} {after}", [*stay, digit(p.numerator**i, p.denominator**i), after]
    # Three of 2^64 values of a word are thrown away for five cells' sake … and one for three sizes'.
    yield "cells", [*stay, WORD - 1, WORD - 1, WORD - 2]
    yield "sizes", [*stay, digit(9, 16) + 1, WORD - 1, WORD - 1]


@pytest.mark.parametrize(("name", "words"), list(tied()))
def test_a_word_that_equals_a_digit_is_left_to_the_sampler(
    name: str, words: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = count()
    open_step = part_covering._open_step
    monkeypatch.setattr(part_covering, "_open_step", lambda *given: (next(asked), open_step(*given))[1])
    for block in (len(words), 4096):
        monkeypatch.setattr(reference, "_BLOCK", block)
        plain = pairs(kernels("reference").cover_clusters(LAW, from_words(words), ANY))
        assert pairs(kernels("fast").cover_clusters(LAW, from_words(words), ANY)) == plain
    assert next(asked) == (0 if name in ("cells", "sizes") else 2)


def test_a_twin_that_took_ties_for_less_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words above can tell: at least one of them comes out otherwise if equal counts as below."""

    def careless(numerator: int, denominator: int, words: Iterator[int]) -> bool:
        return True if numerator >= denominator else next(words) <= digit(numerator, denominator)

    right = [pairs(reference.cover_clusters(LAW, from_words(words), ANY)) for _, words in tied()]
    monkeypatch.setattr(cover_sampler, "below", careless)
    assert right != [pairs(reference.cover_clusters(LAW, from_words(words), ANY)) for _, words in tied()]


def test_a_large_part_is_the_same_in_both() -> None:
    """Some 40,000 packages: many blocks, and as many draws as a relay makes for 1,000 bins."""
    law = CellLaw(cells=2002, shape=Fraction(15, 8), odds=Fraction(21, 2))
    quick, plain = (kernels(name).cover_clusters(law, stream(9), ANY) for name in ("fast", "reference"))
    assert quick is not None
    assert plain is not None
    np.testing.assert_array_equal(quick, plain)
