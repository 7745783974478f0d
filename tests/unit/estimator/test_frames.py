"""Data frames as people have them: what each kind of column becomes, and that a saved model knows it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from secvm.errors import BadInputError
from secvm.estimator import FeatureBinner, SecVMClassifier
from secvm.estimator.frames.edges import GRID, interval_of, interval_words
from secvm.estimator.frames.plan import FramePlan

PEOPLE: dict[str, list[Any]] = {
    "city": ["Rome", "New  York", None, "Rome"],
    "age": [20, 40, 60, None],
    "member": [True, False, None, True],
    "joined": [date(2024, 3, 5), datetime(2023, 12, 31, 23, tzinfo=UTC), None, date(2024, 3, 4)],
    "tags": [["new", "new"], [], None, ("old",)],
}


def words(X: Any, **asked: Any) -> list[dict[str, int]]:
    return [dict(person) for person in FramePlan.learn(X, **asked).features(X).by_person()]


def mixed(n: int = 300, *, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """People whose label hangs on an age, a city and a day."""
    rng = np.random.default_rng(seed)
    age, city = rng.integers(18, 90, n), rng.choice(["Rome", "Oslo", "Lima"], n)
    day = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), unit="D")
    frame = pd.DataFrame({"age": age, "city": city, "joined": day, "member": rng.random(n) < 0.5})
    return frame, np.where((age - 54) / 20 + (city == "Rome") * 1.5 + (day.year == 2024) - 0.8 > 0, "yes", "no")


def test_columns_become_words_and_levels() -> None:
    # Of the ages 20, 40, 60 the knots are all three.
    assert words(PEOPLE) == [
        {
            "city=Rome": 1,
            "age@20": 4,
            "member=true": 1,
            "joined.year=2024": 1,
            "joined.month=3": 1,
            "joined.weekday=tuesday": 1,
            "tags=new": 2,
        },
        {"city=New York": 1, "age@40": 4, "joined.year=2023": 1, "joined.month=12": 1, "joined.weekday=sunday": 1},
        {"city=": 1, "age@60": 4, "joined=": 1, "tags=": 1},
        {
            "city=Rome": 1,
            "age=": 1,
            "member=true": 1,
            "joined.year=2024": 1,
            "joined.month=3": 1,
            "joined.weekday=monday": 1,
            "tags=old": 1,
        },
    ]


def test_a_frame_is_the_same_whoever_made_it() -> None:
    by_pandas = pd.DataFrame(PEOPLE)
    by_pandas["joined"] = pd.to_datetime(pd.Series([str(d)[:10] if d else None for d in PEOPLE["joined"]]))
    by_pandas["city"] = by_pandas["city"].astype("category")
    by_pandas["age"] = by_pandas["age"].astype("Int64")
    by_pandas["member"] = by_pandas["member"].astype("boolean")
    assert words(by_pandas) == words({**PEOPLE, "city": ["Rome", "New York", None, "Rome"]})
    assert words({"age": [Decimal(20), 40.0, np.int8(60), np.nan]}) == words({"age": PEOPLE["age"]})


def test_repro_zero_one_columns_of_booleans_are_what_they_were() -> None:
    flags = pd.DataFrame({"a": [True, False, True], "b": [False, True, True]})
    binner = FeatureBinner(n_bins=None).fit(flags)
    assert binner.transform(flags).toarray().tolist() == [[1, 0], [0, 1], [1, 1]]
    assert binner.get_feature_names_out().tolist() == ["a", "b"]


def test_text_of_several_words_is_split_where_hardly_anybody_shares_it() -> None:
    reviews = ["A good, good film", "What a bad film!", "Too long, and bad", "As good as bread"]
    found = words({"review": reviews})
    assert found[0] == {"review=a": 1, "review=good": 2, "review=film": 1}
    assert words({"review": reviews}, public=True)[0] == {"review=A good, good film": 1}
    assert words({"city": ["Rome", "Oslo", "Lima"]})[2] == {"city=Lima": 1}


def test_repro_texts_that_nobody_shares_were_learnt_from_without_a_word() -> None:
    people = {"account": [f"u{i}" for i in range(40)], "city": ["Rome", "Oslo"] * 20}
    with pytest.warns(UserWarning, match="column 'account' holds texts that hardly two people share") as said:
        SecVMClassifier(rounds=1).fit(people, ["n", "s"] * 20)
    assert len(said) == 1
    reviews = {"review": [f"what a good film is number {i}" for i in range(40)]}
    assert list(FramePlan.learn(reviews).doubts()) == []
    assert "'review'" in next(FramePlan.learn(reviews, public=True).doubts())
    assert list(FramePlan.learn({"city": ["Rome", "Oslo", "Lima"]}).doubts()) == []


def test_numbers_are_binned_by_edges_that_were_given_or_by_public_ones() -> None:
    ages = {"age": [0, 1, 17.9, 18, 65, -4, None]}
    given = [next(iter(person), "") for person in words(ages, edges={"age": [18, 65]})]
    assert given == ["age<18", "age<18", "age<18", "age=[18,65)", "age>=65", "age<18", "age="]
    equal = [next(iter(person), "") for person in words(ages, edges={"age": (0, 100)})]
    assert equal == ["age=[0,10)", "age=[0,10)", "age=[10,20)", "age=[10,20)", "age=[60,70)", "age<0", "age="]
    usual = [next(iter(person), "") for person in words(ages, public=True)]
    assert usual == ["", "age", "age=[15,20)", "age=[15,20)", "age=[60,70)", "age=[-4,-3)", "age="]


def test_numbers_lie_between_knots_in_quarters() -> None:
    column = {"x": [10.0 * k for k in range(101)]}
    people = words(column)
    assert FramePlan.learn(column).columns[0].edges == (10.0, 500.0, 990.0)
    assert people[0] == people[1] == {"x@10": 4}
    assert people[13] == {"x@10": 3, "x@500": 1}
    assert people[75] == {"x@500": 2, "x@990": 2}
    assert people[100] == {"x@990": 4}
    many = FramePlan.learn({"x": np.arange(2000.0)})
    assert many.columns[0].edges == (19.0, 499.0, 999.0, 1499.0, 1979.0)


def test_counts_stay_and_where_most_are_zero_zero_is_no_feature() -> None:
    assert words({"rain": [0, 0, 7]}) == [{}, {}, {"rain": 7}]
    assert words({"paid": [0.0, 0.0, 0.0, 0.5, 1.0]}) == [{}, {}, {}, {"paid@1": 2}, {"paid@1": 4}]


def test_public_edges_hold_every_number() -> None:
    names = interval_words("x", GRID)
    assert len(set(names)) == len(names) == len(GRID) + 1
    extremes = np.array([-1e300, -1e-300, 1e-300, 0.001, 1e13, 1e300])
    assert [names[k] for k in interval_of(extremes, GRID)] == [
        "x<-9000000000000",
        "x=[-0.001,0.001)",
        "x=[-0.001,0.001)",
        "x=[0.001,0.0015)",
        "x>=9000000000000",
        "x>=9000000000000",
    ]


def test_nothing_of_a_public_plan_follows_from_peoples_values() -> None:
    some, _ = mixed(seed=1)
    others, _ = mixed(seed=2)
    plans = [FramePlan.learn(frame, public=True) for frame in (some, others)]
    assert plans[0] == plans[1]


@pytest.mark.parametrize("n_bins", [None, 200])
def test_a_saved_model_knows_what_columns_become(tmp_path: Path, n_bins: int | None) -> None:
    X, y = mixed()
    fresh, truth = mixed(seed=1)
    model = SecVMClassifier(n_bins=n_bins, edges={"age": (18, 90)}, random_state=0).fit(X, y)
    assert model.score(fresh, truth) > 0.85
    assert list(model.feature_names_in_) == ["age", "city", "joined", "member"]
    model.save(tmp_path / "m")
    again = SecVMClassifier.load(tmp_path / "m")
    assert (again.decision_function(fresh) == model.decision_function(fresh)).all()
    again.save(tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()
    # The order of columns does not matter, nor do others.
    turned = fresh[fresh.columns[::-1]].assign(other=1)
    assert (again.decision_function(turned) == model.decision_function(fresh)).all()


def test_people_of_the_test_cohort_change_nothing() -> None:
    X, y = mixed(40)
    strangers = pd.DataFrame({"age": [1e9], "city": ["Atlantis"], "joined": [pd.NaT], "member": [True]})
    alone = SecVMClassifier(rounds=5, dice_seed=b"s").fit(X, y)
    among = SecVMClassifier(rounds=5, dice_seed=b"s").fit(
        pd.concat([X, strangers], ignore_index=True), [*y, "no"], cohorts=["train"] * 40 + ["test"]
    )
    assert among.state_.to_bytes() == alone.state_.to_bytes()


WRONG: dict[str, tuple[Any, dict[str, Any], str]] = {
    "mixed": ({"x": ["a", 1]}, {}, "column 'x' mixes number and words"),
    "lists and text": ({"x": [["a"], "b"]}, {}, "column 'x' mixes lists and words; give lists of words to everybody"),
    "lists and dicts": ({"x": [["a"], {"b": 1}]}, {}, "column 'x' mixes dict and lists; give lists of words"),
    "another type": ({"x": [object()]}, {}, "column 'x' holds values of the type object; give text"),
    "complex": ({"x": np.array([1j])}, {}, "column 'x' holds values of the type complex"),
    "infinity": ({"x": [1.0, np.inf]}, {}, "column 'x' holds infinity"),
    "lengths": ({"x": [1], "y": [1, 2]}, {}, "column 'y' has 2 values, column 'x' 1"),
    "no columns": ({}, {}, "no columns"),
    "twice": (pd.DataFrame([[1, "a"]], columns=["x", "x"]), {}, "two columns are called 'x'"),
    "edges of nothing": ({"x": [1]}, {"edges": {"y": [1]}}, "edges are given for 'y', and there is no such column"),
    "edges of text": ({"x": ["a"]}, {"edges": {"x": [1]}}, "edges are given for 'x', which holds text"),
    "falling edges": ({"x": [1]}, {"edges": {"x": [2, 1]}}, "edges of 'x' must be a rising list of numbers"),
    "three ends": ({"x": [1]}, {"edges": {"x": (1, 2, 3)}}, r"or a pair \(low, high\)"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_column_that_cannot_be_used_is_named(wrong: str) -> None:
    X, asked, sentence = WRONG[wrong]
    with pytest.raises(BadInputError, match=sentence):
        FeatureBinner(n_bins=None, **asked).fit(X)


def test_another_frame_than_the_one_that_was_learnt_is_refused() -> None:
    X, y = mixed(40)
    model = SecVMClassifier(rounds=2).fit(X, y)
    with pytest.raises(BadInputError, match="columns that are not there: city, joined"):
        model.predict(X[["age", "member"]])
    with pytest.raises(BadInputError, match="column 'age' held numbers when the model was fitted, and text now"):
        model.predict(X.assign(age="old"))
    with pytest.raises(BadInputError, match="fitted on a data frame"):
        model.predict(np.zeros((2, 4)))
    # A column without a value is as good as any; a word may be written as a number.
    assert len(model.predict(X.assign(age=None, joined=None, city=7))) == 40
