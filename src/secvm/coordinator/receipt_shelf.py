"""Shelf: where an epoch's digests and the nodes over them are kept for receipts, as a port with two kinds.

One in a folder has a file for an epoch, which appears whole or not at all, is mapped when it is first asked for, and is
never read as a whole. One in memory is for tests and simulations. What is put there when, and for how long, is
``coordinator.receipts``.

    epoch's file = "secvm-received-1" ‖ number of digests, 8 bytes LE ‖ digests, ascending ‖ levels, leaves first
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from secvm.errors import BadInputError, StoreError
from secvm.files import write_atomically
from secvm.protocol.received import DIGEST_BYTES, Digests, Receipt, ReceivedTree, bucket_bits, bucket_of

_MAGIC = b"secvm-received-1"
_HEAD_BYTES = len(_MAGIC) + 8
#: Marks since when an epoch is only kept for experiments that are over.
_OVER = ".over"
_LONGEST_NUMBER = 10


class _Kept:
    """One epoch's bytes, in memory or mapped; only what a receipt needs is touched."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self.data = data
        self._count = int.from_bytes(data[len(_MAGIC) : _HEAD_BYTES], "little")
        self.bits = bucket_bits(self._count)
        nodes = 2 ** (self.bits + 1) - 1
        self._levels = _HEAD_BYTES + DIGEST_BYTES * self._count
        if data[: len(_MAGIC)] != _MAGIC or len(data) != self._levels + DIGEST_BYTES * nodes:
            raise StoreError("what is kept for an epoch's receipts is not whole")

    @property
    def root(self) -> bytes:
        return self.data[-DIGEST_BYTES:]

    def receipt(self, index: int) -> Receipt | None:
        if not 0 <= index < 2**self.bits:
            return None
        start, end = (self._first(at) for at in (index, index + 1))
        path, level, width = [], self._levels, 2**self.bits
        while width > 1:
            at = level + DIGEST_BYTES * (index ^ 1)
            path.append(self.data[at : at + DIGEST_BYTES])
            level, width, index = level + DIGEST_BYTES * width, width // 2, index // 2
        return Receipt(self.data[start:end], tuple(path))

    def _first(self, index: int) -> int:
        """Where the first digest lies that belongs to this bucket or a later one."""

        def bucket(number: int) -> int:
            at = _HEAD_BYTES + DIGEST_BYTES * number
            return bucket_of(self.data[at : at + DIGEST_BYTES], self.bits)

        return _HEAD_BYTES + DIGEST_BYTES * bisect_left(range(self._count), index, key=bucket)


def _parts(digests: Digests, tree: ReceivedTree) -> Iterator[bytes | memoryview]:
    data = digests.reshape(-1).data if isinstance(digests, np.ndarray) else memoryview(digests)
    yield _MAGIC + (len(data) // DIGEST_BYTES).to_bytes(8, "little")
    yield data
    yield from tree.levels


class Shelf(Protocol):
    """Where epochs' digests are kept. Any thread may ask; one at a time keeps, drops, and asks ``over_since``."""

    def keep(self, epoch: int, digests: Digests, tree: ReceivedTree) -> None:
        """Durable when it returns; the same again changes nothing. Raises ``StoreError``, and nothing is there."""
        ...

    def bits(self, epoch: int) -> int | None:
        """How many bits name a bucket; None where nothing is kept."""
        ...

    def receipt(self, epoch: int, index: int) -> Receipt | None:
        """The receipt of a bucket; None where there is no such."""
        ...

    def epochs(self) -> list[int]:
        """All that are kept."""
        ...

    def over_since(self, epoch: int, now: int) -> int:
        """``now``, or what it was when this was first asked of a kept epoch; durable."""
        ...

    def drop(self, epoch: int) -> None:
        """Nothing of it is here any more. Twice is once."""
        ...

    def close(self) -> None:
        """Let go of the files. What is there stays."""
        ...


class MemoryShelf:
    """Keeps epochs as long as the process lives."""

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}
        self._over: dict[int, int] = {}

    def keep(self, epoch: int, digests: Digests, tree: ReceivedTree) -> None:
        self._kept[epoch] = _Kept(b"".join(_parts(digests, tree)))

    def bits(self, epoch: int) -> int | None:
        kept = self._kept.get(epoch)
        return None if kept is None else kept.bits

    def receipt(self, epoch: int, index: int) -> Receipt | None:
        kept = self._kept.get(epoch)
        return None if kept is None else kept.receipt(index)

    def epochs(self) -> list[int]:
        return sorted(self._kept)

    def over_since(self, epoch: int, now: int) -> int:
        return self._over.setdefault(epoch, now)

    def drop(self, epoch: int) -> None:
        self._kept.pop(epoch, None)
        self._over.pop(epoch, None)

    def close(self) -> None:
        """Nothing to let go of."""


class FolderShelf:
    """Keeps a file for each epoch.

    The lock is for the maps alone. It is never held while a file is written or removed: receipts are asked for in the
    thread that takes packages, which must not wait for a disk.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mapped: dict[int, _Kept] = {}
        self._lock = threading.Lock()
        with _as_store_errors():
            folder.mkdir(mode=0o700, exist_ok=True)
            for unfinished in folder.glob(".*.tmp"):
                unfinished.unlink()

    def keep(self, epoch: int, digests: Digests, tree: ReceivedTree) -> None:
        place = self._folder / str(epoch)
        beside = place.with_name(f".{place.name}.tmp")
        with _as_store_errors():
            with self._lock:
                there = self._open(epoch)
                if there is not None and there.root == tree.root:
                    return
            try:
                with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb", 0) as file:
                    for part in _parts(digests, tree):
                        _write_all(file.fileno(), part)
                    os.fsync(file.fileno())
                beside.replace(place)
            finally:
                beside.unlink(missing_ok=True)
            self._let_go(epoch)
            self._sync_folder()

    def bits(self, epoch: int) -> int | None:
        with self._lock, _as_store_errors():
            kept = self._open(epoch)
            return None if kept is None else kept.bits

    def receipt(self, epoch: int, index: int) -> Receipt | None:
        with self._lock, _as_store_errors():
            kept = self._open(epoch)
            return None if kept is None else kept.receipt(index)

    def epochs(self) -> list[int]:
        names = {file.name.removesuffix(_OVER) for file in self._folder.iterdir()}
        return sorted(int(name) for name in names if decimal(name) is not None)

    def over_since(self, epoch: int, now: int) -> int:
        place = self._folder / f"{epoch}{_OVER}"
        with _as_store_errors():
            since = decimal(place.read_text(encoding="ascii"), longest=20) if place.exists() else None
            if since is None:
                write_atomically(place, b"%d" % now)
            return now if since is None else since

    def drop(self, epoch: int) -> None:
        with _as_store_errors():
            (self._folder / str(epoch)).unlink(missing_ok=True)
            # After the name is gone nobody maps it again.
            self._let_go(epoch)
            (self._folder / f"{epoch}{_OVER}").unlink(missing_ok=True)

    def close(self) -> None:
        for epoch in list(self._mapped):
            self._let_go(epoch)

    def _open(self, epoch: int) -> _Kept | None:
        if epoch not in self._mapped:
            try:
                with (self._folder / str(epoch)).open("rb") as file:
                    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except FileNotFoundError:
                return None
            except ValueError:  # an empty file has nothing to map
                return None
            # A bucket is a page somewhere: what lies behind it is not wanted.
            mapped.madvise(mmap.MADV_RANDOM)
            try:
                self._mapped[epoch] = _Kept(mapped)
            except StoreError:
                mapped.close()
                return None
        return self._mapped[epoch]

    def _let_go(self, epoch: int) -> None:
        with self._lock:
            kept = self._mapped.pop(epoch, None)
        if kept is not None and isinstance(kept.data, mmap.mmap):
            kept.data.close()

    def _sync_folder(self) -> None:
        """The new name is durable too."""
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def decimal(text: str, *, longest: int = _LONGEST_NUMBER) -> int | None:
    """A number as paths have it: decimal, without zeros before it."""
    if not (0 < len(text) <= longest and text.isascii() and text.isdigit()) or (text[0] == "0" and text != "0"):
        return None
    return int(text)


def _write_all(file: int, part: bytes | memoryview) -> None:
    """One write may take only a part: Linux never takes more than 2 GiB at once."""
    left = memoryview(part)
    while left:
        left = left[os.write(file, left) :]


@contextlib.contextmanager
def _as_store_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"receipts cannot be kept: {error.strerror or 'input/output error'}") from None
    except BadInputError as error:
        raise StoreError(f"receipts cannot be kept: {error}") from None


__all__ = ["FolderShelf", "MemoryShelf", "Shelf", "decimal"]
