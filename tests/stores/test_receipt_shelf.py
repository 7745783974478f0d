"""Shelves of receipts: one suite for memory, folder and database; then what only files can do wrong."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.coordinator.receipt_shelf import FolderShelf, MemoryShelf, Shelf
from secvm.coordinator.store.postgres import PostgresStore
from secvm.coordinator.store.postgres_shelf import PostgresShelf
from secvm.errors import StoreError
from secvm.protocol.received import (
    bucket_bits,
    bucket_of,
    check_receipt,
    receipt,
    received_root,
    received_tree,
    side_by_side,
)
from tests.stores.kinds import driven, open_postgres

ROOT = Path(__file__).parents[2]


def digests(count: int, of: str = "") -> bytes:
    return side_by_side(hashlib.sha256(f"{of}{i}".encode()).digest() for i in range(count))


def keep(shelf: Shelf, epoch: int, packed: bytes) -> None:
    shelf.keep(epoch, packed, received_tree(packed))


@pytest.fixture(params=["memory", "folder", "postgres"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    if request.param == "postgres":
        with closing(driven(open_postgres(tmp_path))) as store:
            assert isinstance(store, PostgresStore)
            yield PostgresShelf(store)
        return
    made: Shelf = MemoryShelf() if request.param == "memory" else FolderShelf(tmp_path / "received")
    yield made
    made.close()


@pytest.mark.parametrize("count", [0, 1, 32, 33, 500])
def test_every_digest_that_is_kept_has_the_receipt_of_its_bucket(shelf: Shelf, count: int) -> None:
    packed = digests(count)
    keep(shelf, 7, packed)
    bits = bucket_bits(count)
    assert shelf.bits(7) == bits
    for at in range(0, len(packed), 32):
        digest = packed[at : at + 32]
        found = shelf.receipt(7, bucket_of(digest, bits))
        assert found == receipt(packed, digest)
        assert found is not None
        check_receipt(received_root(packed), digest, found.bucket, found.path)
    buckets = [shelf.receipt(7, index) for index in range(2**bits)]
    assert b"".join(one.bucket for one in buckets if one is not None) == packed
    assert shelf.receipt(7, 2**bits) is None
    assert shelf.receipt(7, -1) is None


@given(st.integers(0, 200), st.integers(0, 5))
def test_arrays_and_bytes_are_kept_alike_however_buckets_are_filled(count: int, crowded: int) -> None:
    packed = side_by_side(
        bytes(crowded) + hashlib.sha256(b"%d" % i).digest()[crowded:] if i % 2 else hashlib.sha256(b"%d" % i).digest()
        for i in range(count)
    )
    one, other = MemoryShelf(), MemoryShelf()
    keep(one, 1, packed)
    array = np.frombuffer(packed, dtype=np.uint8).reshape(-1, 32)
    other.keep(1, array, received_tree(array))
    for index in range(2 ** bucket_bits(count)):
        found = one.receipt(1, index)
        assert found == other.receipt(1, index)
        assert found is not None
        for at in range(0, len(found.bucket), 32):
            check_receipt(received_root(packed), found.bucket[at : at + 32], found.bucket, found.path)


def test_epochs_are_apart_and_a_dropped_one_is_gone(shelf: Shelf) -> None:
    keep(shelf, 7, digests(40))
    keep(shelf, 10, digests(3))
    assert shelf.epochs() == [7, 10]
    shelf.drop(7)
    shelf.drop(7)
    assert shelf.epochs() == [10]
    assert (shelf.bits(7), shelf.receipt(7, 0), shelf.bits(10)) == (None, None, 0)


def test_keeping_the_same_again_changes_nothing_and_others_stand_in_its_place(shelf: Shelf) -> None:
    for packed in (digests(40), digests(40), digests(40, "other"), digests(3)):
        keep(shelf, 7, packed)
        found = shelf.receipt(7, bucket_of(packed[:32], bucket_bits(len(packed) // 32)))
        assert found == receipt(packed, packed[:32])


def test_since_when_it_is_over_is_remembered_until_it_is_dropped(shelf: Shelf) -> None:
    keep(shelf, 7, digests(1))
    assert [shelf.over_since(7, now) for now in (1_767_225_600_000, 1_767_225_600_001)] == [1_767_225_600_000] * 2
    shelf.drop(7)
    keep(shelf, 7, digests(1))
    assert shelf.over_since(7, 5) == 5


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_in_the_folder_is_there_for_the_next_process(tmp_path: Path) -> None:
    first = FolderShelf(tmp_path)
    keep(first, 7, digests(100))
    assert first.over_since(7, 3) == 3
    first.close()
    second = FolderShelf(tmp_path)
    assert second.receipt(7, 1) == first.receipt(7, 1) is not None
    assert second.over_since(7, 9) == 3
    second.drop(7)
    assert list(tmp_path.iterdir()) == []


def test_an_epoch_that_is_kept_already_is_not_written_again(tmp_path: Path) -> None:
    shelf = FolderShelf(tmp_path)
    keep(shelf, 7, digests(100))
    before = (tmp_path / "7").stat().st_ino
    keep(shelf, 7, digests(100))
    assert (tmp_path / "7").stat().st_ino == before
    keep(shelf, 7, digests(101))
    assert (tmp_path / "7").stat().st_ino != before


def test_nobody_else_may_read_the_files(tmp_path: Path) -> None:
    shelf = FolderShelf(tmp_path / "received")
    keep(shelf, 7, digests(1))
    assert (tmp_path / "received").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "received" / "7").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_disk_that_fails_leaves_nothing_and_the_next_try_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    shelf = FolderShelf(tmp_path)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path if call == "replace" else os, call, fail)
        with pytest.raises(StoreError, match="No space left"):
            keep(shelf, 7, digests(100))
    assert list(tmp_path.iterdir()) == []
    assert shelf.bits(7) is None
    keep(shelf, 7, digests(100))
    assert shelf.bits(7) == 2


def test_writes_that_take_a_part_only_are_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:100]))
    shelf = FolderShelf(tmp_path)
    keep(shelf, 7, digests(100))
    assert shelf.receipt(7, 3) is not None


def test_receipts_of_others_are_to_be_had_while_a_file_is_written_or_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf, held = FolderShelf(tmp_path), []
    keep(shelf, 7, digests(100))
    calls = {"fsync": os.fsync, "write": os.write}
    unlink = Path.unlink

    def seen(name: str) -> Callable[..., object]:
        def call(*arguments: int) -> object:
            held.append(shelf._lock.locked())
            return calls[name](*arguments)  # type: ignore[operator]

        return call

    def removed(path: Path, missing_ok: bool = False) -> None:
        held.append(shelf._lock.locked())
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        for name in calls:
            patch.setattr(os, name, seen(name))
        patch.setattr(Path, "unlink", removed)
        keep(shelf, 8, digests(100))
        assert shelf.over_since(8, 1) == 1
        shelf.drop(8)
    assert len(held) > 5
    assert not any(held)


def test_a_dropped_epoch_that_was_mapped_is_neither_answered_nor_held_open(tmp_path: Path) -> None:
    shelf = FolderShelf(tmp_path)
    keep(shelf, 7, digests(100))
    assert shelf.bits(7) == 2
    shelf.drop(7)
    assert (shelf.bits(7), shelf._mapped) == (None, {})


@pytest.mark.parametrize(
    "spoil",
    [lambda data: b"", lambda data: data[:-1], lambda data: data + b"\0", lambda data: b"x" + data[1:], lambda _: b"7"],
    ids=["empty", "cut", "longer", "another kind", "short"],
)
def test_a_file_that_is_not_whole_is_not_served_and_is_replaced(
    tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    shelf = FolderShelf(tmp_path)
    keep(shelf, 7, digests(100))
    shelf.close()
    (tmp_path / "7").write_bytes(spoil((tmp_path / "7").read_bytes()))
    assert (shelf.bits(7), shelf.receipt(7, 0)) == (None, None)
    keep(shelf, 7, digests(100))
    assert shelf.bits(7) == 2


def test_files_that_are_no_epochs_are_left_alone(tmp_path: Path) -> None:
    for name in ("notes", "07", "-1", "٣"):
        (tmp_path / name).write_bytes(b"")
    assert FolderShelf(tmp_path).epochs() == []
    assert len(list(tmp_path.iterdir())) == 4


KEEPING = """
import hashlib, sys
from pathlib import Path
from secvm.coordinator.receipt_shelf import FolderShelf
from secvm.protocol.received import received_tree, side_by_side

packed = side_by_side(hashlib.sha256(b"%d" % i).digest() for i in range(50_000))
tree = received_tree(packed)
shelf = FolderShelf(Path(sys.argv[1]))
epoch = 0
while True:
    shelf.keep(epoch, packed, tree)
    print(epoch, flush=True)
    epoch += 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("acknowledged", [1, 3, 8])
def test_after_a_kill_every_file_is_whole_and_none_that_was_acknowledged_is_missing(
    tmp_path: Path, acknowledged: int
) -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", KEEPING, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    ) as process:
        assert process.stdout is not None
        for _ in range(acknowledged):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.stdout.read()
    shelf = FolderShelf(tmp_path)
    assert set(range(acknowledged)) <= set(shelf.epochs())
    assert {shelf.bits(epoch) for epoch in shelf.epochs()} == {bucket_bits(50_000)}
    assert not list(tmp_path.glob(".*"))
