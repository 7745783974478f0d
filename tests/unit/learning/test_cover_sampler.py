"""Cover is drawn exactly: every comparison is that of an exact rational with an exact uniform number."""

import ast
import inspect
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, pairwise, repeat
from math import factorial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.learning import cover_sampler
from secvm.learning.cover_sampler import below, power_digits

WORD = 1 << 64


def number(words: list[int]) -> Fraction:
    """The uniform number whose digits are these words, and zeros after them."""
    return sum((Fraction(word, WORD ** (i + 1)) for i, word in enumerate(words)), Fraction(0))


def then_zeros(words: list[int]) -> Iterator[int]:
    return chain(words, repeat(0))


# ── no float anywhere ────────────────────────────────────────────────────────────────────────────────────────────────


def inexact(source: str) -> list[str]:
    """What in a program's text makes or takes numbers that are not exact."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, float | complex):
            found.append(f"the constant {node.value}")
        elif isinstance(node, ast.Div) or (isinstance(node, ast.Name) and node.id in {"float", "round", "complex"}):
            found.append(ast.dump(node))
        elif isinstance(node, ast.Import):
            found += [f"import {name.name}" for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module in {"math", "cmath", "numpy", "random", "decimal"}:
            found += [f"import {name.name}" for name in node.names if name.name != "factorial"]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and isinstance(node.right, ast.UnaryOp):
            found.append("a negative power")
    return found


def test_the_sampler_has_no_float() -> None:
    assert inexact(Path(inspect.getfile(cover_sampler)).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line", ["x = 0.5", "x = a / b", "x = float(a)", "from math import log", "import numpy as np", "x = 2**-1"]
)
def test_a_float_in_the_sampler_would_be_seen(line: str) -> None:
    assert inexact(line)


# ── comparisons and draws, against their definitions ─────────────────────────────────────────────────────────────────


@given(st.integers(0, 50), st.integers(1, 50), st.lists(st.integers(0, WORD - 1), min_size=3, max_size=3))
def test_below_compares_a_uniform_number_with_a_rational(over: int, under: int, words: list[int]) -> None:
    assert below(over, under, then_zeros(words)) == (number(words) < Fraction(over, under))


@given(st.integers(1, 1000), st.integers(1, 10**6), st.integers(-1, 1), st.integers(0, WORD - 1))
def test_below_goes_on_where_the_first_digit_decides_nothing(over: int, under: int, off: int, second: int) -> None:
    share = Fraction(over, over + under)
    first = min(max((share.numerator << 64) // share.denominator + off, 0), WORD - 1)
    words = [first, second]
    assert below(share.numerator, share.denominator, then_zeros(words)) == (number(words) < share)


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 60),
    st.integers(-1, 1),
    st.lists(st.integers(0, WORD - 1), min_size=2, max_size=2),
)
def test_a_size_is_the_first_power_that_the_uniform_number_reaches(
    over: int, under: int, power: int, off: int, rest: list[int]
) -> None:
    """Also where the first word is exactly the first digit of a power."""
    p = Fraction(over, over + under)
    table = len(power_digits(p))
    power = 1 + power % table
    first = min(max((p.numerator**power << 64) // p.denominator**power + off, 0), WORD - 1)
    words = [first, *rest]
    uniform, size = number(words), 1
    while size <= table and uniform < p**size:
        size += 1
    if size <= table:
        assert cover_sampler.geometric(p, then_zeros(words)) == size
    else:
        # Beyond the table a fresh number decides: with U = 1 - 2^-64 it ends at once, unless p is above that.
        undecided = first == (p.numerator**table << 64) // p.denominator**table
        used = words if undecided else words[:1]
        assert cover_sampler.geometric(p, chain(used[: 1 + undecided], repeat(WORD - 1))) == table + 1


@given(st.integers(1, 2**14), st.integers(1, 64))
def test_the_table_holds_the_first_digits_of_all_powers_apart(over: int, under: int) -> None:
    p = Fraction(over, over + under)
    ascending = power_digits(p)
    assert all(a < b for a, b in pairwise(ascending))
    for i in (1, len(ascending) // 2 + 1, len(ascending)):
        assert ascending[-i] == (p.numerator**i << 64) // p.denominator**i
    assert p ** (len(ascending) + 1) < Fraction(1, 16)


def test_poisson_of_one_accepts_in_proportion_to_one_over_k_factorial() -> None:
    """The proposal's chance times the acceptance's is 1 / (4 k!) for every k."""
    for k in range(12):
        proposal = (1 << k) - 1
        digit = ((1 << k) << 64) // (2 * factorial(k))
        if digit < WORD:
            assert cover_sampler.poisson_of_one(then_zeros([proposal, digit - 1])) == k
            # Refused: the next proposal is 0, accepted by a word of 0.
            assert cover_sampler.poisson_of_one(then_zeros([proposal, min(digit + 1, WORD - 1)])) == 0
        else:
            assert cover_sampler.poisson_of_one(then_zeros([proposal])) == k


def test_a_run_of_ones_goes_on_in_the_next_word() -> None:
    words = then_zeros([WORD - 1, 0b0111])
    assert cover_sampler.poisson_of_one(words) == 67


def test_uniform_throws_the_incomplete_run_away() -> None:
    assert cover_sampler.uniform(3, iter([WORD - 1, 7])) == 1
    assert cover_sampler.uniform(1, iter([])) == 0
