"""λ and class weight are chosen on other people, by the smallest of four recalls, and then used."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from secvm_lab.online import reproduction
from secvm_lab.online import reproduction as choosing
from secvm_lab.online.population.crowd import crowd
from secvm_lab.online.population.plan import Plan, Rhythm
from secvm_lab.online.population.words import TitleWords
from secvm_lab.online.reproduction import Tried, choose, pilot, reproduce
from tests.unit.lab.online.people import strong

WORDS = TitleWords(per_person=15, vocabulary=2**10, signal=1.0, label_noise=0.0)
PLAN = strong(people=120, rhythm=Rhythm(0.8), words=WORDS, bins=60)


def tried(*recalls: float, weight: int = 4) -> Tried:
    return Tried(Fraction(1, 10), Fraction(weight), (recalls[0], recalls[1]), (recalls[2], recalls[3]))


def test_nobody_who_is_measured_has_had_a_say() -> None:
    ours, others = (crowd(plan, 2) for plan in (PLAN, pilot(PLAN)))
    assert not np.array_equal(ours.train_rows.bins[:200], others.train_rows.bins[:200])
    assert not np.array_equal(ours.people.labels[: len(others)], others.people.labels[: len(ours)])
    assert pilot(PLAN).device_seed != PLAN.device_seed


def test_a_pilot_is_as_large_as_its_population_and_no_larger_than_need_be() -> None:
    assert pilot(PLAN).people == PLAN.people
    assert pilot(Plan()).people == choosing.MOST_PEOPLE
    assert (pilot(Plan()).days, pilot(Plan()).hours) == (2, (0, 24))


def test_a_pair_is_as_good_as_the_recall_that_is_worst_off() -> None:
    assert tried(0.9, 0.8, 0.95, 0.3).merit == 0.3
    assert tried(0.2, 0.8, 0.95, 0.9).merit == 0.2


def test_the_pair_with_the_largest_merit_is_taken_of_all_that_were_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    # The worst first and last, so that neither place nor order is what decides.
    monkeypatch.setattr(choosing, "LAMBDAS", (Fraction(1, 10),))
    monkeypatch.setattr(choosing, "WEIGHTS", (Fraction(1, 50), Fraction(4), Fraction(200)))
    best, all_of_them = choose(PLAN)
    assert {(one.lambda_, one.weight) for one in all_of_them} == {
        (lambda_, weight) for lambda_ in choosing.LAMBDAS for weight in choosing.WEIGHTS
    }
    assert best.merit == max(one.merit for one in all_of_them)
    assert best.weight == 4
    assert best.merit > min(one.merit for one in all_of_them)


def test_what_was_chosen_is_what_both_runs_learn_with(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = Tried(Fraction(1, 50), Fraction(6), (0.9, 0.9), (0.9, 0.9))
    monkeypatch.setattr(reproduction, "choose", lambda _plan, _advance: (chosen, [chosen]))
    found = reproduce(replace(PLAN, people=40), lambda _stage, _done, _of: None)
    assert found.chosen is not None
    assert found.short is not None
    words = "pegasos (lambda 0.02, averaging 2), class weights 1/6"
    assert {run.learning for run in (found.chosen.continuous, found.chosen.daytime, found.short.chosen)} == {words}
    paper = {found.paper.continuous.learning, found.paper.daytime.learning, found.short.paper.learning}
    assert len(paper) == 1
    assert words not in paper
