"""Packages counted, and packages made: the same tallies and the same states."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from secvm.errors import BadInputError
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.cover_law import Noise, RelayCover
from secvm.learning.experiment import Experiment, Robust
from secvm.learning.thinning import Thinning
from secvm.protocol.round_state import RoundState
from secvm_lab.online.population.attendance import Present
from secvm_lab.online.population.crowd import Crowd, crowd
from secvm_lab.online.population.dice import ONE
from secvm_lab.online.population.plan import Learning, Plan
from secvm_lab.online.population.words import TitleWords
from secvm_lab.online.rounds import Malicious, OnlineRounds
from tests.unit.lab.online.people import by_packages, present, small

ROUNDS = 4
LEARNINGS = {
    "pegasos": Learning(rule=Pegasos(lambda_=Fraction(1, 3))),
    "thinned by q": Learning(rule=Pegasos(lambda_=Fraction(1, 3)), thinning=Thinning(q=Fraction(1, 3))),
    "swift": Learning(rule=Swift(step_size=Fraction(5)), thinning=Thinning(rho=Fraction(3, 2))),
    "clipped": Learning(rule=Pegasos(lambda_=Fraction(1, 3)), robust=Robust(clip=Fraction(1))),
}


def played(people: Crowd, experiment: Experiment, rounds: list[Present]) -> None:
    """Hold every round to its packages."""
    online = OnlineRounds(experiment, people, floor=people.plan.floor)
    for one, expected in zip(rounds, by_packages(people, experiment, rounds), strict=True):
        found = online.play(one)
        assert found.tally == expected.tally
        assert online.state.to_bytes() == expected.state


@pytest.mark.parametrize("learning", LEARNINGS.values(), ids=LEARNINGS)
@pytest.mark.parametrize("stragglers", [0.0, 0.4])
def test_counts_and_states_are_those_of_the_packages(learning: Learning, stragglers: float) -> None:
    plan = small(learning=learning, stragglers=stragglers)
    people = crowd(plan, plan.days)
    rounds = present(plan, people, ROUNDS)
    assert any(one.straggle.any() for one in rounds) == bool(stragglers)
    played(people, plan.experiment(), rounds)


@pytest.mark.parametrize("learning", [LEARNINGS["thinned by q"], LEARNINGS["swift"]])
def test_who_is_above_the_budget_is_cut_by_its_own_dice_whether_it_stays_or_goes(learning: Learning) -> None:
    plan = small(learning=learning, stragglers=0.4, budget=4)
    people = crowd(plan, plan.days)
    played(people, plan.experiment(), present(plan, people, ROUNDS))


def of_few(**changes: Any) -> tuple[Plan, Crowd, Experiment]:
    """A plan of few people, the people, and their experiment; nobody goes away before the end."""
    plan = small(**{"stragglers": 0.0, **changes})
    return plan, crowd(plan, plan.days), plan.experiment()


def nobody(people: Crowd) -> Present:
    return Present(np.zeros(len(people), dtype=np.bool_), np.full(len(people), ONE, dtype=np.int64))


def relayed(plan: Plan) -> Experiment:
    """The plan's question with two relays' cover, little of it."""
    plain = plan.experiment()
    cover = RelayCover(
        train=Noise(cells=2 * (plan.bins + 1), shape=Fraction(4), odds=Fraction(2)),
        participation=Noise(cells=4, shape=Fraction(4), odds=Fraction(1, 2)),
        test=Noise(cells=4, shape=Fraction(4), odds=Fraction(1)),
        parts=4,
        packages=4 * 150,
        train_share=plan.train_share,
    )
    return replace(plain, cover=cover, budget=2 + plan.words.per_person + 1)


@pytest.mark.parametrize("stragglers", [0.0, 0.4])
def test_with_relays_cover_a_device_sends_all_or_nothing_and_relays_add_their_parts(stragglers: float) -> None:
    plan = small(people=24, bins=8, learning=LEARNINGS["swift"], stragglers=stragglers)
    people = crowd(plan, plan.days).one_per_bin()
    rounds = present(plan, people, 3)
    assert any(one.straggle.any() for one in rounds) == bool(stragglers)
    played(people, relayed(plan), rounds)


def test_with_relays_cover_all_devices_count_for_the_floor_and_odd_counts_are_not_stepped_from() -> None:
    plan = small(people=24, bins=8, learning=LEARNINGS["swift"], stragglers=0.0)
    people = crowd(plan, plan.days).one_per_bin()
    (one,) = present(plan, people, 1)
    there = int(one.here.sum())
    for floor, abandoned in ((there, False), (there + 1, True)):
        assert OnlineRounds(relayed(plan), people, floor=floor).play(one).abandoned is abandoned
    liars = Malicious(people, plot="bias", share=0.5, quota=100_000)
    assert OnlineRounds(relayed(plan), people, floor=2, malicious=liars).play(one).abandoned


def test_below_the_floor_a_round_is_abandoned_and_the_state_stays() -> None:
    plan, people, experiment = of_few()
    (one,) = present(plan, people, 1)
    trained = int((one.here & people.train).sum())
    for here, floor, abandoned in ((one, trained, False), (one, trained + 1, True), (nobody(people), 1, True)):
        online = OnlineRounds(experiment, people, floor=floor)
        before = online.state.to_bytes()
        assert (online.play(here).ended is RoundState.ABANDONED) is abandoned
        assert (online.state.to_bytes() == before) is abandoned
        assert online.number == 1


def test_packages_that_say_something_are_counted_and_nulls_are_not() -> None:
    plan, people, experiment = of_few()
    (one,) = present(plan, people, 1)
    found = OnlineRounds(experiment, people, floor=2).play(one)
    trained, tested = int((one.here & people.train).sum()), int((one.here & ~people.train).sum())
    # In the first round every train person sends all of its twelve words and the bias.
    assert found.packages == trained * (1 + 13) + 2 * tested


def test_malicious_devices_send_within_the_quota_and_nothing_of_their_own() -> None:
    plan, people, experiment = of_few()
    assert experiment.budget is not None
    malicious = Malicious(people, plot="bias", share=0.2, quota=experiment.budget)
    one = present(plan, people, 1)[0]
    honest = OnlineRounds(experiment, people, floor=2).play(malicious.without(one)).tally
    poisoned = OnlineRounds(experiment, people, floor=2, malicious=malicious).play(one).tally
    there = int((one.here & malicious.who).sum())
    assert there > 0
    assert poisoned.plus[0, -1] - honest.plus[0, -1] == there * (experiment.budget - 1)
    assert np.array_equal(poisoned.minus, honest.minus)
    assert np.array_equal(poisoned.cells, honest.cells)
    assert poisoned.participants.sum() - honest.participants.sum() == there


def test_an_unknown_plot_is_one_sentence() -> None:
    _, people, _ = of_few()
    with pytest.raises(BadInputError, match="label flip"):
        Malicious(people, plot="nothing", share=0.1, quota=5)


def test_the_number_of_an_abandoned_round_is_spent() -> None:
    """The next round throws the dice of its own number: what is sent is thinned by them."""
    plan, people, experiment = of_few(learning=LEARNINGS["thinned by q"])
    played(people, experiment, [nobody(people), *present(plan, people, 2)])


def test_the_last_model_is_judged_by_the_weights_that_predict_on_all_test_people() -> None:
    plan, people, experiment = of_few()
    online = OnlineRounds(experiment, people, floor=2)
    for one in present(plan, people, 7):
        online.play(one)
    expected = np.zeros((2, 2), dtype=np.int64)
    values = aggregate.evaluation_weights(experiment, online.state).mantissas[0]
    rows = people.test_rows
    for place, number in enumerate(people.testers.tolist()):
        row = slice(rows.indptr[place], rows.indptr[place + 1])
        margin = int(values[rows.bins[row]].astype(np.int64) @ rows.values[row].astype(np.int64)) + int(values[-1])
        expected[people.people.labels[number], int(margin >= 0)] += 1
    assert np.array_equal(online.final_cells(), expected)


def test_a_two_cycle_is_watched_by_the_numbers_of_its_rounds() -> None:
    """People whose words say nothing, in few bins, swing; a round that was abandoned before has spent its number."""
    plan, people, experiment = of_few(words=TitleWords(per_person=30, vocabulary=128, signal=0.0), bins=4)
    online = OnlineRounds(experiment, people, floor=2)
    for one in (nobody(people), *present(plan, people, 12)):
        online.play(one)
    # After the round that was abandoned, and the first in which everybody violates.
    assert online.two_cycle.spells[0][0] == 3


def test_malicious_devices_learn_from_the_tallies_that_are_published() -> None:
    plan, people, experiment = of_few()
    assert experiment.budget is not None
    malicious = Malicious(people, plot="ten bins", share=0.2, quota=experiment.budget)
    online = OnlineRounds(experiment, people, floor=2, malicious=malicious)
    first, second = present(plan, people, 2)
    published = online.play(first).tally
    assert [seen.tolist() for seen in malicious.seen] == [np.stack([published.minus, published.plus], axis=-1).tolist()]
    found = online.play(second)
    assert found.steady == int((second.finish & ~malicious.who).sum()) < found.devices


def test_malicious_devices_know_what_their_own_people_would_send() -> None:
    _, people, _ = of_few()
    malicious = Malicious(people, plot="label flip", share=0.3, quota=50)
    own = malicious.own
    labels = people.people.labels[malicious.who]
    assert own[-1].tolist() == [int((labels == 0).sum()), int((labels == 1).sum())]
    # Twelve words each, of either cohort.
    assert own[:-1].sum(axis=0).tolist() == (12 * own[-1]).tolist()
