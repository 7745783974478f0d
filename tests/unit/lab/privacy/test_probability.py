import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm_lab.privacy.logarithms import Side
from secvm_lab.privacy.probability import Bracket, ProbabilityBound
from tests.unit.lab.privacy.oracle import holds, many_more_digits

SIDES = st.sampled_from(Side)
#: Logarithms of all sizes, also such as no float could hold the probability of.
LOGARITHMS = st.floats(-1e6, 0.0, allow_subnormal=True) | st.floats(-1e-12, 0.0) | st.sampled_from([-399_310.5, -1e9])
FLOATS = st.floats(0.0, 1.0, allow_subnormal=True)
FRACTIONS = st.fractions(0, 1, max_denominator=10**25)
#: A few units in the last place of a float, relative to it.
CLOSE = 2.0**-50


def close(bound: ProbabilityBound, true_ln: Fraction) -> bool:
    """True, and not further out than the next float or two."""
    off = (Fraction(bound.ln) - true_ln) * int(bound.side)
    return 0 <= off <= Fraction(CLOSE) * abs(true_ln) + Fraction(5e-324)


@given(FLOATS | FRACTIONS, SIDES)
def test_a_probability_stays_on_its_side(probability: float | Fraction, side: Side) -> None:
    assert holds(ProbabilityBound.of(probability, side), Fraction(probability))


@given(FLOATS, FLOATS)
def test_order_is_the_order_of_probabilities(one: float, other: float) -> None:
    if one < other:
        assert ProbabilityBound.of(one) <= ProbabilityBound.of(other)
    assert ProbabilityBound.of(one, Side.LOWER) <= ProbabilityBound.of(one)


def test_order_tells_apart_what_floats_take_for_zero() -> None:
    assert ProbabilityBound(-math.inf) < ProbabilityBound(-1e6) < ProbabilityBound(-983.0) < ProbabilityBound.of(5e-324)


@given(LOGARITHMS, st.integers(1, 10**9), SIDES)
def test_a_power_is_rounded_to_its_side(one: float, times: int, side: Side) -> None:
    assert close(ProbabilityBound(one, side) ** times, Fraction(one) * times)


@given(LOGARITHMS.filter(lambda one: one < 0), SIDES)
def test_the_decimal_logarithm_is_rounded_to_the_side(one: float, side: Side) -> None:
    bound = ProbabilityBound(one, side)
    with many_more_digits():
        assert (Decimal(bound.log10) * Decimal(10).ln() - Decimal(one)) * int(side) >= 0
        assert bound.log10 == pytest.approx(one / math.log(10), rel=1e-15, abs=5e-324)


# Bounds whose logarithm itself overflows are refused.
LOGARITHMS = st.floats(max_value=1e300)


@given(LOGARITHMS, SIDES)
def test_no_way_leads_to_nan(one: float, side: Side) -> None:
    try:
        made = ProbabilityBound(one, side)
    except BadInputError:
        return
    assert not any(math.isnan(result.ln) or math.isnan(result.log10) for result in (made**3, made.capped()))


@pytest.mark.parametrize("number", [math.nan, math.inf, -0.1, 1.0000001, True, Fraction(3, 2)])
def test_what_is_no_probability_is_refused(number: float) -> None:
    with pytest.raises(BadInputError, match="between 0 and 1"):
        ProbabilityBound.of(number)


def test_what_makes_no_sense_is_refused_with_a_sentence() -> None:
    upper, lower = ProbabilityBound.of(0.5), ProbabilityBound.of(0.5, Side.LOWER)
    with pytest.raises(BadInputError, match="no lower bound"):
        ProbabilityBound(0.1, Side.LOWER)
    with pytest.raises(BadInputError, match="bracket"):
        Bracket(upper, lower)  # type: ignore[arg-type, unused-ignore]


def test_a_bound_above_one_says_nothing_and_is_shown() -> None:
    bound = ProbabilityBound(math.log(64.22))
    assert bound.vacuous
    assert str(bound) == "64.2"
    assert bound.capped() == ProbabilityBound(0.0)
    assert not ProbabilityBound.of(0.99).vacuous
    assert ProbabilityBound.of(0, Side.LOWER).vacuous


@pytest.mark.parametrize(
    ("ln", "text"),
    [
        (-426.31505034590947 * math.log(10), "4.84e-427"),
        (-math.inf, "0"),
        (0.0, "1"),
        (math.log(0.0522), "0.0522"),
        (math.log(9.999e-9), "1.00e-08"),
        (-173414.99859564973 * math.log(10), "1.00e-173415"),
        (14.5, "1.98e+06"),
    ],
)
def test_text_is_read_as_a_number(ln: float, text: str) -> None:
    assert str(ProbabilityBound(ln)) == text


def test_a_power_beyond_floats_stays_true() -> None:
    assert (ProbabilityBound(-1e300, Side.LOWER) ** 10**18).ln == -math.inf
    assert -math.inf < (ProbabilityBound(-1e300) ** 10**18).ln < -1e308
