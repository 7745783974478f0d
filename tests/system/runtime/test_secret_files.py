"""Longer cases of ``tests/unit/runtime/test_secret_files.py``."""

from pathlib import Path

from tests.unit.runtime.test_secret_files import kill_at_every_line


def test_a_kill_at_any_line_leaves_a_secret_that_opens(tmp_path: Path) -> None:
    told = kill_at_every_line(tmp_path, "real")
    assert told.returncode == 0, told.stderr
    assert int(told.stdout) > 40
