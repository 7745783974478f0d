"""What tests have workers do: their processes import this file, so it needs no test framework."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.learning._kernels.layout import PreparedRows, prepare
from secvm.learning.rows import BinnedRows


def some_rows(seed: int, n: int, words: int, bins: int) -> tuple[BinnedRows, NDArray[np.int64]]:
    """People whose words lean a little to their label."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n).astype(np.int64)
    has = rng.random((n, bins)) < (words / bins) * np.where((np.arange(bins) % 2) == labels[:, None], 1.3, 0.7)
    indptr = np.concatenate([[0], np.cumsum(has.sum(axis=1))]).astype(np.int64)
    found = np.nonzero(has)[1].astype(np.int32)
    return BinnedRows(indptr, found, np.ones(len(found), np.int32), bins), labels


@dataclass(frozen=True)
class SmallRecipe:
    """Rows from a seed; every making leaves a file."""

    seed: int
    folder: str

    def prepared(self, *, threads: int) -> PreparedRows:
        made = Path(self.folder, f"{os.getpid()}-{self.seed}-{threads}")
        made.touch(exist_ok=False)
        return prepare(some_rows(self.seed, n=200, words=15, bins=60)[0])


def _before_round(number: int, happens: Callable[[], None]) -> None:
    """Have something happen before a round of any engine of this process."""
    from secvm_lab.engine.engine import Engine

    advance = Engine.advance

    def advance_or_not(engine: Engine) -> Any:
        if engine.step + 1 == number:
            happens()
        return advance(engine)

    Engine.advance = advance_or_not  # type: ignore[assignment, method-assign]


def die_once(folder: str) -> None:
    """The first process that comes to round 5 is killed, as the system would kill it."""

    def happens() -> None:
        try:
            Path(folder, "died").touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    _before_round(5, happens)


def die_together(fifo: str) -> None:
    """Two processes that came to round 5 are killed at the same moment."""

    def happens() -> None:
        try:
            Path(fifo + ".first").touch(exist_ok=False)
            how = os.O_RDONLY
        except FileExistsError:
            how = os.O_WRONLY
        os.open(fifo, how)  # returns when the other one has opened it too
        os.kill(os.getpid(), signal.SIGKILL)

    _before_round(5, happens)


def pretend(version: str | None) -> None:
    """Let this process say that it has another numpy; None: no more."""
    from importlib import metadata

    from secvm_lab.cluster import group

    class Pretended:
        PackageNotFoundError = metadata.PackageNotFoundError

        @staticmethod
        def version(name: str) -> str:
            return version if name == "numpy" and version is not None else metadata.version(name)

    setattr(group, "metadata", Pretended)  # noqa: B010  (a name that the module does not export)


#: Source of a module that notes every address that its process talks to or listens on.
WATCH_SOCKETS = """
import os, sys
def watch(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.sendto"):
        with open(os.path.join({folder!r}, str(os.getpid())), "a", encoding="utf-8") as file:
            print(arguments[1][0] if isinstance(arguments[1], tuple) else "local", file=file)
sys.addaudithook(watch)
"""
