"""Judges of `bench engine`: to whom we lose is said, as is who was not there; and what they are tuned to."""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import _judges
from benchmarks._judges import JUDGES, SKLEARN, Judge, People, judgement, lost, split_by_presence
from tests.programs import ROOT


def test_we_lose_to_whoever_is_faster_and_to_whoever_is_right_more_often_than_we_ever_are() -> None:
    assert lost({"slower": 0.99, "as_fast": 1.0, "faster": 1.001, "never_reached": math.inf}) == [
        "faster",
        "never_reached",
    ]
    assert lost({}) == []


def test_a_judge_that_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    here, away = Judge("numpy", lambda _: []), Judge("secvm-nobodys-judge", lambda _: [])
    assert split_by_presence({"here": here, "away": away}) == ({"here": here}, ["away"])
    said = capsys.readouterr().err
    assert said == f"away is not measured: secvm-nobodys-judge is not installed; {_judges.INSTALL}\n"


def test_judges_are_pinned_in_a_group_of_their_own() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    assert re.search(r"--group (\w+)$", _judges.INSTALL)[1] == "judges"  # type: ignore[index]
    beside = [judge.distribution for name, judge in JUDGES.items() if name not in SKLEARN]
    assert [pin.partition("==")[0] for pin in groups["judges"]] == beside
    assert all(version(judge.distribution) for judge in SKLEARN.values())


@dataclass
class Fixed:
    """A setting that is always as right as it is told to be, and knows how often it was trained."""

    right: int
    threads: int = 1
    trained: int = 0

    def train(self) -> None:
        self.trained += 1

    def says(self) -> NDArray[np.int64]:
        return (np.arange(4) < self.right).astype(np.int64)


def test_a_judge_is_tuned_to_its_best_setting_and_only_equals_are_run_again() -> None:
    poor, good, equal, parallel = Fixed(1), Fixed(3), Fixed(3), Fixed(4, threads=2)
    settings: Any = [poor, good, equal, parallel]
    ones = np.ones(4, np.int64)
    found = judgement("drawn", Judge("numpy", lambda _: settings), People(None, ones, None, ones))
    assert (found.one.accuracy, found.two.accuracy) == (0.75, 1.0)
    assert [fit.accuracy for fit in found.every] == [0.25, 0.75, 0.75]
    assert [setting.trained for setting in settings] == [1, _judges.RUNS, _judges.RUNS, _judges.RUNS]
