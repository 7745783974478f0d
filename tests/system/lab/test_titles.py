"""The generator of people with page titles."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm_lab.demo.crowd import made_up
from secvm_lab.demo.evaluation import Computing
from secvm_lab.demo.plan import Plan
from secvm_lab.population import TitlePeople


@given(st.integers(0, 2**32), st.integers(0, 10_000))
def test_a_person_of_a_seed_is_the_same_person_however_many_are_asked_for(seed: int, number: int) -> None:
    people = TitlePeople(seed=seed)
    alone, (before, among) = people.person(number + 1), people.people(2, first=number)
    assert alone == among == TitlePeople(seed=seed).person(number + 1)
    assert alone != before


def test_another_seed_is_another_world() -> None:
    words = [set().union(*(set(p.features()) for p in TitlePeople(seed=seed).people(30))) for seed in (0, 1)]
    assert len(words[0] & words[1]) < 0.3 * len(words[0])


def test_features_are_words_of_titles_and_hosts() -> None:
    person = TitlePeople().person(3)
    for url, title in person.pages:
        assert title is not None
        assert re.fullmatch(r"https://[a-z]+\.example/[0-9]+", url)
        assert all(word in person.features() for word in title.lower().split())
    hosts = {feature for feature in person.features() if feature.startswith("host:")}
    assert hosts == {"host:" + url.split("/")[2] for url, _ in person.pages}


def test_a_reader_does_not_print_itself() -> None:
    person = TitlePeople().person(0)
    assert repr(person) == "Reader(...)"


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_the_classes_have_the_shares_asked_for(share: float) -> None:
    people = TitlePeople(first_share=share)
    first = sum(person.label == people.labels[0] for person in people.people(1000))
    # Five standard deviations: one false alarm in a million.
    assert abs(first / 1000 - share) < 5 * (0.25 / 1000) ** 0.5


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_central_model_is_neither_perfect_nor_lost_and_ours_is_near_it(seed: int) -> None:
    plan = Plan(seed=seed)
    crowd = made_up(plan.participants, seed=seed, further=2000)
    experiment = plan.experiment(crowd)
    computing = Computing(plan, crowd, experiment)
    replay = computing.replay(experiment)
    dice = np.random.default_rng(seed)
    for _ in range(plan.rounds):
        replay.advance(dice.random(len(crowd)) >= 0.03)
    cells = computing.further_cells(replay)
    central = computing.central()
    assert 0.75 <= central <= 0.92
    assert abs(np.trace(cells) / cells.sum() - central) <= 0.02
    assert len(crowd) * (experiment.budget or 0) * plan.rounds * 0.96 >= 40_000
