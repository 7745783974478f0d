"""Runs over days: the same again with the same seed, drops where there are nights, and what they cost."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from secvm.errors import BadInputError, SecVMError
from secvm.learning.experiment import Robust
from secvm.privacy.target import PrivacyTarget
from secvm_lab.online.population.crowd import crowd
from secvm_lab.online.population.plan import daytime
from secvm_lab.online.population.words import TitleWords
from secvm_lab.online.reproduction import reproduce
from secvm_lab.online.reproduction_page import page
from secvm_lab.online.run import Attack, simulate
from secvm_lab.online.scenario import Promise, Scenario, covered, fewest, play
from secvm_lab.online.scenario import page as scenario_page
from tests.unit.lab.online.people import strong

PLAN = strong()
PROMISE = Promise(PrivacyTarget(Fraction(8), Fraction(1, 1000)))


def quiet(_stage: str, _done: int, _of: int) -> None:
    """Nobody watches."""


def test_the_same_seed_gives_the_same_run_whatever_the_threads() -> None:
    first, second = (simulate(crowd(plan, 2), plan, rounds=30) for plan in (PLAN, replace(PLAN, threads=2)))
    assert first.state == second.state
    assert [line.told(first.labels) for line in first.lines] == [line.told(second.labels) for line in second.lines]


def test_a_run_is_for_the_people_it_was_made_for() -> None:
    people = crowd(PLAN, 2)
    with pytest.raises(BadInputError, match="other people"):
        simulate(people, replace(PLAN, seed=9))


def test_the_reproduction_has_every_key_and_a_page_with_every_figure() -> None:
    found = reproduce(PLAN, quiet, choosing=False)
    told = json.loads(json.dumps(found.told()))
    assert len(told["continuous"]["rounds"]) == 262
    for run in (told["continuous"], told["daytime"]):
        assert run["night_drop"] is not None
        for line in run["rounds"]:
            assert {"round", "night", "participants", "recall", "precision", "baseline"} <= line.keys()
            assert line["recall"].keys() == {"male", "female"}
    assert not any(line["night"] for line in told["daytime"]["rounds"])
    made = page(found, "a command", 1.0)
    assert [figure.name for figure in made.figures] == ["figure2a", "figure2c", "figure3", "figure2b", "figure2d"]
    assert " data-spec=" in made.html()


def test_the_daytime_drop_is_the_middle_of_the_day_beside_its_edges() -> None:
    run = simulate(crowd(PLAN, 2), daytime(PLAN))
    settled = [line for line in run.lines if line.opening.day == 1]

    def mean_of_hours(inside: bool) -> float:
        hours: dict[int, list[float]] = {}
        for line in settled:
            if (11 <= line.opening.hour < 17) == inside:
                hours.setdefault(int(line.opening.hour), []).append(line.recall)
        return sum(sum(found) / len(found) for found in hours.values()) / len(hours)

    assert run.night_drop.value == pytest.approx(mean_of_hours(True) - mean_of_hours(False))


def test_an_attack_is_told_with_what_it_cost_beside_the_same_people_without_it() -> None:
    outcome = play(Scenario(PLAN, attack=Attack("label flip", 0.15), rounds=20), quiet)
    told = outcome.told()
    assert told["attack"] == {"plot": "label flip", "attackers": 0.15}
    assert told["without"]["participants_per_round"] == told["participants_per_round"]
    assert any(lost > 0.02 for lost in told["cost"]["recall_lost"].values())
    assert scenario_page(outcome, "a command", 1.0).figures[-1].name == "beside"


def test_cover_is_told_with_its_price() -> None:
    plan = replace(
        PLAN,
        words=TitleWords(per_person=6, vocabulary=2**10, signal=1.0),
        bins=20,
        hours=(8, 20),
        begin=8,
    )
    told = play(Scenario(plan, promise=PROMISE, rounds=2), quiet).told()
    assert told["privacy"]["epsilon_achieved"] <= 8
    assert told["privacy"]["rounds"] == len(told["rounds"]) == 2
    # A participation package, six words, the bias, and the canary; cover is the relays'.
    assert told["budget"] == told["privacy"]["budget_per_device_round"] == 9
    assert told["privacy"]["relay_packages"] % 9 == 0
    assert told["cost"]["packages_per_participant_more"] <= 0.5


def test_people_of_a_file_are_taken_once_each_and_the_rarer_label_is_the_minority(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    lines = [
        json.dumps({"label": "x" if i % 4 else "y", "features": [f"w{i % 7}", f"v{i % 4}", f"u{i % 11}"]})
        for i in range(200)
    ]
    path.write_text("\n".join(lines) + "\n")
    plan = replace(PLAN, data=path, people=150, bins=20)
    people = crowd(plan, 2)
    assert people.plan.labels == ("x", "y")
    assert people.features == 3
    run = simulate(people, plan, rounds=5)
    assert run.labels == ("x", "y")
    assert people.plan.rhythm.night_share == pytest.approx(people.plan.rhythm.day_share / 2)
    with pytest.raises(BadInputError, match="come and go") as refused:
        crowd(replace(plan, people=199), 2)
    assert refused.value.next_step is not None


def test_rounds_below_the_floor_are_abandoned_and_told() -> None:
    plan = replace(PLAN, floor=100)
    run = simulate(crowd(plan, 2), plan, rounds=60)
    told = run.told()
    assert told["abandoned"] == sum(line["abandoned"] for line in told["rounds"]) > 0
    assert Fraction(told["abandoned"], len(told["rounds"])) < 1


def test_an_attack_sends_within_the_budget_of_the_experiment() -> None:
    people = crowd(replace(PLAN, stragglers=0.0), 2)
    plan = replace(PLAN, stragglers=0.0)
    honest, poisoned = (simulate(people, plan, rounds=1, attack=attack) for attack in (None, Attack("bias", 0.2)))
    budget = honest.budget
    attackers = honest.lines[0].devices - poisoned.lines[0].steady
    assert attackers > 0
    # In the first round everybody sends all it has: forty words, the bias and its taking part; a test person two.
    (ours,), (theirs,) = honest.lines, poisoned.lines
    assert theirs.packages <= ours.packages + attackers * budget
    assert theirs.packages > ours.packages


def test_the_comparison_without_is_without_clipping_and_a_cost_is_what_is_lost() -> None:
    plan = replace(PLAN, learning=replace(PLAN.learning, robust=Robust(clip=Fraction(1, 10))))
    outcome = play(Scenario(plan, rounds=12), quiet)
    plain = simulate(crowd(PLAN, 2), PLAN, rounds=12)
    assert outcome.without is not None
    assert outcome.without.state == plain.state != outcome.run.state
    lost = outcome.cost()["recall_lost"]
    for i, label in enumerate(PLAN.labels):
        expected = plain.final.recall[i].value - outcome.run.final.recall[i].value
        assert lost[label] == pytest.approx(expected, abs=1e-5)
    assert any(lost.values())


def test_the_minoritys_share_of_the_training_has_its_weight() -> None:
    run = simulate(crowd(PLAN, 2), PLAN, rounds=1)
    majority, minority = run.lines[0].trained
    assert run.lines[0].weighted_share == pytest.approx(4 * minority / (4 * minority + majority))


def test_settings_are_for_the_quietest_round_and_the_features_that_are_let_in() -> None:
    plan = replace(PLAN, people=2_000, bins=20, hours=(8, 20), begin=8, stragglers=0.25)
    people = crowd(plan, 2)
    every = fewest(replace(plan, stragglers=0.0), people, 20)
    assert fewest(plan, people, 20) == pytest.approx(0.75 * every, abs=1)
    # The first round is the quietest of the morning.
    assert every == fewest(replace(plan, stragglers=0.0), people, 1)
    assert every < fewest(replace(plan, stragglers=0.0, hours=(12, 20), begin=12), people, 1)
    found = covered(plan, people, replace(PROMISE, contribution=5), rounds=1)
    for rows in (found.people.train_rows, found.people.test_rows):
        assert np.diff(rows.indptr).max() == 5
        assert set(np.unique(rows.values).tolist()) == {1}


def test_repro_what_cannot_be_is_refused_before_anybody_is_made() -> None:
    said: list[str] = []

    def watch(stage: str, _done: int, _of: int) -> None:
        said.append(stage)

    for plan in (
        replace(PLAN, words=TitleWords(per_person=70_000)),
        replace(PLAN, zones=(("Nowhere/Land", 1.0),)),
    ):
        with pytest.raises(SecVMError):
            play(Scenario(plan), watch)
        with pytest.raises(SecVMError):
            reproduce(plan, watch)
    with pytest.raises(BadInputError, match="'adaptive, 30 bins'; "):
        Attack("nothing", 0.1)
    assert said == []


def test_the_words_of_a_file_stay_with_their_labels(tmp_path: Path) -> None:
    """Labels are in the words here, so that a model that finds nobody wrong must have had them together."""
    path = tmp_path / "people.jsonl"
    lines = [
        json.dumps(
            {"label": "yes" if i % 3 == 0 else "no", "features": [f"{'a' if i % 3 == 0 else 'b'}{j}" for j in range(5)]}
        )
        for i in range(300)
    ]
    path.write_text("\n".join(lines) + "\n")
    plan = replace(PLAN, data=path, people=200, bins=50, begin=12)
    run = simulate(crowd(plan, 2), plan, rounds=40)
    assert run.labels == ("no", "yes")
    assert [share.value for share in run.final.recall] == [1.0, 1.0]
