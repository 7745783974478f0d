"""Longer cases of ``tests/unit/coordinator/test_log_crashes.py``."""

from pathlib import Path

from tests.unit.coordinator.test_log_crashes import check_crashes


def test_a_crash_at_any_point_makes_no_fork_and_ends_in_the_same_documents(tmp_path: Path) -> None:
    # After a call is before the next one: dying before each of them is enough.
    check_crashes(tmp_path, 1)
