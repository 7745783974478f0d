"""The kinds of coordinator store. A new one (PostgreSQL) is one more entry in ``KINDS``: all suites run on it too."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore, Standing, StoredExperiment, StoredRound
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.protocol.round_state import RoundState


@dataclass(frozen=True)
class Kind:
    """How a store comes to be, in a folder of its own."""

    name: str
    make: Callable[[Path], CoordinatorStore]
    #: Close, and open what is there again.
    reopen: Callable[[CoordinatorStore, Path], CoordinatorStore]


def open_sqlite(folder: Path) -> CoordinatorStore:
    return SQLiteStore(folder / "coordinator.db")


def reopen_sqlite(store: CoordinatorStore, folder: Path) -> CoordinatorStore:
    store.close()
    return open_sqlite(folder)


def reopen_memory(store: CoordinatorStore, folder: Path) -> CoordinatorStore:
    store.close()
    return store


KINDS = [Kind("memory", lambda folder: MemoryStore(), reopen_memory), Kind("sqlite", open_sqlite, reopen_sqlite)]


def experiment(name: str = "e") -> StoredExperiment:
    return StoredExperiment(name, b"envelope of " + name.encode(), b"{}", Standing.RUNNING)


def announced(number: int, *, of: str = "e", epoch: int | None = None, envelope: bytes | None = None) -> StoredRound:
    return StoredRound(
        experiment=of,
        number=number,
        epoch=number if epoch is None else epoch,
        state=RoundState.ANNOUNCED,
        envelope=b"manifest %d" % number if envelope is None else envelope,
    )


def block(*fill: int) -> bytes:
    """A block of records, each of one byte's value."""
    return b"".join(bytes([value]) * 64 for value in fill)
