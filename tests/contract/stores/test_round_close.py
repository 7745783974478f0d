"""An epoch is closed while nodes write into it: what was acknowledged is counted, what was refused is not.

First step by step: a writer is held in the middle of its transaction, between the look at the epoch and the commit.
Then at random, with writers, openers and a closer that know nothing of each other, and a server that is killed.
"""

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field

import pytest

from secvm.coordinator.store import postgres as postgres_module
from secvm.coordinator.store.port import Deposit
from secvm.coordinator.store.postgres import PostgresStore
from secvm.coordinator.store.postgres_pool import Pool
from secvm.errors import StoreError
from tests.postgres_server import wait_until

APPENDS: dict[str, Callable[[PostgresStore], bool]] = {
    "append_sealed": lambda store: store.append_sealed(7, [b"late"]),
    "deposit": lambda store: store.deposit(Deposit(7, "relay", b"count"), [b"late"]),
    "much": lambda store: store._append_much(7, [b"late"]),
}


def driver_of(store: PostgresStore) -> PostgresStore:
    term = store.lead("the driver", 3600)
    assert term is not None
    return store.driving(term)


def content(store: PostgresStore) -> list[bytes]:
    """All that a count would find, also what is still sealed."""
    return [data for _, data in store.sealed(7, 10**6)] + list(store.opened(7))


# ── step by step ─────────────────────────────────────────────────────────────────────────────────────────────────────

#: Writers of the epoch stop in the middle of their statement while a test has the lock.
HOLD = """
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NEW; END $$;
CREATE TRIGGER hold BEFORE INSERT ON epoch_7_sealed FOR EACH ROW EXECUTE FUNCTION hold();
CREATE TRIGGER hold BEFORE INSERT ON epoch_7_opened FOR EACH ROW EXECUTE FUNCTION hold();
"""


@contextmanager
def writers_held(url: str) -> Iterator[Callable[[int], bool]]:
    """Inside, writers stop in their middle. What it gives tells whether so many sessions wait for a lock."""
    pool = Pool(url)
    pool.once(HOLD)

    def are_waiting(count: int) -> bool:
        ((waiting,),) = pool.once(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(waiting) >= count

    try:
        with pool.changing() as connection:
            connection.execute(b"SET LOCAL idle_in_transaction_session_timeout = 0")
            connection.execute(b"SELECT pg_advisory_xact_lock(7)")
            yield are_waiting
    finally:
        pool.close()


def close_in_the_middle(url: str, append: Callable[[PostgresStore], bool]) -> tuple[bool, list[bytes], list[bytes]]:
    """The epoch is closed while a writer is in the middle: what the writer was told, what there was to count as soon as
    it was closed, and what there was later.
    """
    with closing(PostgresStore(url)) as store, ThreadPoolExecutor(2) as threads:
        driver = driver_of(store)
        assert store.append_sealed(7, [b"early"])

        def close() -> list[bytes]:
            driver.close_epoch(7)
            return content(store)

        with writers_held(url) as are_waiting:
            writing = threads.submit(append, store)
            wait_until(lambda: are_waiting(1))
            closed = threads.submit(close)
            # Either it waits for the writer, or it has not noticed that there is one.
            wait_until(lambda: closed.done() or are_waiting(2))
        return writing.result(), closed.result(), content(store)


@pytest.mark.parametrize("method", APPENDS)
def test_closing_waits_for_writers_in_the_middle(url: str, method: str) -> None:
    acknowledged, at_close, later = close_in_the_middle(url, APPENDS[method])
    assert acknowledged
    assert len(at_close) == 2
    assert at_close == later


@pytest.mark.parametrize("method", APPENDS)
def test_without_the_lock_on_the_epoch_an_acknowledged_package_is_not_counted(
    url: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail: the same store with FOR SHARE left out."""
    careless: Mapping[str, str] = {
        name: query.replace(" FOR SHARE", "") for name, query in postgres_module._SQL.items()
    }
    monkeypatch.setattr(postgres_module, "_SQL", careless)
    acknowledged, at_close, later = close_in_the_middle(url, APPENDS[method])
    assert acknowledged
    assert at_close == [b"early"]
    assert len(later) == 2


@pytest.mark.parametrize("method", APPENDS)
def test_writers_that_wait_for_the_closing_are_refused(url: str, method: str) -> None:
    with closing(PostgresStore(url)) as store, closing(PostgresStore(url)) as node, ThreadPoolExecutor(1) as threads:
        driver = driver_of(store)
        assert store.append_sealed(7, [b"early"])
        with driver.driven() as ask:
            ask("close_epoch", epoch=7)
            writing = threads.submit(APPENDS[method], node)
            waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            wait_until(lambda: store.pool.once(waits))
        assert not writing.result()
        assert content(store) == [b"early"]
        assert store.deposits(7) == []


# ── at random ────────────────────────────────────────────────────────────────────────────────────────────────────────


def record(name: bytes) -> bytes:
    return hashlib.sha256(name).digest() + bytes(32)


@dataclass
class Told:
    """What writers were told of their groups."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    acknowledged: list[bytes] = field(default_factory=list)
    refused: list[bytes] = field(default_factory=list)
    #: The server went away: nobody knows.
    unknown: list[bytes] = field(default_factory=list)
    #: Set when this many are acknowledged.
    enough: threading.Event = field(default_factory=threading.Event)
    wanted: int = 60

    def add(self, name: bytes, answer: bool | None) -> None:
        with self.lock:
            {True: self.acknowledged, False: self.refused, None: self.unknown}[answer].append(name)
            if len(self.acknowledged) >= self.wanted:
                self.enough.set()


def write(store: PostgresStore, epoch: int, writer: int, told: Told) -> None:
    """One capsule after the other, until the epoch is closed: alone, or as a deposit."""
    refusals, i = 0, 0
    while refusals < 3:
        name = b"%d-%d" % (writer, i)
        try:
            if i % 2:
                answer = store.append_sealed(epoch, [name])
            else:
                answer = store.deposit(Deposit(epoch, name.decode(), b"count"), [name])
        except StoreError:
            told.add(name, None)
        else:
            told.add(name, answer)
            refusals += not answer
        i += 1


def open_groups(store: PostgresStore, epoch: int, closed: threading.Event) -> None:
    """What a node's opener does, until the epoch is closed and nothing of it is sealed."""
    while True:
        try:
            was_closed = closed.is_set()
            groups = store.sealed(epoch, 5)
            if groups:
                opened = b"".join(record(data) for _, data in groups)
                store.replace_sealed(epoch, [number for number, _ in groups], opened)
            elif was_closed and not store.left_sealed(epoch):
                return
        except StoreError:
            continue


def insist(action: Callable[[], object]) -> None:
    """Ask until the store has done it."""
    while True:
        try:
            action()
        except StoreError:
            continue
        return


def count(store: PostgresStore, epoch: int) -> Counter[bytes]:
    counted: Counter[bytes] = Counter()
    while (shard := store.claim_shard(epoch)) is not None:
        mine = b"".join(store.opened(epoch, shard))
        counted.update(mine[at : at + 64] for at in range(0, len(mine), 64))
        store.keep_shard(epoch, shard, b"")
    return counted


def live_through_an_epoch(url: str, epoch: int, disturb: Callable[[], None] | None = None) -> None:
    told, closed = Told(), threading.Event()
    with ExitStack() as stack:
        # Short claims: what a killed server's session had claimed comes back.
        nodes = [stack.enter_context(closing(PostgresStore(url, claim_s=1))) for _ in range(4)]
        threads = stack.enter_context(ThreadPoolExecutor(6))
        working = [threads.submit(write, node, epoch, i, told) for i, node in enumerate(nodes)]
        working += [threads.submit(open_groups, node, epoch, closed) for node in nodes[:2]]
        told.enough.wait()
        if disturb is not None:
            disturb()
        driver = driver_of(nodes[-1])
        insist(lambda: driver.close_epoch(epoch))
        closed.set()
        for one in working:
            one.result()
        counted: Counter[bytes] = Counter()
        for node in nodes:
            counted += count(node, epoch)
    acknowledged = {record(name) for name in told.acknowledged}
    unknown = {record(name) for name in told.unknown}
    assert len(told.acknowledged) >= told.wanted
    assert told.refused
    assert acknowledged <= counted.keys()
    assert counted.keys() <= acknowledged | unknown
    assert set(counted.values()) == {1}
    assert disturb is not None or not told.unknown


def test_what_is_acknowledged_is_counted_once_and_what_is_refused_is_not(url: str) -> None:
    for epoch in (7, 8, 9):
        live_through_an_epoch(url, epoch)
