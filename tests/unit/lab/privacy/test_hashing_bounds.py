import itertools
import math
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm_lab.privacy import hashing_bounds
from secvm_lab.privacy.hashing_bounds import (
    count_p3,
    one_minus_p3,
    p1,
    p2,
    printed_one_minus_p3,
    printed_p1,
    printed_p2,
)
from secvm_lab.privacy.probability import Bracket, ProbabilityBound
from tests.unit.lab.privacy.oracle import holds

#: The paper's Twitter experiment.
M, N = 95_880_008, 95_880
SMALL = [(m, n) for m in range(1, 7) for n in range(1, 5)]


def encloses(bracket: Bracket, truth: Fraction) -> bool:
    return holds(bracket.low, truth) and holds(bracket.high, truth)


def width(bracket: Bracket) -> float:
    return 0.0 if bracket.low.ln == bracket.high.ln else bracket.high.ln - bracket.low.ln


def four_digits(bound: ProbabilityBound) -> str:
    return bound.text(4)


def placements(m: int, n: int) -> list[list[int]]:
    """For every placement, how many features are in each feature's bin."""
    return [[Counter(place)[bin_] for bin_ in place] for place in itertools.product(range(n), repeat=m)]


@pytest.mark.parametrize(("m", "n"), SMALL)
def test_every_placement_counted_gives_the_same(m: int, n: int) -> None:
    loads = placements(m, n)
    for k in range(m + 1):
        alone = Fraction(sum(1 in place[:k] for place in loads), n**m)
        assert encloses(p2(m, n, k), alone)
        assert width(p2(m, n, k)) < 1e-14
        assert holds(printed_p2(m, n, k), alone)
        if k == m:
            assert encloses(p1(m, n), alone)
            assert holds(printed_p1(m, n), alone)
    for k in range(1, m + 2):
        few = Fraction(sum(min(place) < k for place in loads), n**m)
        assert encloses(one_minus_p3(m, n, k), few)
        assert width(one_minus_p3(m, n, k)) < 1e-14
        assert count_p3(m, n, k) == 1 - few
        assert holds(printed_one_minus_p3(m, n, k), few)


@given(st.integers(1, 40), st.integers(1, 20), st.integers(1, 41))
def test_bounds_on_loads_enclose_what_is_counted(m: int, n: int, k: int) -> None:
    truth = 1 - count_p3(m, n, k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing_bounds, "COUNT_UP_TO", 0)
        found = one_minus_p3(m, n, k)
    assert encloses(found, truth)
    assert holds(printed_one_minus_p3(m, n, k), truth)


@settings(max_examples=40)
@given(st.integers(2, 60), st.integers(1, 40))
def test_features_alone_are_the_loads_of_one(m: int, n: int) -> None:
    # Two ways to count the same: inclusion and exclusion, and placements without a load of one.
    assert encloses(p1(m, n), 1 - count_p3(m, n, 2))
    assert one_minus_p3(m, n, 2) == p1(m, n)


@given(st.integers(1, 10**18), st.integers(1, 10**18), st.data())
def test_any_sizes_give_a_bracket_below_the_printed_bound(m: int, n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, min(m, 10**6)))
    found = p2(m, n, k)
    assert found.low <= found.high <= printed_p2(m, n, k) or printed_p2(m, n, k).vacuous
    assert found.high <= p1(m, n).high
    # One feature is either alone or not: nothing to bound.
    assert width(p2(m, n, 1)) <= 1e-12 * max(1.0, -p2(m, n, 1).high.ln)


def test_where_a_few_are_alone_inclusion_and_exclusion_has_all_digits() -> None:
    # About 0.45 features alone: neither the first term nor the next is close.
    found = p1(10_000, 1_000)
    assert width(found) < 1e-14
    assert math.exp(found.high.ln) == pytest.approx(1 - math.exp(-10_000 * (1 - 1e-3) ** 9_999), rel=1e-2)
    assert found.high < printed_p1(10_000, 1_000)


# ── figures of the paper, and of what was recomputed from it ─────────────────────────────────────────────────────────


def test_the_papers_figures_to_four_digits() -> None:
    assert four_digits(printed_p1(M, N)) == four_digits(p1(M, N).high) == four_digits(p1(M, N).low) == "4.841e-427"
    assert four_digits(printed_p2(M, N, 1)) == four_digits(p2(M, N, 1).high) == "5.049e-435"
    assert four_digits(printed_one_minus_p3(M, N, 700)) == "4.671e-19"
    found = one_minus_p3(M, N, 700)
    assert four_digits(found.low) == four_digits(found.high) == "4.636e-19"


def test_lemma_2_says_nothing_for_loads_near_the_mean() -> None:
    assert math.exp(printed_one_minus_p3(M, N, 850).ln) == pytest.approx(0.0522, abs=1e-4)
    assert math.exp(printed_one_minus_p3(M, N, 900).ln) == pytest.approx(64.2, abs=0.1)
    vacuous = [k for k in range(860, 880) if printed_one_minus_p3(M, N, k).vacuous]
    assert vacuous == list(range(869, 880))
    # And it is not the lemma's fault: such loads do occur.
    assert math.exp(one_minus_p3(M, N, 900).low.ln) > 0.999999


def test_the_papers_zero_is_an_eighth() -> None:
    # "k ≤ m/n, otherwise p₃ = 0"
    assert count_p3(4, 2, 3) == Fraction(1, 8)
    assert encloses(one_minus_p3(4, 2, 3), Fraction(7, 8))
    assert printed_one_minus_p3(4, 2, 3) == ProbabilityBound(0.0)


@pytest.mark.parametrize(("m", "n", "k"), [(0, 5, 1), (5, 0, 1), (5, 5, 6), (5, 5, -1), (10**19, 5, 1)])
def test_sizes_that_make_no_sense_are_refused(m: int, n: int, k: int) -> None:
    with pytest.raises(BadInputError, match=r"must|cannot"):
        p2(m, n, k)
    with pytest.raises(BadInputError, match=r"must|cannot"):
        printed_p2(m, n, k)


def test_too_many_features_are_not_counted_one_by_one() -> None:
    with pytest.raises(BadInputError, match="at most 64"):
        count_p3(65, 3, 2)
    with pytest.raises(BadInputError, match="smallest load"):
        one_minus_p3(5, 5, 0)
