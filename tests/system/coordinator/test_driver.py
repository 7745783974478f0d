"""Longer cases of ``tests/unit/coordinator/test_driver.py``."""

from pathlib import Path

from tests.unit.coordinator.test_driver import check_crashes


def test_a_crash_ends_in_the_same_bytes(tmp_path: Path) -> None:
    check_crashes(tmp_path, 17, after=False)
