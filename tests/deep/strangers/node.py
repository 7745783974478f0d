"""Programs of strangers: a process to talk with, which runs the packages that the lock file beside this module pins."""

import contextlib
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from secvm_lab.node import node, packages_of

STRANGERS = Path(__file__).resolve().parent
#: A stranger that says nothing for so long says nothing more.
PATIENCE_S = 120


class Stranger:
    """A node process that seals and opens without a line of ours."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def try_to(self, does: str, **asked: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"does": does, **asked}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the stranger fell silent"
        said: dict[str, Any] = json.loads(line)
        return said

    def __call__(self, does: str, **asked: object) -> dict[str, Any]:
        said = self.try_to(does, **asked)
        assert "error" not in said, said
        return said


@contextlib.contextmanager
def speaking(program: str) -> Iterator[Stranger]:
    """One of the programs in this folder, running."""
    cache = packages_of(STRANGERS)
    # node looks for packages beside the program.
    for name in ("oblivious.mjs", program):
        shutil.copy(STRANGERS / name, cache / name)
    with subprocess.Popen(
        [node(), "--no-warnings", cache / program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        watchdog = threading.Timer(PATIENCE_S, process.kill)
        watchdog.start()
        try:
            yield Stranger(process)
        finally:
            watchdog.cancel()
            process.kill()
