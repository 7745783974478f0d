"""Tests that throw dice take their seeds from ``tests.seeds``, so that every deep run tries something new."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import effort, seeds
from tests.conftest import ROOT

#: Folders of tests that the deep tier runs with a new seed each time.
FOLDERS = ("contract/fuzz", "deep/statistical", "system/attacks", "system/simulation")
#: What throws dice, and takes a seed.
DICE = ("default_rng", "Random", "UnsafeSeededDice", "RandomState", "SeedSequence")


def fixed_seeds(source: str) -> Iterator[int]:
    """Lines on which dice get a seed that is written down: a literal, or none at all, which nobody can throw again."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            if name in DICE and (not given or isinstance(given[0], ast.Constant)):
                yield node.lineno


def files() -> list[Path]:
    return sorted(file for folder in FOLDERS for file in (ROOT / "tests" / folder).rglob("*.py"))


def test_no_deep_test_writes_a_seed_down() -> None:
    found = {
        f"{file.relative_to(ROOT)}:{line}" for file in files() for line in fixed_seeds(file.read_text(encoding="utf-8"))
    }
    assert found == set(), "take these seeds from tests.seeds.seed_for"
    assert len(files()) > 20


@pytest.mark.parametrize(
    "line",
    ["np.random.default_rng(5)", "random.Random('x')", "Random()", "UnsafeSeededDice(b'x', i)", "default_rng(seed=3)"],
)
def test_a_seed_that_is_written_down_is_seen(line: str) -> None:
    assert list(fixed_seeds(line)) == [1]
    assert list(fixed_seeds("np.random.default_rng(seed_for('x'))")) == []


def test_seeds_differ_by_run_purpose_and_number_and_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "RUN_SEED", "one run")
    here = [seeds.seed_for("a"), seeds.seed_for("b"), seeds.seed_for("a", 1)]
    assert here == [seeds.seed_for("a"), seeds.seed_for("b"), seeds.seed_for("a", 1)]
    monkeypatch.setattr(seeds, "RUN_SEED", "another run")
    assert len({*here, seeds.seed_for("a")}) == 4
    assert seeds.seed_bytes("a") == seeds.seed_for("a").to_bytes(8, "big")


def test_effort_is_the_second_number_in_the_deep_tier_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "DEEP", False)
    assert effort.scaled(250, 5_000) == 250
    monkeypatch.setattr(effort, "DEEP", True)
    assert effort.scaled(250, 5_000) == 5_000
