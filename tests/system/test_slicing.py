"""Slices of tests, on folders of tiny tests in a pytest of their own."""

import re
from pathlib import Path

import pytest

from tests.programs import python

SLICED = """
from tests.slicing import Slice


def pytest_configure(config):
    config.pluginmanager.register(Slice({minutes}, "{seed}"), "slice")
"""

CASES = """
import pytest


@pytest.fixture(scope="module")
def shared():
    yield 1


@pytest.mark.parametrize("number", range(5))
def test_case(number, shared):
    pass


@pytest.mark.takes(minutes=9)
def test_long():
    pass
"""
ALWAYS = """
import pytest


@pytest.mark.in_every_slice
def test_always():
    pass
"""


def play(folder: Path, *, minutes: float, seed: str, workers: int = 0) -> tuple[list[str], str]:
    """Run the tiny tests; the cases in their order, and the line about the slice."""
    folder.mkdir(exist_ok=True)
    markers = "    takes: how long\n    in_every_slice: comes first\n"
    (folder / "pytest.ini").write_text(f"[pytest]\nmarkers =\n{markers}", encoding="utf-8")
    (folder / "conftest.py").write_text(SLICED.format(minutes=minutes, seed=seed), encoding="utf-8")
    for name in "abcd":
        (folder / f"test_{name}.py").write_text(CASES + (ALWAYS if name == "b" else ""), encoding="utf-8")
    # Other plugins take longer to import than all of this to run.
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin", "PYTEST_ADDOPTS": ""}
    command = ("-m", "pytest", "-v", "-p", "no:cacheprovider", "-n", workers)
    done = python(*command, folders=("", "src"), variables=plugins, cwd=folder)
    assert done.returncode in (0, 5), done.stdout + done.stderr
    assert "skipped" not in done.stdout
    slices = [line for line in done.stdout.splitlines() if line.startswith("a slice of")]
    return re.findall(r"(test_[a-d]\.py::\S+) PASSED", done.stdout), slices[0]


def test_a_slice_with_time_enough_runs_every_case_once_in_an_order_drawn_by_its_seed(tmp_path: Path) -> None:
    one, line = play(tmp_path, minutes=60, seed="one")
    assert len(set(one)) == len(one) == 25
    assert line.endswith("25 cases were begun, 0 left for other seeds")
    assert play(tmp_path, minutes=60, seed="one")[0] == one
    assert one[0] == "test_b.py::test_always"
    assert play(tmp_path, minutes=60, seed="other")[0] != one


def test_a_case_longer_than_the_time_left_is_left_out_and_its_neighbours_are_run(tmp_path: Path) -> None:
    cases, line = play(tmp_path, minutes=8, seed="one")
    assert len(cases) == 21
    assert not any("test_long" in case for case in cases)
    assert line.endswith("21 cases were begun, 4 left for other seeds")


@pytest.mark.parametrize("workers", [0, 2])
def test_nothing_is_begun_when_the_time_is_up(tmp_path: Path, workers: int) -> None:
    cases, line = play(tmp_path, minutes=1e-9, seed="one", workers=workers)
    assert cases == []
    assert line.endswith("0 cases were begun, 25 left for other seeds")
