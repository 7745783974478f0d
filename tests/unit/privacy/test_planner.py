"""The planner: laws that every plan keeps, what it refuses, and that its numbers are the ones people will read."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.dashboard.plan import accuracy_table
from secvm.learning.thinning import Thinning
from secvm.participant import consent
from secvm.participant.device import DAILY_BYTES
from secvm.privacy import planner_remarks
from secvm.privacy.experiment_leak import planned_leak
from secvm.privacy.planned import Planned, experiment_of
from secvm.privacy.planner import cover_plan, guaranteed, quick
from secvm.privacy.planner_remarks import CoverWish, Wish
from secvm.privacy.statement import guarantee
from secvm.privacy.statement_text import words

TABLE = accuracy_table()
PLAIN = Wish(
    labels=2,
    participants=10_000,
    bins=1_000,
    features=100,
    rounds=10,
    floor=2_000,
    thinning=Thinning(rho=Fraction(1)),
    relay_modes=("round",),
)
COVERED = replace(PLAIN, cover=CoverWish(epsilon=2.0, participants=10_000))
#: Few cells and one round: a plan of it takes no seconds.
SMALL = replace(
    COVERED,
    features=5,
    bins=50,
    rounds=1,
    rule="pegasos",
    thinning=Thinning(),
)


def planned(wish: Wish) -> Planned:
    found = quick(wish, TABLE)
    assert found.refused == ()
    return found


def auc(wish: Wish) -> float:
    found = planned(wish).auc
    assert found is not None
    return found


def fields(found: Planned) -> list[str]:
    return [remark.field for remark in found.refused]


@given(bins=st.integers(200, 200_000), more=st.integers(0, 200_000))
def test_more_bins_tell_more(bins: int, more: int) -> None:
    assert auc(replace(PLAIN, bins=bins)) <= auc(replace(PLAIN, bins=bins + more))


@given(people=st.integers(3_000, 10**7), more=st.integers(0, 10**7))
def test_more_people_hide_more(people: int, more: int) -> None:
    assert auc(replace(PLAIN, participants=people)) >= auc(replace(PLAIN, participants=people + more))


@given(rounds=st.integers(1, 1_000), more=st.integers(0, 1_000))
def test_more_rounds_tell_more(rounds: int, more: int) -> None:
    assert auc(replace(PLAIN, rounds=rounds)) <= auc(replace(PLAIN, rounds=rounds + more))


@given(share=st.floats(0.01, 0.5))
def test_a_rare_label_hides_less(share: float) -> None:
    assert auc(replace(PLAIN, shares=(share, 1 - share))) >= auc(PLAIN) - 1e-12


@settings(deadline=None)
@given(epsilon=st.floats(0.05, 7.5), less=st.floats(0.3, 1.0))
def test_a_smaller_epsilon_needs_more_packages_costs_more_accuracy_and_tells_less(epsilon: float, less: float) -> None:
    def of(one: float) -> Planned:
        return planned(replace(COVERED, cover=CoverWish(epsilon=one, participants=10_000)))

    loose, tight = of(epsilon), of(epsilon * less)
    assert loose.budget is not None
    assert tight.budget is not None
    assert loose.cost is not None
    assert tight.cost is not None
    assert loose.auc is not None
    assert tight.auc is not None
    assert tight.budget >= loose.budget
    assert tight.cost.points >= loose.cost.points - 1e-9
    assert tight.auc <= loose.auc


@given(features=st.integers(1, 300), more=st.integers(0, 300))
def test_more_features_send_more(features: int, more: int) -> None:
    few, many = (planned(replace(PLAIN, features=one)).budget for one in (features, features + more))
    assert few is not None
    assert many is not None
    assert few <= many


NONSENSE: list[tuple[str, dict[str, Any]]] = [
    ("binning.bins", {"bins": 0}),
    ("binning.bins", {"bins": 2**24 + 1}),
    ("binning.hashes", {"hashes": 17}),
    ("features.per_participant", {"features": 0}),
    ("features.per_participant", {"features": 1_001}),
    ("features.per_participant", {"features": None}),
    ("rounds", {"rounds": 0}),
    ("labels", {"labels": 1}),
    ("participants", {"participants": 0}),
    ("floor", {"floor": 0}),
    ("floor", {"floor": 7_001}),
    ("budget", {"budget": 1}),
    ("shares", {"shares": (0.5, 0.6)}),
    ("train_share", {"train_share": Fraction(2)}),
    ("descent.thinning", {"thinning": Thinning()}),
]


@pytest.mark.parametrize(("field", "change"), NONSENSE)
def test_nonsense_is_refused_beside_its_field(field: str, change: dict[str, Any]) -> None:
    found = quick(replace(PLAIN, **change), TABLE)
    assert field in fields(found)
    assert all(remark.sentence.endswith(".") for remark in found.refused)
    assert found.content(bytes_per_package=1)["attacker"]["auc"] is None


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("privacy.epsilon", {"epsilon": 0.0}),
        ("privacy.epsilon", {"epsilon": -1.0}),
        ("privacy.epsilon", {"epsilon": 8.0}),
        ("privacy.delta", {"delta": 0.0}),
        ("privacy.delta", {"delta": 1.0}),
        ("privacy.gamma", {"gamma": Fraction(0)}),
        ("participants", {"participants": 1}),
    ],
)
def test_a_guarantee_that_is_none_is_refused(field: str, change: dict[str, Any]) -> None:
    assert COVERED.cover is not None
    assert fields(quick(replace(COVERED, cover=replace(COVERED.cover, **change)), TABLE)) == [field]


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("relays", {"relay_modes": ()}),
        ("relays", {"relay_modes": ("interval",)}),
        ("relays", {"relay_modes": ("round", "round")}),
        ("features.presence", {"presence": False}),
        ("features.per_participant", {"features": None}),
    ],
)
def test_a_guarantee_needs_its_surroundings(field: str, change: dict[str, Any]) -> None:
    assert fields(quick(replace(COVERED, **change), TABLE)) == [field]


def test_what_no_device_could_send_is_refused_in_one_sentence() -> None:
    found = quick(replace(COVERED, bins=2**24, cover=CoverWish(epsilon=0.01, participants=100), floor=60), TABLE)
    assert len(found.refused) == 1
    assert "65536 cover packages" in found.refused[0].sentence


def test_a_delta_of_one_in_all_participants_is_warned_of() -> None:
    found = planned(replace(COVERED, cover=CoverWish(epsilon=2.0, delta=1e-4, participants=10_000)))
    assert "privacy.delta" in [remark.field for remark in found.warned]
    assert "privacy.delta" not in [remark.field for remark in planned(COVERED).warned]


def test_a_great_leak_is_said_in_plain_words() -> None:
    said = [remark.sentence for remark in planned(replace(PLAIN, bins=20_000)).warned]
    assert any("whoever knows a person's features can tell the label" in one for one in said)
    assert any(one.startswith("Devices refuse it") for one in said)


def test_a_small_budget_is_warned_of_and_kept() -> None:
    found = planned(replace(PLAIN, budget=5))
    assert found.budget == 5
    assert found.warned[-1].field == "budget"


def test_the_leak_is_the_one_that_devices_are_told() -> None:
    found = planned(PLAIN)
    assert found.statement is not None
    assert found.floor_leak == found.statement.leak
    expected = planned_leak(experiment_of(PLAIN), train_participants=7_000.0, rounds=10)
    assert expected is not None
    assert found.auc == expected.auc
    told = found.content(bytes_per_package=100)
    assert told["statement"] == words(found.statement)
    assert found.budget is not None
    assert told["packages"]["bytes_total"] == found.budget * 10 * 100


def test_pegasos_has_no_number_for_its_accuracy_and_says_why() -> None:
    told = planned(replace(PLAIN, rule="pegasos", thinning=Thinning())).content(bytes_per_package=1)
    assert told["accuracy"]["points"] is None
    assert "swift" in told["accuracy"]["why"]


def test_without_a_log_cover_is_taken_for_nothing() -> None:
    found = planned(replace(COVERED, logged=False))
    assert found.auc == planned(replace(PLAIN)).auc
    assert not found.content(bytes_per_package=1)["formal"]


def test_a_guarantee_is_the_plan_itself_and_its_statement() -> None:
    found = guaranteed(SMALL, TABLE)
    made = cover_plan(SMALL)
    assert found.exact
    assert (found.budget, found.cover_mean) == (made.budget, float(made.cover.mean_packages))
    assert found.statement is not None
    assert found.statement.planned is not None
    assert found.statement.planned.epsilon == pytest.approx(made.achieved, rel=1e-3)
    assert found.auc == found.statement.planned.auc_curve


def test_repro_a_curve_gives_an_auc_also_where_label_flip_has_no_epsilon() -> None:
    # Caps leave no room for so great an ε at this δ, and the AUC was said to be 1.
    wish = replace(SMALL, features=20, rounds=10, cover=CoverWish(epsilon=6.0, participants=10_000))
    made = cover_plan(wish)
    told = guarantee(made.mechanism, made.honest, made.delta, curve=True)
    assert math.isinf(told.epsilon_flip)
    assert told.auc == 1
    assert told.auc_curve is not None
    assert told.auc_curve < 1


def test_a_budget_below_what_cover_needs_is_refused() -> None:
    found = guaranteed(replace(SMALL, budget=10), TABLE)
    assert fields(found) == ["budget"]
    assert f"{cover_plan(replace(SMALL, budget=10)).budget:,}" in found.refused[0].sentence


def test_what_devices_agree_to_is_what_the_planner_says_of_them() -> None:
    assert planner_remarks.DEVICE_AUC == consent.MOST_AUC
    assert planner_remarks.DEVICE_EPSILON == consent.MOST_EPSILON
    assert planner_remarks.DEVICE_FLOOR == consent.LEAST_FLOOR
    assert planner_remarks.DEVICE_ROUNDS == consent.MOST_ROUNDS
    assert planner_remarks.DEVICE_DAILY_BYTES == DAILY_BYTES
