"""Reports of people who trust nobody: as private as they say, and right on average."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from secvm.errors import BadInputError
from secvm_lab.baselines.baseline import Floats, UnitRows, two_labels
from secvm_lab.baselines.local_dp import Cell, FedSel, Integers, OneDimension, OneShot, Reports, Sphere, best_cap
from tests.unit.lab.baselines.crowds import crowd, rows_of, split

#: Two features and the bias of five bins; a shorter row; the same with the other sign; one who does not violate.
PEOPLE = [([0, 1], 1.0), ([2, 3], -1.0), ([0], 1.0), ([0, 1], -1.0), ([], -1.0), ([1, 3], 0.0)]
TIMES = 60_000


def said_by(reports: OneDimension | Cell, bins: list[int], sign: float, seed: int) -> Floats:
    """How often each report is made by one kind of person."""
    people = UnitRows(rows_of([bins], 4))
    who, signs = np.zeros(TIMES, dtype=np.int64), np.full(TIMES, sign)
    found, values = reports.said(people, who, signs, np.random.default_rng(seed))
    return np.bincount(found * 3 + values.astype(np.int64) + 1, minlength=15).astype(np.float64)


def worst_excess(reports: OneDimension | Cell, epsilon: float) -> float:
    """The largest a - e^ε b over reports and pairs of persons, in standard deviations of the difference."""
    tables = [said_by(reports, bins, sign, seed) for seed, (bins, sign) in enumerate(PEOPLE)]
    bound = math.exp(epsilon)
    return max(
        float(((a - bound * b) / np.sqrt(np.maximum(1.0, a + bound**2 * b))).max()) for a in tables for b in tables
    )


@pytest.mark.parametrize("make", [OneDimension, Cell])
def test_no_report_is_likelier_than_epsilon_allows(make: Callable[[float, int], OneDimension | Cell]) -> None:
    # 30 pairs of 15 reports, 6 deviations: a false alarm at most once in a million.
    assert worst_excess(make(1.0, 3), 1.0) < 6
    assert worst_excess(make(1.3, 3), 1.0) > 6, "reports that spend more must be noticed"


def test_what_a_dimension_says_is_as_often_true_as_it_should_be() -> None:
    told = said_by(OneDimension(2.0, 3, selection_share=0.25), [0, 1], 1.0, seed=9)
    # The chance of bin 0: e^½ of e^½ · 3 + 2; and there +1 with e^1.5 of e^1.5 + 2. 4.9 deviations: once in a million.
    chance = math.exp(0.5) / (3 * math.exp(0.5) + 2) * math.exp(1.5) / (math.exp(1.5) + 2)
    assert abs(told[2] - TIMES * chance) < 4.9 * math.sqrt(TIMES * chance)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("dimensions", [2, 3, 101, 10_001])
def test_a_cap_is_e_to_the_epsilon_times_as_likely_as_the_rest(epsilon: float, dimensions: int) -> None:
    cap = best_cap(epsilon, dimensions)
    assert (cap.chance / cap.share) / ((1 - cap.chance) / (1 - cap.share)) == pytest.approx(math.exp(epsilon))
    if dimensions == 2:
        assert cap.share == pytest.approx(math.acos(cap.cosine) / math.pi, rel=1e-6)
    if dimensions == 3:  # Archimedes
        assert cap.share == pytest.approx((1 - cap.cosine) / 2, rel=1e-6)


def test_heights_over_the_cap_follow_their_law() -> None:
    cap = best_cap(1.0, 50)
    heights = cap.heights(100_000, np.random.default_rng(4))
    inside = float((heights >= cap.cosine).mean())
    # 4.9 deviations: once in a million each.
    assert abs(inside - cap.chance) < 4.9 * math.sqrt(cap.chance * (1 - cap.chance) / 100_000)
    assert abs(heights.mean() - cap.mean) < 4.9 * heights.std() / math.sqrt(100_000)
    # An evenly drawn direction would not pass.
    assert cap.chance - cap.share > 0.1


@pytest.mark.parametrize("reports", [OneDimension(2.0, 9), Sphere(2.0), Cell(2.0, 9)], ids=repr)
def test_reports_are_right_on_average(reports: Reports) -> None:
    rows, labels = crowd(400)
    people = UnitRows(rows)
    who: Integers = np.arange(400)
    signs = np.where(who % 5 == 0, 0.0, 2.0 * labels - 1)
    truth = people.combined(signs)
    rng = np.random.default_rng(8)
    totals = np.array([reports.total(people, who, signs, rng) for _ in range(150)])
    deviations = (totals.mean(axis=0) - truth) / (totals.std(axis=0) / math.sqrt(150))
    # Squares of 41 places stay below 41 + 2 √(41·14) + 28 but for about e^-14, a millionth (Laurent and Massart 2000).
    assert float((deviations**2).sum()) < 41 + 2 * math.sqrt(41 * 14) + 28
    wrong = (1.5 * totals.mean(axis=0) - truth) / (totals.std(axis=0) / math.sqrt(150))
    assert float((wrong**2).sum()) > 41 + 2 * math.sqrt(41 * 14) + 28


def test_with_little_epsilon_the_sphere_is_quietest_and_with_much_the_cell() -> None:
    rows, labels = crowd(300)
    people, who, signs = UnitRows(rows), np.arange(300), two_labels(labels)

    def noise(reports: Reports) -> float:
        rng = np.random.default_rng(2)
        return float(np.var([reports.total(people, who, signs, rng) for _ in range(40)], axis=0).mean())

    assert noise(Sphere(0.5)) < noise(Cell(0.5, 9)) < noise(OneDimension(0.5, 9))
    assert noise(Cell(5.0, 9)) < noise(Sphere(5.0))


def test_with_a_large_epsilon_local_reports_learn() -> None:
    people = split(2000, 1)
    for baseline in (OneShot(8.0, 2, 8, "sphere"), OneShot(8.0, 2, 8, "cell"), FedSel(30.0, 1e-6, 3, 8)):
        fitted = baseline.fit(people.rows, people.labels, seed=1)
        assert fitted.evaluate(people.test_rows, people.test_labels) > 0.75
        assert fitted.guarantee is not None
        assert fitted.guarantee.trust == "nobody"


def test_nonsense_is_refused() -> None:
    with pytest.raises(BadInputError):
        FedSel(0.0, 1e-6, 1, 5)
    rows, labels = crowd(5)
    with pytest.raises(BadInputError):
        OneShot(1.0, 1, 5).fit(rows, labels + 1, seed=1)
