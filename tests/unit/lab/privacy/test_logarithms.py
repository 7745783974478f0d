import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from secvm.errors import BadInputError
from secvm_lab.privacy.logarithms import (
    Side,
    check_size,
    ln_factorial,
    ln_load_range,
    outward,
)
from tests.unit.lab.privacy.oracle import ln, many_more_digits

TINY = Decimal("1e-40")


@given(st.integers(0, 3000))
@example(299)
@example(300)
def test_factorials_have_all_digits(n: int) -> None:
    with many_more_digits():
        assert abs(ln_factorial(n) - Decimal(math.factorial(n)).ln()) < Decimal("1e-57")


@given(st.integers(1, 60), st.integers(1, 12), st.integers(0, 61), st.integers(0, 61))
def test_loads_of_a_bin_lie_between_the_two_logarithms(m: int, n: int, fewest: int, most: int) -> None:
    truth = sum(
        (Fraction(math.comb(m, load) * (n - 1) ** (m - load), n**m) for load in range(fewest, min(most, m) + 1)),
        Fraction(0),
    )
    found = ln_load_range(m, n, fewest, most)
    if truth == 0:
        assert found is None
        return
    assert found is not None
    with many_more_digits():
        assert found[0] - TINY <= ln(truth) <= found[1] + TINY
        assert found[1] - found[0] < Decimal("1e-35")


def test_tails_far_below_floats_have_all_digits() -> None:
    # 60 of 10^6 in a bin where a thousand are expected: about 1e-340; every term as an exact integer.
    m, n, most = 10**6, 10**3, 60
    found = ln_load_range(m, n, 0, most)
    assert found is not None
    with many_more_digits():
        stay = Decimal(n - 1) / Decimal(n)
        truth = sum(
            (Decimal(math.comb(m, load)) * stay ** (m - load) / Decimal(n) ** load for load in range(most + 1)),
            Decimal(0),
        )
        assert truth < Decimal("1e-320")
        assert abs(found[1] - truth.ln()) < Decimal("1e-35")


def test_a_tail_of_too_many_terms_is_still_between_its_bounds() -> None:
    # Loads around 10^14, with a spread of 10^7: summed for a while, then bounded.
    found = ln_load_range(10**17, 10**3, 0, 10**14 - 3 * 10**7)
    assert found is not None
    normal = float(stats.norm.logcdf(-3.0015))
    assert float(found[0]) < normal < float(found[1])
    assert float(found[1]) - float(found[0]) < 3


@given(st.fractions(-1000, 1000), st.sampled_from(Side))
def test_rounding_outwards_gives_the_next_float_on_that_side(number: Fraction, side: Side) -> None:
    with many_more_digits():
        value = Decimal(number.numerator) / Decimal(number.denominator)
        found = outward(value, side)
        assert (Decimal(found) - value) * int(side) > 0
        assert abs(Decimal(found) - value) <= abs(value) * Decimal(2) ** -52 + Decimal("2e-30")


@pytest.mark.parametrize("number", [0, -1, 10**18 + 1, True, 2.0])
def test_sizes_that_make_no_sense_are_refused(number: int) -> None:
    with pytest.raises(BadInputError, match="the number of bins must"):
        check_size(number, "the number of bins")
