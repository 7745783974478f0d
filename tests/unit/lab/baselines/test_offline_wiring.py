"""The baselines as a part of the offline evaluation: some of the people, some of the splits, kept way by way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from secvm.learning.rows import BinnedRows
from secvm_lab.paper.offline import baselines as part
from secvm_lab.paper.offline import report
from secvm_lab.paper.offline.baselines import Way, ways
from secvm_lab.paper.offline.crowd import Crowd, FileCrowd, MadeUpCrowd
from secvm_lab.paper.offline.models import Stored
from secvm_lab.paper.offline.settings import Settings
from secvm_lab.paper.offline.splits import Splits
from secvm_lab.paper.twitter.people import TwitterPeople


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ways that take no time, and few people."""

    def two(**asked: Any) -> list[Way]:
        return [way for way in ways(**asked, epsilons=(4.0,)) if way.name in ("averaged SGD", "local DP, ε = 4")]

    monkeypatch.setattr(part, "ways", two)
    monkeypatch.setattr(part, "MOST_PEOPLE", 150)


def _settings(crowd: Crowd, splits: int = 5) -> Settings:
    drawn = Splits.draw(crowd.n_people, splits, 1)
    return Settings(crowd=crowd, splits=drawn, figures=("baselines",), rounds=5, salt=b"salt", seed=b"seed")


def _made_up(n_people: int) -> MadeUpCrowd:
    return MadeUpCrowd(TwitterPeople(n_people=n_people, words_per_person=20, vocabulary=2_000, signal=2.0), seed=1)


def test_some_people_and_splits_are_taken_and_it_is_said(tmp_path: Path) -> None:
    settings = _settings(_made_up(200))
    labels = settings.crowd.labels()
    stored, done = Stored(tmp_path), list[int]()
    assert part.work(settings, stored) == 2 * 3 * 5
    found = part.result(settings, labels, stored, done.append)
    assert done == [5] * 6
    assert (found["people"], found["of_people"], found["splits"], found["of_splits"]) == (150, 200, 3, 5)
    assert [entry["name"] for entry in found["entries"]] == ["averaged SGD", "local DP, ε = 4"]
    assert list(found["entries"][0]["recall"]) == ["0", "1"]
    assert part.work(settings, Stored(tmp_path)) == 0
    assert next(report._baselines(found)).startswith("Other ways: 150 of 200 people, 3 of 5 splits")


def test_who_asks_again_gets_the_same_without_anybodys_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _settings(_made_up(120), splits=2)
    labels = settings.crowd.labels()
    first = part.result(settings, labels, Stored(tmp_path))

    def never(*_: Any, **__: Any) -> BinnedRows:
        raise AssertionError("nobody needs rows")

    monkeypatch.setattr(MadeUpCrowd, "rows", never)
    assert part.result(settings, labels, Stored(tmp_path)) == first


def test_a_file_in_the_order_of_its_labels_is_sampled(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    people = [
        {"label": label, "features": [f"w{label}{i % 7}", f"x{i % 5}"]} for label in ("a", "b") for i in range(150)
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in people), "utf-8")
    crowd = FileCrowd.open(path)
    settings = _settings(crowd, splits=1)
    found = part.result(settings, crowd.labels(), Stored(None))
    assert found["people"] == 150
    assert found["bins"] is None
    # The words tell the labels apart; with people of one label it could not be learned.
    assert found["entries"][0]["mean"] == 1.0
    assert list(found["entries"][0]["recall"]) == ["a", "b"]


def test_asked_bins_come_first() -> None:
    crowd = _made_up(30)
    drawn = Splits.draw(30, 1, 1)
    assert part.bins_of(Settings(crowd, drawn, ("baselines",), asked_bins=(77, None))) == 77
    assert part.bins_of(Settings(crowd, drawn, ("baselines",))) in (None, 10_000)
