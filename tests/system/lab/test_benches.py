"""Benchmarks of cover, noise and the estimators, small: their keys are stable, and what they cannot do they say."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from benchmarks import cover, estimator, noise_rounds
from secvm.errors import BadInputError

SMALL = ["--people", "300", "--test-people", "100", "--bins", "12", "--features", "4", "--vocabulary", "30"]


def parsed_cover(*more: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    cover.add_arguments(parser)
    return parser.parse_args([*SMALL, "--epsilon", "4", "--delta", "0.001", "--seeds", "1", *more])


def test_figures_of_cover_stand_under_stable_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cover, "FRONTIER_EPSILONS", (2.0, 4.0))
    monkeypatch.setattr(cover, "FRONTIER_ROUNDS", (1,))
    monkeypatch.setattr(cover, "CURVE_BINS", (6, 12))
    picture = tmp_path / "frontier.svg"
    result = cover.run(parsed_cover("--frontier-seeds", "1", "--picture", str(picture)))
    for name in ("plain", "shuffle_dp", "central", "local"):
        assert 0 <= float(str(result[name])) <= 1
        assert float(str(result[f"{name}_sd"])) == 0
    wanted = {"budget_per_device_round", "relay_packages", "noise_per_cell", "rounds", "epsilon", "delta", "seeds"}
    assert wanted | {"variants", "epsilon_label", "peak_rss_mb"} <= result.keys()
    assert result["budget_per_device_round"] == 2 + 4 + 1
    curve = result["bins_curve"]
    assert isinstance(curve, list)
    assert [row["bins"] for row in curve] == [6, 12]
    assert curve[0]["relay_packages"] < curve[1]["relay_packages"]
    frontier = result["frontier"]
    assert isinstance(frontier, list)
    assert [row["epsilon"] for row in frontier] == [2, 4]
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_a_picture_needs_a_frontier(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="frontier"):
        cover.run(parsed_cover("--frontier-seeds", "0", "--picture", str(tmp_path / "none.svg")))


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


def test_estimator_is_compared_on_every_file_of_a_folder(
    people: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # In this process: two more would import everything again.
    monkeypatch.setattr(estimator, "in_a_process", lambda measured, *arguments: measured(*arguments))
    folder = people.parent
    for name in ("train", "test"):
        (folder / "halves").mkdir(exist_ok=True)
        (folder / f"halves/{name}.svm").write_text("".join(f"{i % 2} {1 + i % 2}:1 3:{i}.5\n" for i in range(30)))
    (folder / "few.jsonl").write_text('{"features": ["nobody\'s"]}\n', encoding="utf-8")
    (folder / "README.md").write_text("no people", encoding="utf-8")
    parser = argparse.ArgumentParser()
    estimator.add_arguments(parser)
    result = estimator.run(parser.parse_args(["--data", str(folder), "--splits", "2", "--params", "rounds=5"]))
    assert "left out: few: " in capsys.readouterr().err
    rows = result["data_sets"]
    assert isinstance(rows, dict)
    assert {name: (row["people"], row["features"], row["labels"]) for name, row in rows.items()} == {
        "people": (90, 15, 6),
        "halves": (60, 3, 2),
    }
    wanted = {"accuracy", "error", "fit_s"}
    assert all(wanted <= row[who].keys() for row in rows.values() for who in ("secvm", "linear_svc_tuned"))
    assert rows["halves"]["difference"] == 0
    assert rows["halves"]["met"] is True
    table = estimator.as_text(result).splitlines()
    assert all(re.match("met|missed", line[table[0].index("met") :]) for line in table[:3])
    assert table[-1].startswith("2 splits, ")


def test_data_frame_is_compared_plain_and_under_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimator, "in_a_process", lambda measured, *arguments: measured(*arguments))
    parser = argparse.ArgumentParser()
    estimator.add_arguments(parser)
    asked = ["--people", "1500", "--splits", "2", "--only", "mixed", "--params", "delta=1e-4"]
    rows = estimator.run(parser.parse_args(asked))["data_sets"]
    assert isinstance(rows, dict)
    assert {name: row["goal"] for name, row in rows.items()} == {
        "mixed data frame": -1.0,
        "mixed data frame, ε = 4": -3.0,
    }
    plain, private = (row["secvm"]["accuracy"] for row in rows.values())
    assert 0.7 < private < plain
