"""Plans of relays' cover: the sizes that the protocol was chosen with, and the laws that a plan keeps."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from secvm.errors import BadExperimentError
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning
from secvm.privacy.accounting.accountant import Adjacency
from secvm.privacy.accounting.relay_cover import contribution_of, log_overflow, relay_mechanism
from secvm.privacy.planning.noise_settings import noise_settings
from secvm.privacy.planning.relay_plan import RelayPlan, RelayQuestion, plan_relays, question_for
from secvm.privacy.target import PrivacyTarget

ONE = PrivacyTarget(Fraction(1))
#: Quick: one round, few cells, much ε.
SMALL = RelayQuestion(
    target=PrivacyTarget(Fraction(4)), people=1000, bins=40, features=5, rounds=1, thinning=Thinning()
)


@cache
def planned(question: RelayQuestion = SMALL) -> RelayPlan:
    return plan_relays(question)


def test_a_plan_keeps_what_was_asked_with_all_parts_of_delta() -> None:
    made = planned()
    assert made.mechanism.delta(4.0) <= 1e-6
    assert made.achieved <= 4
    assert made.mechanism.epsilon(delta=1e-6) == pytest.approx(made.achieved)
    assert made.mechanism.epsilon(delta=1e-6, adjacency=Adjacency.LABEL_FLIP) > made.achieved


def test_smaller_odds_or_fewer_packages_do_not_keep_it() -> None:
    made = planned()
    cover = made.cover
    weaker = replace(cover, train=replace(cover.train, odds=cover.train.odds - Fraction(1, 32)))
    mechanism = relay_mechanism(made.question.contribution, weaker)
    assert mechanism.delta(4.0) > 0.9e-6
    # So that the label's ε, at most twice as large, has a δ as well.
    allowed = math.log(1e-6 / 2 / ((1 + math.exp(8)) * 9))
    assert log_overflow(cover.kinds, 9, cover.part_packages) <= allowed
    assert log_overflow(cover.kinds, 9, cover.part_packages - 1) > allowed


def test_repro_overflow_took_all_of_delta_at_the_labels_epsilon() -> None:
    made = planned(replace(SMALL, target=PrivacyTarget(Fraction(6), SMALL.target.delta)))
    flip = made.mechanism.epsilon(delta=float(SMALL.target.delta), adjacency=Adjacency.LABEL_FLIP)
    assert made.achieved < flip < 12


def test_nobody_else_is_counted_on() -> None:
    assert planned(replace(SMALL, people=10)).cover == planned().cover


def test_an_experiment_takes_the_plan() -> None:
    made = planned()
    experiment = Experiment(
        n_bins=40,
        labels=("a", "b"),
        rule=Pegasos(),
        features_per_person=5,
        budget=made.budget,
        cover=made.cover,
        thinning=Thinning(q=Fraction(1)),
    )
    assert experiment.cover == made.cover
    assert replace(contribution_of(experiment, rounds=1), thinning=Thinning()) == made.question.contribution


def test_a_number_has_no_test_cells() -> None:
    made = planned(replace(SMALL, labels=1))
    assert made.cover.test is None
    assert made.cover.participation.cells == 2


def test_too_many_packages_are_refused_with_what_to_change() -> None:
    with pytest.raises(BadExperimentError, match=r"1,000 are the limit: fewer bins or models \(82 train cells now\)"):
        plan_relays(replace(SMALL, target=replace(SMALL.target, most_packages=1000)))


@pytest.mark.parametrize(
    "wrong", [{"people": 0}, {"bins": 0}, {"rounds": 0}, {"labels": 0}, {"train_share": Fraction(2)}]
)
def test_a_question_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadExperimentError):
        replace(SMALL, **wrong)


def test_a_delta_below_the_samplers_error_is_refused() -> None:
    with pytest.raises(BadExperimentError, match="sampler"):
        plan_relays(replace(SMALL, target=PrivacyTarget(Fraction(30), Fraction(1, 10**6))))


def test_rounds_and_thinning_are_chosen_where_they_are_not_given() -> None:
    question, chosen = question_for(target=ONE, people=100, bins=40, features=5)
    # Both relays' noise is in the tally, and one relay's would do.
    assert chosen == noise_settings(people=70, bins=40, contribution=5, epsilon=1.0, delta=1e-6, covers=2)
    assert (question.rounds, question.thinning) == (chosen.rounds, chosen.thinning)
    given, _ = question_for(target=ONE, people=100, bins=40, features=5, rounds=7)
    assert given.rounds == 7


# ── what is asked for ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_target_is_the_rational_that_somebody_meant() -> None:
    assert PrivacyTarget(0.1, 1e-6) == PrivacyTarget(Fraction(1, 10), Fraction(1, 10**6))  # type: ignore[arg-type]
    assert str(PrivacyTarget(Fraction(1, 2))) == "ε = 0.5, δ = 1e-06"


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 0.1), (-1, 0.1), (33, 0.1), (1, 0), (1, 1), (1, 2)])
def test_a_target_that_nobody_could_state_is_refused(epsilon: int, delta: float) -> None:
    with pytest.raises(BadExperimentError, match="must be a number"):
        PrivacyTarget(Fraction(epsilon), Fraction(delta))
