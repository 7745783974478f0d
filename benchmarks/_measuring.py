"""What benchmarks share: turns of contestants, memory and CPU time of processes, and work in processes of their own."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import orjson

_CALL = (
    "import sys, orjson; from importlib import import_module;"
    "module, function, *arguments = orjson.loads(sys.argv[1]);"
    "result = getattr(import_module(module), function)(*arguments);"
    "sys.stdout.buffer.write(orjson.dumps(result))"
)


def in_turns(
    contestants: Mapping[str, Callable[[], object]], turns: int, clock: Callable[[], float] = time.process_time
) -> dict[str, list[float]]:
    """Seconds of each contestant in each turn: a noisy moment of the machine meets all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(turns):
        for name, work in contestants.items():
            started = clock()
            work()
            seconds[name].append(clock() - started)
    return seconds


def fastest(contestants: Mapping[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """CPU seconds of each contestant, the fewest of its turns."""
    return {name: min(seconds) for name, seconds in in_turns(contestants, turns).items()}


def fewest_s(work: Callable[[], object], turns: int = 3) -> float:
    """CPU seconds of one piece of work, the fewest of several turns."""
    return fastest({"": work}, turns)[""]


def memory_mb(field: str = "VmHWM", pid: int | str = "self") -> float:
    """Memory of a process in MiB: the most it ever had (``VmHWM``), or what it has now (``VmRSS``).

    The kernel's own mark where it has one, because ``getrusage`` remembers the parent's too.
    """
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1]) / 1024


def say(sentence: str) -> None:
    """How far a long benchmark has come, for whoever waits for it."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def answer(**values: object) -> None:
    """A line of JSON, for whoever has started this process as a ``Helper``."""
    sys.stdout.write(orjson.dumps(values).decode() + "\n")
    sys.stdout.flush()


def _python(*arguments: str) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a process that finds what this one finds."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return [sys.executable, "-P", *arguments], environment


def in_a_process(function: Callable[..., Any], *arguments: object) -> Any:
    """What a function of a module returns in a process of its own, whose memory and CPU time are nobody else's."""
    call = orjson.dumps([function.__module__, function.__name__, *arguments]).decode()
    command, environment = _python("-c", _CALL, call)
    return orjson.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment).stdout)


class Helper:
    """A module of this folder as a process that answers lines of JSON; what it says first is its ``greeting``."""

    def __init__(self, module: str, *arguments: str) -> None:
        command, environment = _python("-m", f"benchmarks.{module}", *arguments)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment
        )
        self.greeting = self.answer()

    def ask(self, **question: object) -> None:
        """Send a line, and do not wait."""
        assert self._process.stdin is not None
        self._process.stdin.write(orjson.dumps(question) + b"\n")

    def answer(self) -> dict[str, Any]:
        """The next line that it says."""
        assert self._process.stdout is not None
        answer: dict[str, Any] = orjson.loads(self._process.stdout.readline())
        return answer

    def quit(self) -> None:
        """Let it end."""
        self.ask(quit=True)
        self._process.communicate(timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
