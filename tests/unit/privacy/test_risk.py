"""Risk: one number from the whole curve, rounded up, and true of every bet."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.learning.losses import Loss
from secvm.privacy.accounting.accountant import Adjacency
from secvm.privacy.accounting.guarantee import auc_at_most, auc_of_curve, variation_of
from secvm.privacy.risk import CERTAIN, in_words, risk_of, times_in_ten, together, up
from tests.there import there
from tests.unit.privacy.enumerated import negative_binomial
from tests.unit.privacy.test_relayed_statement import COVER, EXPERIMENT, TERMS, stated


@given(st.floats(0.5, 1))
def test_rounding_never_says_less_than_the_number(risk: float) -> None:
    times = Fraction(f"{times_in_ten(risk):.1f}")
    assert Fraction(risk) * 10 <= times < Fraction(risk) * 10 + Fraction(1, 10)
    assert Fraction(risk) <= Fraction(f"{up(risk, 1000):.3f}") < Fraction(risk) + Fraction(1, 1000)


def test_a_coin_is_five_and_certainty_ten() -> None:
    assert (times_in_ten(0.5), times_in_ten(0.5863), times_in_ten(0.9901), times_in_ten(1.0)) == (5, 5.9, 10, 10)


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6), st.lists(st.floats(0.01, 1), min_size=2, max_size=6))
def test_no_bet_between_two_answers_is_right_more_often_than_the_auc(one: list[float], other: list[float]) -> None:
    size = min(len(one), len(other))
    p, q = (np.array(masses[:size]) / sum(masses[:size]) for masses in (one, other))
    # Of every outcome the better bets on the answer that makes it likelier; both answers are as likely before.
    right = float(np.maximum(p, q).sum()) / 2
    ratio = p / q
    auc = float(p @ ((ratio[:, None] > ratio[None, :]) + (ratio[:, None] == ratio[None, :]) / 2) @ q)
    assert right <= auc + 1e-12


def test_the_best_bet_on_one_enumerated_cell_of_each_answer_is_within_the_risk() -> None:
    mechanism = there(replace(TERMS, experiment=replace(EXPERIMENT, features_per_person=1), rounds=1).mechanism)
    here = there(mechanism.participation)
    cell = negative_binomial(here.shape, here.p, 1500)
    with_a_unit, without = np.append(0.0, cell), np.append(cell, 0.0)
    one, other = np.multiply.outer(with_a_unit, without), np.multiply.outer(without, with_a_unit)
    assert 0.5 < float(np.maximum(one, other).sum()) / 2 <= auc_of_curve(mechanism)


def test_the_number_is_that_of_the_whole_curve_and_of_no_delta() -> None:
    told, mechanism = stated(), there(TERMS.mechanism)
    points = [(epsilon, mechanism.delta(epsilon, adjacency=Adjacency.LABEL_FLIP)) for epsilon in (0.0, 0.4, 1.1, 2.4)]
    assert 0.5 < told.risk <= auc_at_most(points) + 1e-5
    own, planned = there(told.own), there(told.planned)
    assert own.auc == planned.auc == told.risk
    assert told.risk < 1 / (1 + math.exp(-own.epsilon_flip)), "(ε, δ) at one point says far less than the curve"


def test_where_nothing_is_guaranteed_the_risk_is_certainty() -> None:
    assert risk_of(None) == CERTAIN
    assert stated(replace(TERMS, experiment=replace(EXPERIMENT, cover=None))).risk == CERTAIN
    faint = replace(COVER, train=replace(COVER.train, odds=Fraction(1, 1000)))
    assert stated(replace(TERMS, experiment=replace(EXPERIMENT, cover=faint))).risk > 0.99


@pytest.mark.parametrize(
    ("labels", "loss", "bet"),
    [
        (("a", "b"), EXPERIMENT.loss, "bets on your answer"),
        (("a", "b", "c"), EXPERIMENT.loss, "between your answer and another one"),
        (("a",), Loss("epsilon-insensitive", Fraction(1, 10)), "between your number and another one"),
    ],
)
def test_the_words_name_the_bet_that_the_number_is_of(labels: tuple[str, ...], loss: Loss, bet: str) -> None:
    experiment = replace(EXPERIMENT, labels=labels, cover=None, loss=loss)
    assert bet in in_words(0.5863, experiment)
    assert "at most 5.9 times in 10; 5 is a coin toss" in in_words(0.5863, experiment)
    assert "10 times in 10" in in_words(1.0, experiment)


def test_several_experiments_are_never_less_than_one_of_them_nor_than_two_in_one() -> None:
    mechanism = there(TERMS.mechanism)
    one, two = (there(replace(TERMS, rounds=rounds).mechanism) for rounds in (1, 2))
    assert two == mechanism
    each = auc_of_curve(one), variation_of(one)
    assert together([]) == 0.5
    assert together([each]) == each[0] < auc_of_curve(two) <= together([each, each])
    assert together([each, (CERTAIN, 1.0)]) == CERTAIN
