"""What a relay holds: nothing acknowledged is lost, nothing destroyed is left."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from secvm.crypto.sealing.capsules import unpack
from secvm.errors import LocalProtocolError, StoreError
from secvm.relay.admission import digest_of
from secvm.relay.store import Arrival, RoundStore
from tests.unit.relay.helpers import capsule, traces

KEY = bytes(range(32))


def arrivals(numbers: Sequence[int], *, epoch: int = 1, clients: int = 3) -> list[Arrival]:
    return [Arrival(epoch, KEY, bytes([number % clients]) * 16, capsule(number)) for number in numbers]


def packed(_clients: int, capsules: Sequence[bytes]) -> bytes:
    return b"deposit" + b"".join(sorted(capsules))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RoundStore]:
    with closing(RoundStore(tmp_path / "store.db", os.urandom)) as opened:
        yield opened


def contents(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.glob("store.db*")))


def test_what_was_appended_is_there_after_opening_again(store: RoundStore, tmp_path: Path) -> None:
    store.append(arrivals(range(10)))
    store.append(arrivals(range(10, 12)))
    store.close()
    store = RoundStore(tmp_path / "store.db", os.urandom)
    assert store.begun() == [1]
    begun = store.read(1)
    assert begun is not None
    assert store.read(2) is None
    assert begun.key == KEY
    assert begun.sent == {bytes([client]) * 16: 4 for client in range(3)}
    assert begun.digests == {digest_of(capsule(number)) for number in range(12)}


def test_seal_sees_distinct_clients_and_distinct_capsules(store: RoundStore) -> None:
    store.append(arrivals([1, 2, 3, 3]))
    store.append(arrivals([2, 4]))
    store.append(arrivals([7], epoch=2))
    told: list[tuple[int, list[bytes]]] = []

    def make(clients: int, capsules: Sequence[bytes]) -> bytes:
        told.append((clients, sorted(capsules)))
        return b"x"

    assert store.seal(1, make)
    assert told == [(3, sorted(capsule(number) for number in (1, 2, 3, 4)))]
    assert (store.begun(), store.waiting(), store.sealed()) == ([2], [1], 1)


def test_a_sealed_epoch_keeps_its_bytes_takes_nothing_and_is_sealed_once(store: RoundStore, tmp_path: Path) -> None:
    store.append(arrivals(range(3)))
    big = os.urandom(9_000_000)
    assert store.seal(1, lambda _clients, _capsules: big)
    assert store.seal(1, lambda _clients, _capsules: b"other")
    with pytest.raises(LocalProtocolError):
        store.append(arrivals([9]))
    store.close()
    store = RoundStore(tmp_path / "store.db", os.urandom)
    assert (store.sealed(), store.waiting(), store.deposit(1)) == (1, [1], big)
    with pytest.raises(LocalProtocolError):
        store.append(arrivals([9]))


def test_nothing_is_left_in_the_files_after_the_deposit_or_where_there_is_none(
    store: RoundStore, tmp_path: Path
) -> None:
    for epoch, make in ((1, packed), (2, lambda _clients, _capsules: None)):
        for first in range(0, 600, 20):
            store.append(arrivals(range(first, first + 20), epoch=epoch))
        there = contents(tmp_path)
        assert all(traces(number, there) for number in range(600))
        assert store.seal(epoch, make) is (epoch == 1)
        # Clients and their key go with the seal, capsules stay until the coordinator has them.
        assert not any(secret in contents(tmp_path) for secret in (KEY, bytes([1]) * 16, bytes([2]) * 16))
        store.forget(epoch)
        store.forget(epoch)
        left = contents(tmp_path)
        assert not any(traces(number, left) for number in range(600))
        assert store.waiting() == []


def test_the_tables_do_not_say_in_which_order_capsules_came(store: RoundStore) -> None:
    for number in range(40):
        store.append(arrivals([number]))
    rows = store._db.execute("SELECT number, packed FROM groups ORDER BY number").fetchall()
    came = [unpack(group)[0] for _, group in rows]
    # One order of 40! is the order of arrival: this fails by chance never.
    assert came != sorted(came)
    assert sorted(came) == [capsule(number) for number in range(40)]
    store.append(arrivals([103, 101, 102]))
    last = store._db.execute("SELECT packed FROM groups ORDER BY length(packed) DESC LIMIT 1").fetchone()[0]
    assert unpack(last) == [capsule(number) for number in (101, 102, 103)]


def test_a_failed_commit_keeps_nothing_of_its_group(store: RoundStore) -> None:
    with pytest.raises(LocalProtocolError):
        store.append([*arrivals([1, 2]), Arrival(2, KEY, b"c", b"")])
    assert store.begun() == []
    store.append(arrivals([1]))
    assert store.begun() == [1]


def test_repro_a_full_disk_at_the_start_is_not_another_process(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "store.db", isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA max_page_count = 1")
    with pytest.raises(StoreError, match=r"store\.db cannot be read or written now \(SQLITE_FULL\)"):
        RoundStore(tmp_path / "store.db", os.urandom, database=database)
