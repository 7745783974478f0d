"""The table of accuracies: monotone between its places, said where it ends, and near what is measured anew."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import planner
from secvm.dashboard.plan import accuracy_table
from secvm.errors import BadInputError
from secvm.privacy.planning.accuracy_cost import AccuracyTable, ExpectedCost

TABLE = accuracy_table()
USUAL: dict[str, Any] = {"people": 7_000, "bins": 1_000, "features": 100, "rounds": 10, "noise": 0.0, "q": 0.3}


def expected(**changes: Any) -> ExpectedCost:
    return TABLE.expected(**USUAL | changes)


@given(bins=st.integers(1, 10**6), more=st.integers(0, 10**6))
def test_more_bins_do_not_cost_accuracy_where_there_is_no_noise(bins: int, more: int) -> None:
    assert expected(bins=bins + more, rounds=30).accuracy >= expected(bins=bins, rounds=30).accuracy - 1e-12


@given(features=st.integers(1, 299), more=st.integers(0, 1_000))
def test_more_features_do_not_cost_accuracy(features: int, more: int) -> None:
    # Thinned alike: a person with more features would else send each with a smaller chance.
    fewer, many = (
        expected(features=one, q=min(1.0, 3 / math.sqrt(min(one, 300) + 1))) for one in (features, features + more)
    )
    assert many.accuracy >= fewer.accuracy - 1e-12


@given(noise=st.floats(0, 2), more=st.floats(0, 2), bins=st.integers(1, 10**5), rounds=st.integers(1, 100))
def test_more_noise_never_helps(noise: float, more: float, bins: int, rounds: int) -> None:
    quiet, loud = (
        expected(noise=noise, bins=bins, rounds=rounds),
        expected(noise=noise + more, bins=bins, rounds=rounds),
    )
    assert loud.accuracy <= quiet.accuracy + 1e-12


@given(q=st.floats(0.01, 1), share=st.floats(0.01, 1))
def test_sending_less_does_not_help(q: float, share: float) -> None:
    assert expected(q=q * share).accuracy <= expected(q=q).accuracy + 1e-12


def test_everything_it_costs_adds_up() -> None:
    found = expected(noise=0.05)
    assert found.central - found.accuracy == pytest.approx(found.by_hashing + found.by_noise)
    assert found.points == pytest.approx(100 * (found.central - found.accuracy))


def test_what_lies_beyond_the_table_is_said() -> None:
    assert expected().beyond == ()
    assert "measured" not in expected().sentence
    beyond = ("more than 30,000 people who train", "more than 10,000 bins", "fewer than 3 rounds", "more noise")
    assert expected(people=10**6, bins=10**6, rounds=1, noise=3.0).beyond == beyond
    assert expected(noise=3.0).sentence.endswith(
        " Nothing was measured for more noise: computed at the edge of what was, so it may be better or worse."
    )
    assert expected(people=10**6).accuracy == expected(people=10**7).accuracy
    # Who has more words than the people of the table is taken for one of them.
    assert expected(features=None) == expected(features=10**6)


def test_repro_few_words_in_few_bins_have_no_forecast_instead_of_a_coin_toss() -> None:
    # The table's people have thousands of words: in 16 bins those are a coin toss, and a few words are not.
    for found in (expected(bins=16), expected(features=4)):
        assert not found.is_forecast
        assert found.sentence.startswith("No forecast: nothing was measured for fewer than ")
        assert found.content()["forecast"] is False
    assert expected().is_forecast
    assert expected(people=1, rounds=1).is_forecast


def test_the_table_says_how_it_was_made_and_is_small() -> None:
    content = TABLE.content
    assert content["command"] == "./secvm bench planner --seeds 3 --seed 1 --write"
    assert content["seeds"] == [1, 2, 3]
    assert len(json.dumps(content)) < 30_000
    assert tuple(content["plain"]["bins"]) == planner.BINS
    assert tuple(content["noise"]["noise"]) == planner.NOISE


def test_a_table_that_does_not_fit_its_axes_is_refused() -> None:
    content = json.loads(json.dumps(TABLE.content))
    content["plain"]["bins"].pop()
    with pytest.raises(BadInputError):
        AccuracyTable(content)
    with pytest.raises(BadInputError):
        AccuracyTable({"central": {}})


@pytest.mark.parametrize("check", TABLE.content["checks"], ids=str)
def test_the_planner_expects_what_other_settings_and_real_cover_reached(check: dict[str, float]) -> None:
    features = int(check["features"])
    found = TABLE.expected(
        people=check["train"],
        bins=int(check["bins"]),
        features=features,
        rounds=int(check.get("rounds", planner.ROUNDS)),
        noise=check["noise"],
        q=min(1.0, check.get("rho", 3.0) / math.sqrt(features + 1)),
    )
    assert found.central == pytest.approx(check["central"], abs=0.01)
    assert found.accuracy == pytest.approx(check["accuracy"], abs=0.035)
