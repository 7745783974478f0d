"""Longer cases of ``tests/unit/coordinator/test_log_crashes.py``."""

from pathlib import Path

from tests.unit.coordinator.test_log_crashes import check_crashes


def test_a_crash_makes_no_fork_and_ends_in_the_same_documents(tmp_path: Path) -> None:
    check_crashes(tmp_path, 17)
