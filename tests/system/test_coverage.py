"""``secvm dev coverage`` on a checkout of a dozen lines."""

import json
from pathlib import Path

import pytest

from secvm.cli.main import run
from secvm_lab.cli.dev import tiers as command

PROJECT = """
[tool.pytest.ini_options]
pythonpath = ["src"]

[tool.coverage.run]
branch = true
parallel = true
source_pkgs = ["tiny"]
patch = ["subprocess"]
"""

SOURCE = """
def size(number):
    if number > 9:
        return "large"
    if number < 0:
        return "none"
    return "small"
"""

#: Calls it in a process of its own, as tests of parties do.
DEFAULT = """
import subprocess
import sys


def test_small():
    program = "import sys; sys.path.insert(0, 'src'); from tiny import size; print(size(1))"
    assert subprocess.check_output([sys.executable, "-c", program]) == b"small\\n"
"""

DEEP = """
from tiny import size


def test_large():
    assert size(10) == "large"
"""


def test_what_the_deep_tier_adds_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, text in {
        "pyproject.toml": PROJECT,
        "src/tiny/__init__.py": SOURCE,
        "tests/unit/test_small.py": DEFAULT,
        "tests/deep/test_large.py": DEEP,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(command, "find_or_refuse", lambda: tmp_path)
    # Other plugins take longer to import than all of this to run.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    monkeypatch.setattr(command, "_TIERS", {"default": ("tests/unit",), "whole": ("tests/deep",)})
    assert run(["dev", "coverage", "--format", "json"]) == 0
    result = json.loads(capfd.readouterr().out)
    # Six lines, of which the default misses both returns; four branches, of which it takes two.
    assert result == {
        "default": {"lines": 66.67, "branches": 50.0, "both": 60.0},
        "whole": {"lines": 83.33, "branches": 75.0, "both": 80.0},
        "difference": {"lines": 16.66, "branches": 25.0, "both": 20.0},
        "tests_passed": True,
    }
