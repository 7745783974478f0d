"""A test that hangs ends by itself, under its own name."""

from pathlib import Path

from secvm_lab.cli.dev.tiers import end_hanging
from tests.programs import python

_TESTS = """
import threading

def test_that_waits_for_ever():
    threading.Event().wait()

def test_after_it():
    pass
"""


def test_repro_a_run_with_a_hanging_test_ends_and_names_it(tmp_path: Path) -> None:
    file = tmp_path / "test_two.py"
    file.write_text(_TESTS)
    command = ("-m", "pytest", "-n1", "-p", "no:cacheprovider", "--rootdir", tmp_path, *end_hanging(1), file)
    done = python(*command, cwd=tmp_path, timeout=120)
    assert done.returncode == 1
    assert "FAILED test_two.py::test_that_waits_for_ever" in done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert "in test_that_waits_for_ever" in done.stderr
