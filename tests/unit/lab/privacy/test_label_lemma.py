import math
from collections.abc import Iterator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm_lab.privacy.label_lemma import (
    lemma3_exact,
    lemma3_printed,
    lemma3_without_floor,
    mode,
    with_floor,
    without_floor,
)
from secvm_lab.privacy.probability import ProbabilityBound
from tests.unit.lab.privacy.oracle import holds

#: The paper's Twitter experiment: participants of one sign, features of each, bins.
TWITTER = (34_615, 1_826, 95_880)


def tallies(total: int, bins: int) -> Iterator[tuple[int, ...]]:
    if bins == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in tallies(total - first, bins - 1):
            yield (first, *rest)


def probability(tally: tuple[int, ...]) -> Fraction:
    ways = math.factorial(sum(tally))
    for count in tally:
        ways //= math.factorial(count)
    return Fraction(ways, len(tally) ** sum(tally))


@pytest.mark.parametrize("bins", [1, 2, 3, 4])
@pytest.mark.parametrize("total", [1, 2, 3, 5, 8, 9])
def test_the_mode_is_the_largest_of_all_tallies(total: int, bins: int) -> None:
    largest = max(probability(tally) for tally in tallies(total, bins))
    assert holds(mode(total, bins), largest)
    assert math.exp(mode(total, bins).ln) == pytest.approx(float(largest), rel=1e-12)


@pytest.mark.parametrize(("participants", "features", "bins"), [(2, 1, 2), (3, 2, 2), (2, 3, 3), (4, 2, 3)])
def test_no_tally_differs_between_the_worlds_by_more(participants: int, features: int, bins: int) -> None:
    known = (features, *([0] * (bins - 1)))
    bound = lemma3_exact(participants, features, bins)
    for tally in tallies(participants * features, bins):
        others = tuple(count - one for count, one in zip(tally, known, strict=True))
        second = probability(others) if min(others) >= 0 else Fraction(0)
        assert holds(bound, abs(probability(tally) - second))


@given(st.integers(1, 10**12), st.integers(1, 10**9))
def test_each_form_is_below_the_next_looser_one(total: int, bins: int) -> None:
    assert mode(total, bins) <= min(without_floor(total, bins), with_floor(total, bins))
    if total >= bins:
        assert without_floor(total, bins) <= with_floor(total, bins)
    else:
        assert with_floor(total, bins) == mode(total, bins)
    if total % bins == 0:
        assert mode(total, bins) == without_floor(total, bins) == with_floor(total, bins)
    assert mode(total, bins).ln <= 0


@given(st.integers(2, 10**5), st.integers(1, 10**3), st.integers(1, 10**5), st.integers(1, 500))
def test_rounds_multiply(participants: int, features: int, bins: int, rounds: int) -> None:
    one = lemma3_exact(participants, features, bins)
    assert lemma3_exact(participants, features, bins, rounds) == one**rounds


def test_the_floor_makes_the_printed_bound_jump_and_exceed_one() -> None:
    # 18!/(9!)²/2^18, 19!/(9!)²/2^19, 20!/(10!)²/2^20
    assert [with_floor(total, 2).text() for total in (18, 19, 20)] == ["0.185", "1.76", "0.176"]
    assert with_floor(19, 2).vacuous
    assert [mode(total, 2).text() for total in (18, 19, 20)] == ["0.185", "0.176", "0.176"]


def test_the_papers_figure_recomputed() -> None:
    assert lemma3_printed(*TWITTER).log10 == pytest.approx(-111188.6, abs=0.05)
    assert lemma3_printed(*TWITTER).text(2) == "2.5e-111189"
    assert lemma3_exact(*TWITTER).log10 == pytest.approx(-173415.0, abs=0.05)
    assert lemma3_exact(*TWITTER).text(4) == "1.003e-173415"
    participants, features, bins = TWITTER
    assert without_floor(participants * features, bins).text() == "4.52e-173411"
    assert without_floor((participants - 1) * features, bins).text() == "1.80e-173410"
    assert lemma3_without_floor(*TWITTER).text() == "1.80e-173410"


def test_the_papers_figure_is_true_only_with_the_exact_mode() -> None:
    claimed = ProbabilityBound((math.log10(5) - 173_411) * math.log(10))
    assert lemma3_exact(*TWITTER) < claimed
    assert claimed < lemma3_without_floor(*TWITTER) < lemma3_printed(*TWITTER)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(BadInputError, match="between 2 and"):
        lemma3_exact(1, 5, 5)
    with pytest.raises(BadInputError, match="number of bins"):
        lemma3_exact(2, 5, 0)
    with pytest.raises(BadInputError, match="times features"):
        lemma3_exact(10**10, 10**10, 5)
    with pytest.raises(BadInputError, match="rounds"):
        lemma3_exact(2, 5, 5, 0)
