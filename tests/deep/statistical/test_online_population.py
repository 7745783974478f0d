"""A made-up population keeps its laws, and the night's drop comes from who is there.

Seeds are the run's. Each law is shown a population that breaks it too.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from secvm_lab.online.population.attendance import Attendance
from secvm_lab.online.population.crowd import crowd
from secvm_lab.online.population.dice import ONE
from secvm_lab.online.population.plan import Plan, Rhythm
from secvm_lab.online.population.residents import Opening, openings, residents
from secvm_lab.online.population.words import TitleWords
from secvm_lab.online.rounds import OnlineRounds
from tests.deep.statistical.bounds import kolmogorov
from tests.seeds import FALSE_ALARM, seed_for

ONE_ZONE = (("Europe/Berlin", 1.0),)
HALVED, EVEN = Rhythm(0.8, 0.2, 0.1), Rhythm(0.8, 0.2, 0.2)


def seed(purpose: str, number: int = 0) -> int:
    """A plan's seed has 32 bits."""
    return seed_for(purpose, number) % 2**32


def share_beside_limit(rhythm: Rhythm, hour: float, share: float) -> float:
    """How far the minority's share among those who are there is from ``share``, in units of the limit.

    Devices are independent, so that by Hoeffding the share of n of them is further off than sqrt(ln(2 / rate) / 2n)
    with at most this rate.
    """
    plan = Plan(people=40_000, zones=ONE_ZONE, rhythm=rhythm, days=1, seed=seed(f"shares at {hour}"))
    people = residents(plan, 1)
    there = Attendance(plan, people).round(Opening(1, 0, (hour,))).here
    n = int(there.sum())
    return abs(float(people.labels[there].mean()) - share) / math.sqrt(math.log(2 / FALSE_ALARM) / (2 * n))


@pytest.mark.parametrize(("hour", "share"), [(12.0, 0.2), (20.5, 0.2), (3.0, 0.1)])
def test_the_minority_has_its_share_at_every_hour(hour: float, share: float) -> None:
    """Fails by chance with probability at most 1e-6, by Hoeffding."""
    assert share_beside_limit(HALVED, hour, share) < 1


def test_a_minority_that_does_not_sleep_is_seen() -> None:
    assert share_beside_limit(EVEN, 3.0, 0.1) > 1


def test_who_goes_away_does_so_at_any_time_of_the_window() -> None:
    """Fails by chance with probability at most 1e-6, by Massart."""
    plan = Plan(people=40_000, stragglers=0.2, days=1, begin=12, seed=seed("stragglers"))
    attendance = Attendance(plan, residents(plan, 1))
    found = attendance.round(openings(plan)[0])
    stayed = found.stays[found.straggle] / ONE
    assert kolmogorov(stayed, FALSE_ALARM) < 1
    # Goers who leave early only would be seen.
    assert kolmogorov(stayed / 2, FALSE_ALARM) > 1


def drop(number: int, rhythm: Rhythm) -> float:
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
        seed=seed("drop", number),
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


#: Populations, and a difference of drops half-way between none and what a minority that sleeps makes of it: .19, with a
#: standard deviation of .03 for one population. The mean of four is seven of its standard deviations away, and four
#: populations without the cause are six away: either test fails by chance with probability below 1e-6.
POPULATIONS, HALF_WAY = 4, 0.09


def test_the_drop_at_night_is_made_by_the_minority_that_sleeps() -> None:
    differences = [drop(i, HALVED) - drop(i, EVEN) for i in range(POPULATIONS)]
    assert np.mean(differences) > HALF_WAY


def test_a_population_without_the_cause_does_not_pass() -> None:
    differences = [drop(POPULATIONS + i, EVEN) - drop(i, EVEN) for i in range(POPULATIONS)]
    assert np.mean(differences) < HALF_WAY
