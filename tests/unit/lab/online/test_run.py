"""Runs over days: the same again with the same seed, drops where there are nights, and what they cost."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from secvm.errors import BadInputError
from secvm.lab.online.covered import Promise
from secvm.lab.online.crowd import crowd
from secvm.lab.online.day import Rhythm
from secvm.lab.online.plan import daytime
from secvm.lab.online.reproduction import reproduce
from secvm.lab.online.reproduction_page import page
from secvm.lab.online.run import Attack, simulate
from secvm.lab.online.scenario import Scenario, play
from secvm.lab.online.scenario import page as scenario_page
from secvm.lab.online.words import TitleWords
from tests.unit.lab.online.people import small

#: Few people, strong words: two days take a second.
PLAN = small(
    people=400,
    rhythm=Rhythm(0.5),
    words=TitleWords(per_person=40, vocabulary=2**12, signal=1.0, label_noise=0.0),
    bins=300,
    begin=22,
    days=2,
)


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
    assert "<svg" in made.html()


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


def test_cover_is_planned_for_the_quietest_round_and_told_with_its_price() -> None:
    plan = replace(
        PLAN,
        words=TitleWords(per_person=6, vocabulary=2**10, signal=1.0),
        bins=20,
        hours=(8, 20),
        begin=8,
    )
    told = play(Scenario(plan, promise=Promise(8.0, 1e-3), rounds=2), quiet).told()
    assert told["privacy"]["epsilon_achieved"] <= 8
    assert told["privacy"]["planned_participants"] <= min(line["participants"] for line in told["rounds"]) * 1.3
    assert len(told["rounds"]) == 2
    assert told["cost"]["packages_per_participant_more"] > 0
    assert told["budget"] == told["privacy"]["budget_per_device_round"]


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
