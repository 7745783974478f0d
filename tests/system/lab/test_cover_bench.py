"""The benchmark of cover, small: its keys are stable, and its picture is drawn."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks import cover
from secvm.errors import BadInputError

SMALL = ["--people", "300", "--test-people", "100", "--bins", "12", "--features", "4", "--vocabulary", "30"]


def parsed(*more: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    cover.add_arguments(parser)
    return parser.parse_args([*SMALL, "--epsilon", "4", "--delta", "0.001", "--seeds", "1", *more])


def test_figures_stand_under_stable_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cover, "FRONTIER_EPSILONS", (2.0, 4.0))
    monkeypatch.setattr(cover, "FRONTIER_ROUNDS", (1,))
    monkeypatch.setattr(cover, "CURVE_BINS", (6, 12))
    picture = tmp_path / "frontier.svg"
    result = cover.run(parsed("--frontier-seeds", "1", "--picture", str(picture)))
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
        cover.run(parsed("--frontier-seeds", "0", "--picture", str(tmp_path / "none.svg")))
