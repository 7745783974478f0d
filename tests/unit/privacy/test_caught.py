"""Chances of being caught: held to fractions, and to all ways in which a cell's packages can lie in parts."""

import itertools
import math
from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.learning.cover_law import Noise
from secvm.privacy.statements.detection import (
    CellCount,
    blindly_for,
    canary,
    dropped_blindly,
    dropped_in_cell,
    false_cover,
    in_cell_for,
    typical_cell,
)

NINETY_NINE = Fraction(99, 100)


def rising(shape: Fraction, k: int) -> Fraction:
    """The weight of k packages in a part, the common p^k left out."""
    return math.prod((shape + i for i in range(k)), start=Fraction(1)) / math.factorial(k)


def by_all_ways(dropped: int, cell: CellCount, shape: Fraction, parts: int) -> Fraction:
    """All splits of the cover among the parts, all sets of packages that can be dropped; part 0 is opened."""
    missed = whole = Fraction(0)
    for split in itertools.product(range(cell.cover + 1), repeat=parts):
        if sum(split) != cell.cover:
            continue
        weight = math.prod((rising(shape, k) for k in split), start=Fraction(1))
        whole += weight
        missed += weight * Fraction(comb(cell.packages - split[0], dropped), comb(cell.packages, dropped))
    return 1 - missed / whole


@pytest.mark.parametrize("parts", [2, 3, 4])
@pytest.mark.parametrize("shape", [Fraction(1, 2), Fraction(1), Fraction(15, 8)])
@pytest.mark.parametrize(("people", "cover"), [(0, 4), (3, 3), (5, 1), (2, 0)])
def test_dropping_by_content_is_counted_exactly(people: int, cover: int, shape: Fraction, parts: int) -> None:
    cell = CellCount(people, cover)
    for dropped in range(cell.packages + 1):
        truth = by_all_ways(dropped, cell, shape, parts)
        assert dropped_in_cell(dropped, cell, shape=shape, parts=parts) == pytest.approx(float(truth), abs=1e-12)


@given(st.integers(0, 300), st.integers(1, 200), st.integers(4, 20), st.integers(0, 600))
def test_dropping_more_is_seen_more_and_less_than_by_the_mean_share(
    people: int, cover: int, parts: int, dropped: int
) -> None:
    cell, shape = CellCount(people, cover), Fraction(15, 8)
    seen = dropped_in_cell(dropped, cell, shape=shape, parts=parts)
    assert seen <= dropped_in_cell(dropped + 1, cell, shape=shape, parts=parts) + 1e-12
    share = cover / parts / cell.packages
    # Without putting back, a package is hit a little sooner than 1 - (1 - t)^m says; all of a small cell may be taken.
    if 10 * dropped < cell.packages:
        assert seen <= 1 - (1 - share) ** dropped + 0.01


def test_the_usual_cells_are_not_seen_with_certainty() -> None:
    """Nine parts of 15/8 with odds of 10.5: one cell in a hundred has nothing in the opened part."""
    noise = Noise(cells=2002, shape=Fraction(15), odds=Fraction(21, 2))
    fullest = typical_cell(noise, 9, 7000)
    assert fullest == CellCount(7000, 177)
    shape = noise.part(9)
    assert 0.985 < dropped_in_cell(fullest.packages, fullest, shape=shape, parts=9) < 0.995
    needed = in_cell_for(0.9, fullest, shape=shape, parts=9)
    assert needed is not None
    assert dropped_in_cell(needed, fullest, shape=shape, parts=9) >= 0.9
    assert dropped_in_cell(needed - 1, fullest, shape=shape, parts=9) < 0.9
    # By the mean share alone it would be 840.
    share = 177 / 9 / fullest.packages
    assert needed == 1543
    assert math.ceil(math.log(0.1) / math.log(1 - share)) == 840
    assert in_cell_for(0.999, fullest, shape=shape, parts=9) is None


def test_145_of_a_batch_of_1_4_million_are_seen_in_99_of_100() -> None:
    assert blindly_for(NINETY_NINE, part=43_861, batch=1_030_000 + 394_749) == 148
    assert blindly_for(NINETY_NINE, part=43_861, batch=1_400_000) == 145


@given(st.integers(1, 50), st.integers(51, 5000))
def test_the_number_for_a_chance_is_the_smallest(part: int, batch: int) -> None:
    number, left = blindly_for(NINETY_NINE, part=part, batch=batch), Fraction(batch - part, batch)
    assert left**number <= Fraction(1, 100) < left ** (number - 1)
    # Fewer than are left hit it at least as often as with putting back.
    for dropped in (1, 2, 7):
        hit = 1 - Fraction(comb(batch - part, dropped), comb(batch, dropped))
        assert dropped_blindly(dropped, part=part, batch=batch) <= float(hit) + 1e-12


def test_crowds_that_a_stranger_makes_up_take_no_longer() -> None:
    cell = CellCount(10**15, 178)
    needed = in_cell_for(0.9, cell, shape=Fraction(15, 8), parts=9)
    assert needed is not None
    assert 0.2 < needed / cell.packages < 0.22
    assert blindly_for(NINETY_NINE, part=600, batch=10**15) == pytest.approx(math.log(100) * 10**15 / 600, rel=1e-6)


def test_a_tenth_exactly_needs_two() -> None:
    assert blindly_for(NINETY_NINE, part=9, batch=10) == 2


def test_falsified_cover_and_canaries() -> None:
    assert false_cover(Fraction(1, 1000), 9) == Fraction(1, 9)
    assert false_cover(Fraction(1, 2), 9) == Fraction(1, 2)
    assert false_cover(Fraction(0), 9) == 0
    assert canary(1, 103) == Fraction(1, 103)
    assert canary(103, 103) == 1
    for wrong in (lambda: false_cover(Fraction(2), 9), lambda: canary(104, 103), lambda: CellCount(-1, 0)):
        with pytest.raises(BadInputError):
            wrong()
