import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm_lab.privacy.logarithms import Side
from secvm_lab.privacy.probability import Bracket, ProbabilityBound, union
from tests.unit.lab.privacy.oracle import exp, holds, many_more_digits, off_by

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


@given(LOGARITHMS, LOGARITHMS, SIDES)
def test_a_product_is_rounded_to_its_side_by_less_than_a_float(one: float, other: float, side: Side) -> None:
    found = ProbabilityBound(one, side) * ProbabilityBound(other, side)
    assert close(found, Fraction(one) + Fraction(other))


@given(LOGARITHMS, st.integers(1, 10**9), SIDES)
def test_a_power_is_rounded_to_its_side(one: float, times: int, side: Side) -> None:
    assert close(ProbabilityBound(one, side) ** times, Fraction(one) * times)


@given(LOGARITHMS, LOGARITHMS)
@example(0.0, -801.0)
def test_a_union_is_the_sum_rounded_up(one: float, other: float) -> None:
    found = ProbabilityBound(one) | ProbabilityBound(other)
    with many_more_digits():
        if abs(one - other) > 800:  # the smaller one is below the last of four hundred digits
            larger = max(one, other)
            # The next float; beside zero, where floats are finer than seventy digits are, a little more.
            assert larger < found.ln <= max(math.nextafter(larger, math.inf), larger + 1e-59)
            return
        truth = (exp(one) + exp(other)).ln()
        # Near one the logarithm is the difference of much larger numbers.
        assert 0 <= off_by(found, truth) <= CLOSE * max(abs(found.ln), 1e-40)
    assert found == ProbabilityBound(other) | ProbabilityBound(one)


@given(LOGARITHMS, st.integers(1, 10**18))
def test_so_many_events_are_their_sum_rounded_up(one: float, count: int) -> None:
    found = ProbabilityBound(one).times(count)
    with many_more_digits():
        assert 0 <= off_by(found, Decimal(one) + Decimal(count).ln()) <= CLOSE * max(abs(found.ln), 1e-40)


@given(st.floats(-700.0, -1e-300), SIDES)
def test_a_complement_changes_sides_and_is_rounded_outwards(one: float, side: Side) -> None:
    found = ProbabilityBound(one, side).complement()
    assert found.side is side.other
    with many_more_digits():
        truth = (1 - exp(one)).ln()
        assert 0 <= off_by(found, truth) <= Decimal(CLOSE) * abs(truth) + Decimal("5e-324")


@given(LOGARITHMS)
def test_a_complement_is_never_certain_of_what_only_nearly_is(one: float) -> None:
    nearly = ProbabilityBound(one).complement()
    assert (nearly.ln == 0.0) == (one == -math.inf)
    assert nearly.complement() >= ProbabilityBound(one).capped()


@given(LOGARITHMS.filter(lambda one: one < 0), SIDES)
def test_decimal_logarithm_and_float_are_rounded_to_the_side(one: float, side: Side) -> None:
    bound = ProbabilityBound(one, side)
    with many_more_digits():
        assert (Decimal(bound.log10) * Decimal(10).ln() - Decimal(one)) * int(side) >= 0
        assert bound.log10 == pytest.approx(one / math.log(10), rel=1e-15, abs=5e-324)
        assert (Decimal(bound.to_float()) - exp(one)) * int(side) >= 0
    assert bound.to_float() == pytest.approx(math.exp(one), rel=1e-14, abs=5e-324)
    if side is Side.UPPER:
        assert bound.to_float() > 0


# Bounds whose logarithm itself overflows are refused.
LOGARITHMS = st.floats(max_value=1e300)


@given(LOGARITHMS, LOGARITHMS, SIDES)
def test_no_way_leads_to_nan(one: float, other: float, side: Side) -> None:
    made = []
    for number in (one, other):
        try:
            made.append(ProbabilityBound(number, side))
        except BadInputError:
            return
    first, second = made
    results = [first * second, first**3, first.complement(), first.capped()]
    if side is Side.UPPER:
        results += [first | second, first.times(7)]
    assert not any(math.isnan(result.ln) or math.isnan(result.log10) for result in results)


@pytest.mark.parametrize("number", [math.nan, math.inf, -0.1, 1.0000001, True, Fraction(3, 2)])
def test_what_is_no_probability_is_refused(number: float) -> None:
    with pytest.raises(BadInputError, match="between 0 and 1"):
        ProbabilityBound.of(number)


def test_what_makes_no_sense_is_refused_with_a_sentence() -> None:
    upper, lower = ProbabilityBound.of(0.5), ProbabilityBound.of(0.5, Side.LOWER)
    with pytest.raises(BadInputError, match="do not go together"):
        _ = upper * lower
    with pytest.raises(BadInputError, match="from above only"):
        _ = lower | lower
    with pytest.raises(BadInputError, match="from above only"):
        lower.times(2)
    with pytest.raises(BadInputError, match="whole number"):
        _ = upper**-1
    with pytest.raises(BadInputError, match="whole number"):
        upper.times(-1)
    with pytest.raises(BadInputError, match="no lower bound"):
        ProbabilityBound(0.1, Side.LOWER)
    with pytest.raises(BadInputError, match="bounds only"):
        _ = upper * 0.5  # type: ignore[operator]
    with pytest.raises(BadInputError, match="bracket"):
        Bracket(upper, lower)  # type: ignore[arg-type, unused-ignore]
    with pytest.raises(BadInputError, match="says nothing"):
        ProbabilityBound(1e5).to_float()


def test_a_bound_above_one_says_nothing_and_is_shown() -> None:
    bound = ProbabilityBound(math.log(64.22))
    assert bound.vacuous
    assert str(bound) == "64.2"
    assert bound.capped() == ProbabilityBound(0.0)
    assert bound.complement() == ProbabilityBound(-math.inf, Side.LOWER)
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


def test_a_union_of_none_never_happens_and_powers_of_nothing_always() -> None:
    assert union([]) == ProbabilityBound(-math.inf)
    assert union([ProbabilityBound(-3.0)]) == ProbabilityBound(-3.0)
    assert ProbabilityBound(-math.inf) ** 0 == ProbabilityBound(0.0)
    assert ProbabilityBound(-5.0).times(0) == ProbabilityBound(-math.inf)


def test_a_power_beyond_floats_stays_true() -> None:
    assert (ProbabilityBound(-1e300, Side.LOWER) ** 10**18).ln == -math.inf
    assert -math.inf < (ProbabilityBound(-1e300) ** 10**18).ln < -1e308
