"""Longer cases of ``tests/unit/privacy/test_accuracy_cost.py``."""

import pytest

from benchmarks import planner
from tests.unit.privacy.test_accuracy_cost import TABLE


def test_cells_of_the_table_are_reached_again_with_other_people() -> None:
    # One seed and 2,000 people who test: a standard deviation of about .01 by these, and as much by hash and people.
    people = planner.crowd(77, people=3_000, test_people=2_000)
    told = TABLE.content["plain"]

    def cell(train: int, bins: int, features: int) -> float:
        place = told["people"].index(train), told["bins"].index(bins), told["features"].index(features)
        return float(told["accuracy"][place[0]][place[1]][place[2]])

    for train, bins, features in ((3_000, 1_000, 100), (3_000, 3_000, 300), (1_000, 10_000, 100)):
        found, _ = planner.accuracy(people, train=train, bins=bins, features=features, test_people=2_000)
        assert found == pytest.approx(cell(train, bins, features), abs=0.04)
    again = [
        planner.accuracy(people, train=1_000, bins=300, features=30, noise=0.03, rounds=3, test_people=500)[0]
        for _ in "ab"
    ]
    assert again[0] == again[1]
