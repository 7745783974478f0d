"""The laws of a population: hours, coming and going, who is there."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.learning.individual.dice import UnsafeSeededDice, draw_cohort
from secvm.learning.package import Cohort
from secvm_lab.online.population.attendance import Attendance
from secvm_lab.online.population.crowd import crowd
from secvm_lab.online.population.dice import ONE, LabDice
from secvm_lab.online.population.plan import Plan, Rhythm, daytime
from secvm_lab.online.population.residents import DAY_MS, Opening, openings, residents
from secvm_lab.online.population.words import TitleWords
from tests.unit.lab.online.people import small


def test_three_days_of_eleven_minutes_are_393_rounds_and_nights_lie_where_the_paper_saw_them() -> None:
    found = openings(Plan())
    assert len(found) == 393
    assert [one.number for one in found] == list(range(1, 394))
    nights = [one.number for one in found if one.night]
    assert {150, 290} <= set(nights)
    assert not {90, 220, 360} & set(nights)


def test_by_day_rounds_open_in_the_hours_asked_for_only() -> None:
    found = openings(daytime(Plan()))
    assert {8 <= one.hour < 20 for one in found} == {True}
    assert not any(one.night for one in found)
    # Two days, which begin in their first hour.
    assert (found[0].at_ms, found[0].hour) == (0, 8)
    assert [sum(one.day == day for one in found) for day in (0, 1)] == [66, 66]


@given(st.floats(0.02, 0.5), st.floats(0.1, 1.0))
def test_the_minority_has_its_share_by_day_and_at_night_at_every_hour(day: float, ratio: float) -> None:
    rhythm = Rhythm(0.3, day, day * ratio)
    for hour, share in ((12.0, day), (3.0, day * ratio)):
        majority = (1 - day) * rhythm.activity(np.array([hour]))[0]
        minority = majority * rhythm.minority_factor(np.array([hour]))[0] * day / (1 - day)
        assert minority / (majority + minority) == pytest.approx(share)


@given(st.floats(0, 24))
def test_the_minority_is_never_there_more_often_than_by_day_nor_less_than_at_night(hour: float) -> None:
    factor = float(Rhythm().minority_factor(np.array([hour]))[0])
    assert Rhythm().night_factor - 1e-12 <= factor <= 1


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 60), st.floats(0, 0.9), st.integers(1, 5), st.integers(0, 100))
def test_whoever_leaves_somebody_comes_so_that_their_number_is_the_same_at_any_time(
    people: int, churn: float, days: int, seed: int
) -> None:
    plan = small(people=people, churn=churn, days=days, seed=seed)
    found = residents(plan, days)
    for at in np.linspace(0, days * DAY_MS - 1, 17).astype(int).tolist():
        there = found.present(at)
        assert there.sum() == people
        assert np.array_equal(np.sort(found.places[there]), np.arange(people))
    assert np.all(found.came <= found.left)


def test_without_churn_nobody_leaves() -> None:
    assert len(residents(small(churn=0.0), 3)) == small().people


def test_a_population_is_the_same_whatever_the_threads_and_another_with_another_seed() -> None:
    one, other, third = (crowd(small(threads=n, seed=s), 2) for n, s in ((1, 1), (3, 1), (1, 2)))
    assert np.array_equal(one.train_rows.bins, other.train_rows.bins)
    assert np.array_equal(one.test_rows.values, other.test_rows.values)
    assert np.array_equal(one.people.labels, other.people.labels)
    assert not np.array_equal(one.train_rows.bins[:100], third.train_rows.bins[:100])


def test_a_device_is_the_same_among_few_days_and_many() -> None:
    few, many = (crowd(small(churn=0.2, days=d), d) for d in (1, 3))
    n = small().people
    assert np.array_equal(few.people.labels[:n], many.people.labels[:n])
    mine = few.train_rows.indptr[int(few.train[:n].sum())]
    assert np.array_equal(few.train_rows.bins[:mine], many.train_rows.bins[:mine])


def test_everybody_has_so_many_different_words() -> None:
    words = TitleWords(per_person=50, vocabulary=2**9)
    for _, found in words.chunks(np.array([0, 1, 1, 0]), 3):
        assert found.shape == (4, 50)
        assert all(len(set(row)) == 50 for row in found.tolist())


def test_who_is_not_of_the_population_is_never_there_and_who_stays_sends_everything() -> None:
    plan = small(churn=0.5, stragglers=0.3)
    people = residents(plan, 2)
    attendance = Attendance(plan, people)
    for opening in openings(plan)[::20]:
        found = attendance.round(opening)
        assert not (found.here & ~people.present(opening.at_ms)).any()
        assert np.array_equal(found.here, found.finish | found.straggle)
        assert not (found.finish & found.straggle).any()
        assert np.all(found.stays[~found.straggle] == ONE)


def test_who_is_there_is_mostly_there_eleven_minutes_later_too() -> None:
    plan = small(people=3_000, rhythm=Rhythm(0.36), churn=0.0)
    attendance = Attendance(plan, residents(plan, 2))
    first, second = (attendance.round(opening).here for opening in openings(plan)[5:7])
    assert (first & second).sum() > 0.7 * first.sum()


@given(st.integers(0, 2**24 - 1), st.integers(0, 2**20 - 1))
def test_a_throw_depends_on_nothing_but_its_own_numbers(device: int, number: int) -> None:
    dice = LabDice(1, "a purpose")
    alone = dice.throw(np.array([device]), number)
    among = dice.throw(np.array([3, device, 5]), number)
    assert alone[0] == among[1]
    assert 0 <= alone[0] < ONE


@pytest.mark.parametrize(
    "changes",
    [
        {"churn": 1.0},
        {"hours": (20, 8)},
        {"zones": (("Europe/Berlin", 0.5),)},
        {"people": 0},
        {"stragglers": -0.1},
        {"days": 0},
    ],
)
def test_what_cannot_be_is_one_sentence(changes: dict[str, object]) -> None:
    with pytest.raises(BadInputError):
        small(**changes)


def test_the_night_is_from_eleven_to_six() -> None:
    hours = [half / 2 for half in range(48) if Opening(1, 0, (half / 2,)).night]
    assert hours == [*(half / 2 for half in range(12)), 23.0, 23.5]


def test_the_minority_is_there_less_from_ten_in_the_evening_on() -> None:
    found = Rhythm().minority_factor(np.array([12.0, 22.0, 23.0, 24.0, 3.0, 6.0, 7.0]))
    low = Rhythm().night_factor
    assert low == pytest.approx(4 / 9)
    assert found.tolist() == pytest.approx([1, 1, (1 + low) / 2, low, low, (1 + low) / 2, 1])


def test_each_device_has_the_hour_of_its_own_zone_and_a_habit_of_its_own() -> None:
    plan = small(people=500, zones=(("Europe/Berlin", 0.5), ("America/New_York", 0.5)))
    people = residents(plan, 1)
    attendance = Attendance(plan, people)
    found = attendance.chances(Opening(1, 0, (3.0, 21.0)))
    share = plan.rhythm.activity(np.array([3.0, 21.0]))[people.zones]
    factor = np.where((people.labels == 1) & (people.zones == 0), plan.rhythm.night_factor, 1.0)
    assert found == pytest.approx(share * factor * people.habit)
    assert people.habit.min() < 0.7 < 1.3 < people.habit.max()
    assert set(people.zones.tolist()) == {0, 1}


def test_who_comes_and_goes_does_so_at_its_own_minute() -> None:
    """Were all to decide at once, five of six rounds would have the same people, apart from those who move."""
    plan = small(people=3_000, rhythm=Rhythm(0.36), churn=0.0)
    attendance = Attendance(plan, residents(plan, 2))
    rounds = [attendance.round(opening).here for opening in openings(plan)[5:12]]
    changed = [int((one ^ other).sum()) for one, other in pairwise(rounds)]
    assert min(changed) > 0.3 * max(changed)


def test_words_lean_by_a_persons_label_and_noise_turns_the_lean() -> None:
    labels = np.tile([0, 1], 1_000)

    def alike(noise: float) -> float:
        """Cosine of two halves' differences between the labels: 1 where words tell labels apart, and -1 turned."""
        words = TitleWords(per_person=30, vocabulary=2**8, signal=1.5, label_noise=noise)
        counts = np.zeros((2, 2, 2**8))
        for first, found in words.chunks(labels, 5):
            for i, row in enumerate(found, start=first):
                counts[(i // 2) % 2, labels[i], row] += 1
        one, other = (half[1] - half[0] for half in counts)
        return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))

    assert alike(0.0) > 0.6
    assert alike(0.5) < 0.3


def test_who_trains_is_what_each_device_draws_for_itself() -> None:
    plan = small()
    people = crowd(plan, 2)
    own = [
        draw_cohort(plan.train_share, UnsafeSeededDice(plan.device_seed, i)) is Cohort.TRAIN for i in range(len(people))
    ]
    assert people.train.tolist() == own
    assert len(people.train_rows) == sum(own)
    assert len(people.test_rows) == len(own) - sum(own)


def test_the_minority_is_weighed_and_the_majority_is_not() -> None:
    experiment = small().experiment()
    assert experiment.class_weights == (Fraction(1), Fraction(4))
    assert experiment.labels == ("male", "female")


@pytest.mark.parametrize("signal", [float("nan"), float("inf"), -1.0, 1e308])
def test_repro_a_signal_without_end_is_refused(signal: float) -> None:
    with pytest.raises(BadInputError, match="signal"):
        TitleWords(signal=signal)
