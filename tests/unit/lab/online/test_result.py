"""What a run says of its rounds, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from secvm.learning.aggregate.scoring import score_cells
from secvm_lab.online import reproduction_page
from secvm_lab.online.population.residents import DAY_MS, Opening
from secvm_lab.online.reproduction import Pair
from secvm_lab.online.reproduction_page import _dropped, _steadier
from secvm_lab.online.result import Drop, Line, Run

LABELS = ("male", "female")


def line(number: int, hour: float, found: int, *, day: int = 1, of: int = 10) -> Line:
    """A round in which so many of the minority's test people are found, and 30 of 40 of the majority's."""
    cells = np.array([[30, 10], [of - found, found]])
    return Line(
        opening=Opening(number, day * DAY_MS, (hour,)),
        abandoned=False,
        devices=100,
        stragglers=3,
        steady=97,
        packages=500,
        trained=(60, 20),
        tested=(40, of),
        score=score_cells(cells),
        weighted_share=0.5,
    )


def run_of(*lines: Line) -> Run:
    return Run(
        labels=LABELS,
        lines=lines,
        learning="by hand",
        final=score_cells(np.array([[30, 10], [4, 6]])),
        state=b"",
        daily_active=(100, 100),
        devices=100,
        budget=5,
        two_cycle=False,
        seconds=1.0,
    )


def test_a_round_tells_recall_precision_and_baseline_of_each_label() -> None:
    told = line(7, 12.0, 8).told(LABELS)
    assert told["recall"] == {"male": 0.75, "female": 0.8}
    assert told["precision"] == {"male": 0.9375, "female": round(8 / 18, 5)}
    assert told["baseline"] == {"male": 0.8, "female": 0.2}
    assert told["participants"] == 100
    assert told["round"] == 7
    assert told["night"] is False


def test_the_drop_is_the_minoritys_recall_by_day_minus_that_at_night_without_the_warm_up() -> None:
    lines = [
        line(1, 3.0, 10, day=0),
        line(2, 12.0, 0, day=0),
        line(3, 12.0, 9),
        line(4, 12.5, 7),
        line(5, 14.0, 9),
        line(6, 23.5, 4),
        line(7, 2.0, 6),
    ]
    found = run_of(*lines)
    # Hours: .8 and .9 by day, .4 and .6 at night.
    assert found.night_drop.value == pytest.approx(0.85 - 0.5)
    assert found.night_drop.error == pytest.approx(math.sqrt(0.005 / 2 + 0.02 / 2))
    assert found.hourly_spread == pytest.approx(np.std([0.8, 0.9, 0.4, 0.6], ddof=1))
    told = found.told()
    assert told["means"]["night"]["recall"] == {"male": 0.75, "female": 0.5}
    assert told["means"]["day"]["baseline"]["female"] == 0.2


def test_of_one_hour_there_is_no_spread() -> None:
    assert run_of(line(1, 12.0, 9)).hourly_spread is None


def test_night_rounds_are_shaded_and_no_others() -> None:
    lines = [line(n, hour, 5) for n, hour in enumerate((22.0, 22.9, 23.0, 1.0, 5.9, 6.0, 12.0, 23.2), start=1)]
    assert [(shade.low, shade.high) for shade in reproduction_page.nights(run_of(*lines))] == [(2.5, 5.5), (7.5, 8.5)]


@pytest.mark.parametrize(
    ("drop", "word"),
    [
        (Drop(0.1, 0.02), "yes"),
        (Drop(0.1, 0.05), "open"),
        (Drop(-0.1, 0.02), "no"),
        (Drop(None, None), "not"),
    ],
)
def test_a_drop_within_chance_is_neither_there_nor_not_there(drop: Drop, word: str) -> None:
    assert _dropped(drop).startswith(word)


@pytest.mark.parametrize(("by_day", "word"), [(0.04, "yes"), (0.06, "partly"), (0.09, "no")])
def test_steadier_is_a_smaller_spread_by_the_same_measure(by_day: float, word: str) -> None:
    assert _steadier(0.1, by_day).startswith(word)


def test_both_runs_of_a_pair_tell_their_spread() -> None:
    told = Pair(run_of(line(1, 12.0, 9), line(2, 3.0, 1)), run_of(line(1, 12.0, 9), line(2, 13.0, 9))).told()
    assert told["continuous"]["hourly_spread"] > told["daytime"]["hourly_spread"] == 0
