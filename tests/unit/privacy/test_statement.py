"""Statements: what an experiment tells, computed anew, in numbers and in words; the best attacker; the label leak."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.privacy.accounting.guarantee import auc_at_most
from secvm.privacy.leakage import auc_of, law, measured_leak, planned_leak
from secvm.privacy.statements.plain import Terms, as_text, state


def plain(**changes: Any) -> Terms:
    experiment = Experiment(n_bins=1000, labels=("a", "b"), rule=Pegasos(), features_per_person=20, budget=30)
    return replace(Terms(experiment=experiment, rounds=10, floor=5000), **changes)


# ── the best attacker ────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.floats(0, 20))
def test_pure_guarantee_leaves_the_attacker_of_randomised_response(epsilon: float) -> None:
    assert auc_at_most([(epsilon, 0.0)]) == pytest.approx(1 / (1 + math.exp(-epsilon)))


def test_no_guarantee_leaves_certainty_and_a_perfect_one_a_coin() -> None:
    assert auc_at_most([]) == 1.0
    assert auc_at_most([(0.0, 1.0)]) == 1.0
    assert auc_at_most([(0.0, 0.0)]) == 0.5
    assert auc_at_most([(1000.0, 0.0)]) == 1.0
    # Total variation v: a corner at (0, v) of the ROC curve, area (1 + v)(1 - v) / 2 + v.
    assert auc_at_most([(0.0, 0.4)]) == pytest.approx(0.5 + 0.4 - 0.08)


@given(
    st.lists(st.tuples(st.floats(0, 5), st.floats(0, 1)), max_size=6),
    st.tuples(st.floats(0, 5), st.floats(0, 1)),
)
def test_knowing_more_of_the_curve_never_helps_the_attacker(
    points: list[tuple[float, float]], more: tuple[float, float]
) -> None:
    assert 0.5 <= auc_at_most([*points, more]) <= auc_at_most(points) + 1e-12


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=5), st.lists(st.floats(0.01, 1), min_size=2, max_size=5))
def test_no_attacker_beats_the_curve_of_its_own_two_worlds(one: list[float], other: list[float]) -> None:
    size = min(len(one), len(other))
    p, q = (np.array(masses[:size]) / sum(masses[:size]) for masses in (one, other))

    def delta(epsilon: float) -> float:
        below = math.exp(epsilon)
        return float(max(np.maximum(p - below * q, 0).sum(), np.maximum(q - below * p, 0).sum()))

    # The best test ranks outcomes by their likelihood ratio; a tie counts half.
    ratio = p / q
    right = (ratio[:, None] > ratio[None, :]) + (ratio[:, None] == ratio[None, :]) / 2
    auc = float(p @ right @ q)
    curve = [(epsilon, delta(epsilon)) for epsilon in (0.0, 0.1, 0.3, 0.7, 1.5, 3.0)]
    assert auc <= auc_at_most(curve) + 1e-9


# ── the label's leak ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_two_labels_leak_by_the_printed_law() -> None:
    experiment = plain().experiment
    leak = planned_leak(experiment, train_participants=5000, rounds=10)
    assert leak is not None
    assert leak.d_squared == pytest.approx(10 * law(q=1, bins=1000, senders=(2500, 2500)))
    assert leak.auc == auc_of(leak.d_squared)
    assert leak.auc_corrected == pytest.approx(leak.auc, abs=0.02)


@pytest.mark.parametrize(
    ("multiclass", "sides"),
    # One-vs-rest: two models tell a from b, each with both signs. One-vs-one: one model with both, and one each with
    # the third label, in which a or b alone stands.
    [("ovr", 2 * (1 / 1000 + 1 / 2000)), ("ovo", 2 / 1000 + 2 / 1000)],
)
def test_more_labels_leak_in_every_model_that_tells_them_apart(multiclass: str, sides: float) -> None:
    experiment = Experiment(n_bins=100, labels=("a", "b", "c"), rule=Pegasos(), multiclass=multiclass)
    leak = planned_leak(experiment, train_participants=3000, rounds=1)
    assert leak is not None
    assert leak.d_squared == pytest.approx(100 * sides)


def test_measured_leak_counts_who_sent_by_the_bias() -> None:
    experiment = plain().experiment
    tally = aggregate.empty_tally(experiment)
    tally.plus[0, -1], tally.minus[0, -1] = 300, 200
    assert measured_leak(experiment, tally) == pytest.approx(law(q=1, bins=1000, senders=(300, 200)))
    empty = aggregate.empty_tally(experiment)
    assert measured_leak(experiment, empty) == pytest.approx(2000)


def test_numbers_as_labels_have_no_law() -> None:
    experiment = Experiment(
        n_bins=10,
        labels=("age",),
        rule=Pegasos(),
        loss=Loss("epsilon-insensitive", Fraction(1, 10)),
        features_per_person=2,
        budget=9,
    )
    assert planned_leak(experiment, train_participants=100, rounds=1) is None
    told = state(Terms(experiment=experiment, rounds=3, floor=10))
    assert told.leak is None
    assert "no law" in as_text(told)


# ── the statement ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_plain_statement_says_no_guarantee_public_tallies_and_its_leakage() -> None:
    told = state(plain(), bytes_per_package=100)
    text = as_text(told)
    assert "no formal guarantee" in text
    assert "Tallies are public" in text
    assert told.leak is not None
    assert f"{told.leak.auc:.2f} in all 10" in text
    assert told.content()["kind"] == "plain"
    assert told.content()["bytes_per_round"] == 3000
    assert not told.content()["formal"]


def test_one_round_is_said_as_one() -> None:
    assert "in its one round" in as_text(state(replace(plain(), rounds=1)))


def test_repro_a_person_who_may_fill_all_bins_is_not_said_to_hide() -> None:
    crowded = replace(plain().experiment, n_bins=300, features_per_person=400)
    leak = planned_leak(crowded, train_participants=3000, rounds=3)
    assert leak is not None
    assert leak.auc > 0.7
    assert leak.auc_corrected is None
