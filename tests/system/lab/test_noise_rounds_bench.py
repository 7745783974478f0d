"""The benchmark of rounds under noise, small: its keys are stable, and what it cannot do it says."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks import noise_rounds
from secvm.errors import BadInputError

PEOPLE = "".join(
    f'{{"label": "{"abc"[i % 3]}{i % 2}", "features": ["w{i % 7}", "v{i % 5}", "{"abc"[i % 3]}"]}}\n' for i in range(90)
)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.jsonl"
    path.write_text(PEOPLE, encoding="utf-8")
    return path


def parsed(people: Path, *more: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    noise_rounds.add_arguments(parser)
    small = ["--bins", "16", "--contribution", "3", "--epsilons", "4", "--rounds", "1", "2", "--seeds", "1"]
    return parser.parse_args(["--data", str(people), *small, *more])


@pytest.mark.parametrize("words", [(), ("--top-words", "9")])
def test_figures_stand_under_stable_keys(people: Path, words: tuple[str, ...]) -> None:
    result = noise_rounds.run(parsed(people, "--sides", "a", "b", *words))
    wanted = {"people", "bins", "plain", "curves", "regret_worst", "regret_mean", "seeds"}
    assert wanted <= result.keys()
    assert result["people"] == 68
    assert result["bins"] == (9 if words else 16)
    curves = result["curves"]
    assert isinstance(curves, list)
    (curve,) = curves
    assert curve["own"].keys() == curve["law"].keys() == {"1", "2"}
    best = max(*curve["own"].values(), *curve["law"].values())
    assert curve["regret"] == pytest.approx(max(0.0, best - curve["picked"]["accuracy"]), abs=1e-4)


def test_six_labels_need_sides(people: Path) -> None:
    with pytest.raises(BadInputError, match="exactly two labels, or --sides"):
        noise_rounds.run(parsed(people))


def test_a_curve_needs_rounds(people: Path) -> None:
    with pytest.raises(BadInputError, match="at least 1"):
        noise_rounds.run(parsed(people, "--rounds", "0"))
