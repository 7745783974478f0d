"""A made-up population keeps its laws, and the night's drop comes from who is there.

Seeds are fixed, so each test always says the same; its false-alarm rate is the chance with which a right
implementation would have failed had the seed been drawn once. Each is shown a population that breaks the law too.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from secvm.lab.online.attendance import Attendance
from secvm.lab.online.calendar import Opening, openings
from secvm.lab.online.crowd import crowd
from secvm.lab.online.day import Rhythm
from secvm.lab.online.dice import ONE
from secvm.lab.online.plan import Plan
from secvm.lab.online.residents import residents
from secvm.lab.online.rounds import OnlineRounds
from secvm.lab.online.words import TitleWords
from tests.statistical.bounds import kolmogorov

pytestmark = pytest.mark.slow

RATE = 1e-6
ONE_ZONE = (("Europe/Berlin", 1.0),)
HALVED, EVEN = Rhythm(0.8, 0.2, 0.1), Rhythm(0.8, 0.2, 0.2)


def share_beside_limit(rhythm: Rhythm, hour: float, share: float) -> float:
    """How far the minority's share among those who are there is from ``share``, in units of the limit.

    Devices are independent, so that by Hoeffding the share of n of them is further off than sqrt(ln(2 / rate) / 2n)
    with at most this rate.
    """
    plan = Plan(people=40_000, zones=ONE_ZONE, rhythm=rhythm, days=1)
    people = residents(plan, 1)
    there = Attendance(plan, people).round(Opening(1, 0, (hour,))).here
    n = int(there.sum())
    return abs(float(people.labels[there].mean()) - share) / math.sqrt(math.log(2 / RATE) / (2 * n))


@pytest.mark.parametrize(("hour", "share"), [(12.0, 0.2), (20.5, 0.2), (3.0, 0.1)])
def test_the_minority_has_its_share_at_every_hour(hour: float, share: float) -> None:
    """False-alarm rate 1e-6."""
    assert share_beside_limit(HALVED, hour, share) < 1


def test_a_minority_that_does_not_sleep_is_seen() -> None:
    assert share_beside_limit(EVEN, 3.0, 0.1) > 1


def test_who_goes_away_does_so_at_any_time_of_the_window() -> None:
    """False-alarm rate 1e-6."""
    plan = Plan(people=40_000, stragglers=0.2, days=1, begin=12)
    attendance = Attendance(plan, residents(plan, 1))
    found = attendance.round(openings(plan)[0])
    stayed = found.stays[found.straggle] / ONE
    assert kolmogorov(stayed, RATE) < 1
    # Goers who leave early only would be seen.
    assert kolmogorov(stayed / 2, RATE) > 1


def drop(seed: int, rhythm: Rhythm) -> float:
    """By how much the model finds fewer of all test people of the minority, there or not, at night than in the evening.

    All test people: who is there to be asked has no part in it, only who has trained.
    """
    plan = Plan(
        people=1_500,
        words=TitleWords(per_person=40, vocabulary=2**12, signal=1.0, label_noise=0.05),
        bins=500,
        days=1,
        begin=12,
        floor=5,
        seed=seed,
        rhythm=rhythm,
        zones=ONE_ZONE,
    )
    people = crowd(plan, 1)
    rounds, attendance = OnlineRounds(plan.experiment(), people, floor=plan.floor), Attendance(plan, people.people)
    evening, night = [], []
    for opening in openings(plan)[:98]:
        rounds.play(attendance.round(opening))
        cells = rounds.final_cells()
        recall = cells[1, 1] / cells[1].sum()
        if 17 <= opening.hour < 22:
            evening.append(recall)
        elif 1 <= opening.hour < 6:
            night.append(recall)
    return float(np.mean(evening) - np.mean(night))


def larger_in(seeds: range, one: Rhythm, other: Rhythm) -> int:
    """In how many populations the drop under one rhythm is larger than under the other."""
    return sum(drop(seed, one) > drop(seed, other) for seed in seeds)


def test_the_drop_at_night_is_made_by_the_minority_that_sleeps() -> None:
    """If the minority's absence made no difference, each seed would be a coin; all ten alike have a chance of 1e-3."""
    assert larger_in(range(1, 11), HALVED, EVEN) == 10


def test_a_population_without_the_cause_does_not_pass() -> None:
    assert larger_in(range(1, 2), EVEN, EVEN) == 0
