"""Processes of tests die with them, also those that are started while other threads run."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from secvm.testing.processes import dying_with_parent

PARENT = """
import subprocess, sys, time
from secvm.testing.processes import dying_with_parent
child = subprocess.Popen(dying_with_parent(["cat"]), stdin=subprocess.PIPE)
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_a_child_dies_when_its_parent_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        handle = os.pidfd_open(child)
        parent.send_signal(signal.SIGKILL)
    try:
        # Readable when it has ended.
        assert select.select([handle], [], [], 30)[0]
    finally:
        os.close(handle)


def test_repro_processes_were_started_with_python_between_fork_and_exec(repository: Path) -> None:
    # With other threads running, the new process waited for ever for a lock that nobody gave back.
    argument = "preexec" + "_fn="
    for folder in ("src", "lab", "tests", "benchmarks"):
        for file in (repository / folder).rglob("*.py"):
            assert argument not in file.read_text(encoding="utf-8"), file
    assert dying_with_parent(["true"])[-1] == "true"
