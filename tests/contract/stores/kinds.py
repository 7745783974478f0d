"""The kinds of coordinator store. A new one is one more entry in ``KINDS``: all suites run on it too."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from secvm.coordinator.store.memory import CLAIM_S, MemoryStore
from secvm.coordinator.store.port import CoordinatorStore, Standing, StoredExperiment, StoredRound
from secvm.coordinator.store.postgres import PostgresStore
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.protocol.round_state import RoundState
from secvm.testing.clock import ManualClock
from tests.postgres_server import cluster, wait_until


@dataclass(frozen=True)
class Kind:
    """How a store comes to be, in a folder of its own."""

    name: str
    make: Callable[[Path], CoordinatorStore]
    #: Close, and open what is there again.
    reopen: Callable[[CoordinatorStore, Path], CoordinatorStore]
    #: How many random lives it leads in a test: each question to a server takes its time.
    examples: int = 100


def open_sqlite(folder: Path) -> CoordinatorStore:
    return SQLiteStore(folder / "coordinator.db")


def reopen_sqlite(store: CoordinatorStore, folder: Path) -> CoordinatorStore:
    store.close()
    return open_sqlite(folder)


def reopen_memory(store: CoordinatorStore, folder: Path) -> CoordinatorStore:
    store.close()
    return store


def open_postgres(folder: Path) -> CoordinatorStore:
    place = folder / "postgres-url"
    if not place.exists():
        place.write_text(cluster().create_database(), encoding="ascii")
    return PostgresStore(place.read_text(encoding="ascii"))


def reopen_postgres(store: CoordinatorStore, folder: Path) -> CoordinatorStore:
    store.close()
    return open_postgres(folder)


def driven(store: CoordinatorStore) -> CoordinatorStore:
    """The store as its driver has it, where nobody drives without a term."""
    if not isinstance(store, PostgresStore):
        return store
    term = store.lead("the test", 3600)
    assert term is not None
    return store.driving(term)


@dataclass(frozen=True)
class Pair:
    """Two nodes on one store."""

    #: What it claims comes back soon.
    one: CoordinatorStore
    other: CoordinatorStore
    #: Let time pass until something holds.
    until: Callable[[Callable[[], bool]], object]


def pair_in_memory() -> Pair:
    clock = ManualClock(0)
    one = MemoryStore(clock)

    def until(holds: Callable[[], bool]) -> None:
        clock.advance(int(CLAIM_S * 1000))
        assert holds()

    return Pair(one, one.another_node(), until)


def pair_in_a_database() -> Pair:
    url = cluster().create_database()
    return Pair(PostgresStore(url, claim_s=0.2), PostgresStore(url), wait_until)


KINDS = [
    Kind("memory", lambda folder: MemoryStore(), reopen_memory),
    Kind("sqlite", open_sqlite, reopen_sqlite),
    Kind("postgres", open_postgres, reopen_postgres, examples=12),
]


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
