"""The one arithmetic equals exact rationals, rounded half to even, wherever it does not refuse."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import ArithmeticRangeError, BadInputError
from secvm.learning import arithmetic
from secvm.learning.arithmetic import (
    MAX_MANTISSA,
    MAX_STATE,
    ceil_ratio,
    common_integers,
    divide_fixed,
    exact,
    mantissas,
    power_of_two,
    shift_right_half_even,
    sum_in_order,
    to_fixed,
)
from tests.unit.learning.helpers import half_even, ints

COUNTS = st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=6)
#: Short ones, and ones on both sides of the two limits where the arithmetic changes its method.
DENOMINATORS = st.one_of(
    st.integers(1, 1000),
    st.integers(2**30 - 3, 2**31 + 3),
    st.integers(2**61, 2**63),
    st.integers(2**62 - 3, 2**62 + 3),
    st.integers(2**80, 2**90),
)


@pytest.fixture(params=["compiled", "plain"], scope="module", autouse=True)
def _both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    """With numba and without: a device has none, and must get the same integers."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "plain":
            patch.setattr(arithmetic, "_quick", lambda: None)
        else:
            assert arithmetic._quick() is not None
        yield


# ── to_fixed ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(COUNTS, st.integers(0, 2**24), DENOMINATORS)
def test_to_fixed_is_the_exact_product_rounded_half_to_even(counts: list[int], p: int, q: int) -> None:
    scale = Fraction(p, q)
    expected = [half_even(n * scale * 2**32) for n in counts]
    if max(map(abs, expected)) >= MAX_STATE // 2:
        return  # near the edge of the range; the next tests look there
    assert to_fixed(ints(*counts), scale).tolist() == expected


@pytest.mark.parametrize("q", [2**33, 3 * 2**33, 2**61, 3 * 2**60, 2**62, 2**64, 10 * 2**70])
def test_to_fixed_rounds_ties_to_even_on_both_sides_of_zero(q: int) -> None:
    # n / q in units of 2^-32, so that n = k * q / 2^33 lies exactly between two integers for odd k.
    assert to_fixed(ints(*[k * (q // 2**33) for k in (-5, -3, -1, 1, 3, 5)]), Fraction(1, q)).tolist() == [
        *(-2, -2, 0),
        *(0, 2, 2),
    ]


def test_to_fixed_refuses_to_leave_the_state() -> None:
    assert to_fixed(ints(2**29 - 1), Fraction(1)).tolist() == [(2**29 - 1) * 2**32]
    for bad in (2**29, -(2**29), 2**62):
        with pytest.raises(ArithmeticRangeError):
            to_fixed(ints(0, bad), Fraction(1))
    with pytest.raises(ArithmeticRangeError):
        to_fixed(ints(1), Fraction(2**29 + 1))


def test_to_fixed_takes_numerators_beyond_64_bits() -> None:
    # Beside a model whose numerators need more than 64 bits, those of the others are kept the same way.
    for numbers, scale in (
        ([16666666666666667000, -3], Fraction(1, 23333333333333333000)),
        ([3, -1, 0], Fraction(1, 7)),
    ):
        fixed = to_fixed(np.array(numbers, dtype=object), scale)
        assert fixed.dtype == np.int64
        assert fixed.tolist() == [half_even(n * scale * 2**32) for n in numbers]


# ── divide_fixed, shift_right_half_even ──────────────────────────────────────────────────────────────────────────────


@given(
    st.lists(st.integers(-(2**52), 2**52), min_size=1, max_size=6),
    st.one_of(st.integers(1, 5000), st.integers(2**53, 2**62 - 1)),
    st.integers(1, 8),
)
def test_divide_fixed_is_the_exact_quotient_rounded_half_to_even(values: list[int], divisor: int, bits: int) -> None:
    expected = [half_even(Fraction(v * 2**bits, divisor)) for v in values]
    assert divide_fixed(ints(*values), divisor, extra_bits=bits).tolist() == expected


def test_divide_fixed_rounds_ties_to_even() -> None:
    assert divide_fixed(ints(-3, -1, 1, 3, 5), 4, extra_bits=1).tolist() == [-2, 0, 0, 2, 2]
    assert divide_fixed(ints(-3, -1, 1, 3, 5), 16, extra_bits=3).tolist() == [-2, 0, 0, 2, 2]
    # With a whole part in front: 3 + 1/4 and 5 + 3/4, doubled.
    assert divide_fixed(ints(13, 23, -13, -23), 4, extra_bits=1).tolist() == [6, 12, -6, -12]


def test_divide_fixed_refuses_to_leave_the_range() -> None:
    with pytest.raises(ArithmeticRangeError):
        divide_fixed(ints(2**60), 1, extra_bits=1)
    assert divide_fixed(ints(2**60), 2, extra_bits=1).tolist() == [2**60]


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=6), st.integers(0, 62))
def test_shift_right_is_the_exact_quotient_rounded_half_to_even(values: list[int], bits: int) -> None:
    assert shift_right_half_even(ints(*values), bits).tolist() == [half_even(Fraction(v, 2**bits)) for v in values]


# ── mantissas ────────────────────────────────────────────────────────────────────────────────────────────────────────


def largest_rounded(values: list[Fraction], e: int) -> int:
    return max(abs(half_even(v / power_of_two(e))) for v in values)


@given(st.lists(st.integers(-(2**61), 2**61), min_size=1, max_size=5))
def test_integer_mantissas_round_to_even_under_the_smallest_exponent_that_fits(values: list[int]) -> None:
    m, e = mantissas(ints(*values))
    assert m.dtype == np.int32
    assert m.tolist() == [half_even(v / power_of_two(e)) for v in map(Fraction, values)]
    assert e == 0 or largest_rounded([Fraction(v) for v in values], e - 1) > MAX_MANTISSA


@pytest.mark.parametrize(
    ("value", "mantissa", "exponent"),
    [
        (2**31 - 1, 2**31 - 1, 0),
        (2**31, 2**30, 1),
        (2**32 - 1, 2**30, 2),  # rounds up to 2^31 at exponent 1, which does not fit
        (2**32 - 3, 2**31 - 2, 1),  # a tie, to even
        (-(2**32) + 1, -(2**30), 2),
        (0, 0, 0),
        (-7, -7, 0),
    ],
)
def test_integer_mantissas_by_hand(value: int, mantissa: int, exponent: int) -> None:
    m, e = mantissas(ints(value))
    assert (m.tolist(), e) == ([mantissa], exponent)


@given(st.lists(st.floats(-1e30, 1e30, allow_subnormal=False), min_size=1, max_size=5))
def test_float_mantissas_round_to_even_under_the_smallest_exponent_that_fits(values: list[float]) -> None:
    rational = [Fraction(v) for v in values]
    if max(map(abs, rational)) < Fraction(1, 2**860):
        return
    m, e = mantissas(np.array(values))
    assert m.dtype == np.int32
    assert m.tolist() == [half_even(v / power_of_two(e)) for v in rational]
    assert largest_rounded(rational, e) <= MAX_MANTISSA
    assert largest_rounded(rational, e - 1) > MAX_MANTISSA


def test_float_mantissas_by_hand() -> None:
    m, e = mantissas(np.array([1.0, -0.5, 0.0]))
    assert (m.tolist(), e) == ([2**30, -(2**29), 0], -30)
    m, e = mantissas(np.array([float(2**32 - 1)]))  # reaches 2^31 at exponent 1
    assert (m.tolist(), e) == ([2**30], 2)
    assert mantissas(np.zeros(3))[1] == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300, 1e-300])
def test_weights_that_cannot_be_published_are_refused(bad: float) -> None:
    with pytest.raises(ArithmeticRangeError):
        mantissas(np.array([0.0, bad]))


# ── small things ─────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**20))
def test_ceil_ratio_is_the_smallest_integer_not_below(numerator: int, denominator: int) -> None:
    c = ceil_ratio(numerator, denominator)
    assert (c - 1) * denominator < numerator <= c * denominator


@given(st.lists(st.fractions(0, 100, max_denominator=1000), min_size=1, max_size=5))
def test_common_integers_keep_the_proportion_and_share_no_divisor(weights: list[Fraction]) -> None:
    integers = common_integers(weights)
    for i, w in zip(integers, weights, strict=True):
        for j, v in zip(integers, weights, strict=True):
            assert i * v == j * w
    assert np.gcd.reduce(integers) in (0, 1)


def test_sum_in_order_adds_from_left_to_right() -> None:
    # Pairwise summation would save some of the ones; from the left each is lost.
    values = np.array([2.0**53] + [1.0] * 100)
    assert sum_in_order(values) == 2.0**53
    assert sum_in_order(values[::-1].copy()) == 2.0**53 + 100
    assert sum_in_order(np.zeros(0)) == 0.0


@pytest.mark.parametrize(
    ("number", "meant"),
    [
        (0.1, Fraction(1, 10)),
        (np.float64(0.1), Fraction(1, 10)),
        (1e-7, Fraction(1, 10**7)),
        ("2/6", Fraction(1, 3)),
        ("0.25", Fraction(1, 4)),
        (3, Fraction(3)),
        (Fraction(5, 7), Fraction(5, 7)),
    ],
)
def test_a_number_is_the_rational_a_person_meant(number: Fraction | float | str, meant: Fraction) -> None:
    assert exact(number) == meant


@pytest.mark.parametrize("bad", ["", "abc", "1/0", "nan", float("inf"), float("nan"), "1e-999999999", "1 000", "/2"])
def test_what_is_not_a_number_is_refused_at_once(bad: float | str) -> None:
    with pytest.raises(BadInputError):
        exact(bad)
