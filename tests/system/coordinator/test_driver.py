"""Longer cases of ``tests/unit/coordinator/test_driver.py``."""

from pathlib import Path

import pytest

from tests.effort import scaled
from tests.unit.coordinator.test_driver import check_crashes


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_a_crash_at_any_call_ends_in_the_same_bytes(tmp_path: Path, *, after: bool) -> None:
    check_crashes(tmp_path, scaled(29, 1), after=after)
