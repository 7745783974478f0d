"""The planner: laws that every plan keeps, what it refuses, and that its numbers are the ones people will read."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.dashboard.plan import accuracy_table
from secvm.learning.aggregate.descent import AskedDescent, Swift
from secvm.learning.thinning import Thinning
from secvm.participant.consent import policies as consent
from secvm.participant.device import DAILY_BYTES
from secvm.privacy.leakage import planned_leak
from secvm.privacy.planning import wish as planner_remarks
from secvm.privacy.planning.planner import Planned, experiment_of, guaranteed, private_plan, quick
from secvm.privacy.planning.wish import RelayWish, Wish
from secvm.privacy.statements.plain import PrivacyStatement, words
from secvm.privacy.statements.relayed import RelayedStatement
from secvm.privacy.statements.relayed_text import words as relayed_words
from secvm.privacy.target import PrivacyTarget

TABLE = accuracy_table()
PLAIN = Wish(
    labels=2,
    people=10_000,
    bins=1_000,
    features=100,
    rounds=10,
    floor=2_000,
    descent=AskedDescent.read({"thinning": 1}),
    relays=(RelayWish(),),
)
TWO = (RelayWish("entry", "Entry e.V."), RelayWish("mix", "Mix Ltd."))
PRIVATE = replace(PLAIN, guarantee=PrivacyTarget(), relays=TWO, rounds=None, descent=AskedDescent.read({}))
#: Few looks and a large ε: a plan of it takes no seconds.
SMALL = replace(PRIVATE, features=5, bins=50, rounds=2, guarantee=PrivacyTarget(epsilon=Fraction(4)))


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


@pytest.mark.parametrize(
    ("field", "least", "most", "hides"),
    [("bins", 200, 200_000, -1), ("people", 3_000, 10**7, 1), ("rounds", 1, 1_000, -1)],
)
@given(data=st.data())
def test_more_people_hide_more_and_more_bins_and_rounds_tell_more(
    field: str, least: int, most: int, hides: int, data: st.DataObject
) -> None:
    few, more = sorted(data.draw(st.integers(least, most)) for _ in range(2))
    changed: list[dict[str, Any]] = [{field: few}, {field: more}]
    first, second = (auc(replace(PLAIN, **change)) for change in changed)
    assert hides * second <= hides * first


@given(share=st.floats(0.01, 0.5))
def test_a_rare_label_hides_less(share: float) -> None:
    assert auc(replace(PLAIN, shares=(share, 1 - share))) >= auc(PLAIN) - 1e-12


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
    ("people", {"people": 0}),
    ("floor", {"floor": 0}),
    ("floor", {"floor": 7_001}),
    ("budget", {"budget": 1}),
    ("shares", {"shares": (0.5, 0.6)}),
    ("train_share", {"train_share": Fraction(2)}),
    ("descent.thinning", {"descent": AskedDescent(rule=Swift(), thinning=Thinning())}),
]


@pytest.mark.parametrize(("field", "change"), NONSENSE)
def test_nonsense_is_refused_beside_its_field(field: str, change: dict[str, Any]) -> None:
    found = quick(replace(PLAIN, **change), TABLE)
    assert field in fields(found)
    assert all(remark.sentence.endswith(".") for remark in found.refused)
    assert found.content(bytes_per_package=1)["attacker"]["auc"] is None


def test_a_guarantee_that_protects_nobody_is_refused() -> None:
    assert fields(quick(replace(PRIVATE, guarantee=PrivacyTarget(Fraction(8))), TABLE)) == ["privacy.epsilon"]


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("relays", {"relays": ()}),
        ("relays", {"relays": (RelayWish(),)}),
        ("relays", {"relays": TWO[:1]}),
        ("relays", {"relays": (TWO[0], RelayWish("mix", " entry e.v."))}),
        ("features.presence", {"presence": False}),
        ("features.per_participant", {"features": None}),
        ("budget", {"budget": 77}),
    ],
)
def test_a_guarantee_needs_its_surroundings(field: str, change: dict[str, Any]) -> None:
    assert fields(quick(replace(PRIVATE, **change), TABLE)) == [field]


def test_what_no_relay_would_seal_is_refused_in_one_sentence() -> None:
    asked = PrivacyTarget(epsilon=Fraction(4), most_packages=1_000)
    found = guaranteed(replace(SMALL, guarantee=asked), TABLE)
    assert len(found.refused) == 1
    assert "1,000 are the limit" in found.refused[0].sentence


def test_a_delta_of_one_in_all_participants_is_warned_of() -> None:
    found = planned(replace(PRIVATE, guarantee=PrivacyTarget(delta=Fraction(1, 10_000))))
    assert "privacy.delta" in [remark.field for remark in found.warned]
    assert "privacy.delta" not in [remark.field for remark in planned(PRIVATE).warned]


def test_a_delta_above_the_devices_own_is_warned_of() -> None:
    found = planned(replace(PRIVATE, guarantee=PrivacyTarget(delta=Fraction(1, 100_000))))
    assert "Devices ask what holds at δ = 1e-06" in " ".join(remark.sentence for remark in found.warned)


def test_a_guarantee_says_at_once_what_a_device_sends_and_has_no_number_that_is_rough() -> None:
    found = planned(PRIVATE)
    assert (found.exact, found.budget) == (False, 103)
    told = found.content(bytes_per_package=128)
    assert told["packages"]["bytes_per_round"] == 103 * 128
    assert (told["attacker"]["auc"], told["plan"], told["statement"], told["curve"]) == (None, None, [], [])
    assert "one of Entry e.V. (the entry relay) and Mix Ltd." in told["rests_on"]


def test_a_great_leak_is_said_in_plain_words() -> None:
    said = [remark.sentence for remark in planned(replace(PLAIN, bins=20_000)).warned]
    assert any("whoever knows a person's features can tell the label" in one for one in said)
    assert any(one.startswith("Devices refuse it") for one in said)


def test_repro_a_plain_experiment_was_planned_as_if_devices_took_it() -> None:
    said = [
        remark.sentence for remark in planned(replace(PLAIN, people=10**6, floor=500_000, bins=200, rounds=1)).warned
    ]
    assert any(one.startswith("Devices refuse it") and "no guarantee" in one for one in said)


def test_a_small_budget_is_warned_of_and_kept() -> None:
    found = planned(replace(PLAIN, budget=5))
    assert found.budget == 5
    assert found.warned[-1].field == "budget"


def test_the_leak_is_the_one_that_devices_are_told() -> None:
    found = planned(PLAIN)
    assert isinstance(found.statement, PrivacyStatement)
    assert found.floor_leak == found.statement.leak
    expected = planned_leak(experiment_of(PLAIN), train_participants=7_000.0, rounds=10)
    assert expected is not None
    assert found.auc == expected.auc
    told = found.content(bytes_per_package=100)
    assert told["statement"] == words(found.statement)
    assert found.budget is not None
    assert told["packages"]["bytes_total"] == found.budget * 10 * 100


def test_pegasos_has_no_number_for_its_accuracy_and_says_why() -> None:
    told = planned(replace(PLAIN, descent=AskedDescent.read({"rule": "pegasos"}))).content(bytes_per_package=1)
    assert told["accuracy"]["points"] is None
    assert "swift" in told["accuracy"]["why"]


def test_a_guarantee_is_the_plan_itself_and_its_statement() -> None:
    found = guaranteed(SMALL, TABLE)
    made = private_plan(SMALL)
    assert found.exact
    assert (found.budget, found.rounds) == (made.plan.budget, 2)
    assert isinstance(found.statement, RelayedStatement)
    assert found.statement.planned is not None
    assert found.statement.planned.epsilon == pytest.approx(made.plan.achieved, rel=1e-3)
    assert found.auc == found.statement.risk
    told = found.content(bytes_per_package=128)
    assert told["plan"]["packages"] == made.plan.cover.packages
    assert told["statement"] == relayed_words(found.statement)
    assert told["accuracy"]["by_noise"] > 0


def test_a_guarantee_without_a_usable_model_is_warned_of_and_not_refused() -> None:
    found = guaranteed(replace(SMALL, people=200, floor=20), TABLE)
    assert found.refused == ()
    assert [one.sentence.partition(":")[0] for one in found.warned if one.field == "people"] == [
        "Private, and no usable model"
    ]


def test_a_plan_is_kept() -> None:
    assert private_plan(SMALL) is private_plan(replace(SMALL, vocabulary=77))


def test_what_devices_agree_to_is_what_the_planner_says_of_them() -> None:
    assert planner_remarks.DEVICE_EPSILON == consent.MOST_EPSILON
    assert planner_remarks.DEVICE_ROUNDS == consent.MOST_ROUNDS
    assert planner_remarks.DEVICE_DAILY_BYTES == DAILY_BYTES
