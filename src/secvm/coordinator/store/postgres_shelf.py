"""PostgresShelf: digests for receipts in the database, so that any node answers (``coordinator.receipt_shelf``).

    epoch's bytes = digests, ascending ‖ where each bucket starts, as a number of digests, 8 bytes LE each, and the end
                    ‖ levels of the tree, leaves first

They lie in rows of one size in a table of the epoch. A receipt takes three short questions, whatever the epoch holds:
bytes out of the middle of a row are read without the rest of it. Keeping and dropping is the driver's, and fenced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from secvm.coordinator.store.named_sql import queries, received_table
from secvm.coordinator.store.postgres import PostgresStore
from secvm.coordinator.store.postgres_pool import NoTableError, run
from secvm.errors import StoreError
from secvm.protocol.received import DIGEST_BYTES, Digests, Receipt, ReceivedTree

#: Bytes in a row.
_ROW_BYTES = 2**20
#: Rows in one statement: small ones, because a driver that stops is ended between two of them.
_ROWS_AT_ONCE = 4
_NUMBER_BYTES = 8

_SQL = queries("receipts")


class PostgresShelf:
    """Epochs' digests in the database of a store. What is put and dropped is so under the term of that store."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def keep(self, epoch: int, digests: Digests, tree: ReceivedTree) -> None:
        data = digests.reshape(-1).data if isinstance(digests, np.ndarray) else memoryview(digests)
        table = received_table(epoch)
        with self._store.driven() as connection:
            if run(connection, _SQL["root"], epoch=epoch) == [(tree.root,)]:
                return
            run(connection, _SQL["make_table"].format(**table))
            parts = [data, memoryview(_starts(data, tree.bits)), *(memoryview(level) for level in tree.levels)]
            for at, rows in enumerate(_rows(parts)):
                numbers = [at * _ROWS_AT_ONCE + i for i in range(len(rows))]
                run(connection, _SQL["put"].format(**table), pieces=numbers, data=rows)
            count = len(data) // DIGEST_BYTES
            run(connection, _SQL["keep"], epoch=epoch, bits=tree.bits, count=count, root=tree.root)

    def bits(self, epoch: int) -> int | None:
        layout = self._layout(epoch)
        return None if layout is None else layout[0]

    def receipt(self, epoch: int, index: int) -> Receipt | None:
        layout = self._layout(epoch)
        if layout is None or not 0 <= index < 2 ** layout[0]:
            return None
        bits, count = layout
        starts = DIGEST_BYTES * count
        level = starts + _NUMBER_BYTES * (2**bits + 1)
        wanted = [(starts + _NUMBER_BYTES * index, 2 * _NUMBER_BYTES)]
        width, at = 2**bits, index
        while width > 1:
            wanted.append((level + DIGEST_BYTES * (at ^ 1), DIGEST_BYTES))
            level, width, at = level + DIGEST_BYTES * width, width // 2, at // 2
        try:
            bounds, *path = self._read(epoch, wanted)
            start, end = (int.from_bytes(half, "little") for half in (bounds[:_NUMBER_BYTES], bounds[_NUMBER_BYTES:]))
            (bucket,) = self._read(epoch, [(DIGEST_BYTES * start, DIGEST_BYTES * (end - start))])
        except NoTableError:
            return None
        return Receipt(bucket, tuple(path))

    def epochs(self) -> list[int]:
        return [epoch for (epoch,) in self._store.pool.once(_SQL["epochs"])]

    def over_since(self, epoch: int, now: int) -> int:
        with self._store.driven() as connection:
            ((since,),) = run(connection, _SQL["over_since"], epoch=epoch, now=now)
        return int(since)

    def drop(self, epoch: int) -> None:
        with self._store.driven() as connection:
            run(connection, _SQL["forget"], epoch=epoch)
            run(connection, _SQL["forget_over"], epoch=epoch)
            run(connection, _SQL["drop_table"].format(**received_table(epoch)))

    def close(self) -> None:
        """The store's connections are the store's to close."""

    def _layout(self, epoch: int) -> tuple[int, int] | None:
        """How many bits name a bucket, and how many digests there are; None where nothing is kept."""
        found = self._store.pool.once(_SQL["layout"], {"epoch": epoch})
        return (found[0][0], found[0][1]) if found else None

    def _read(self, epoch: int, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        """Bytes from here on, so many of them, for each that is wanted; in one question."""
        cut = [(i, part) for i, (start, size) in enumerate(wanted) for part in _in_rows(start, size)]
        given = {
            "pieces": [row for _, (row, _, _) in cut],
            "starts": [start for _, (_, start, _) in cut],
            "sizes": [size for _, (_, _, size) in cut],
        }
        found = self._store.pool.once(_SQL["ranges"].format(**received_table(epoch)), given) if cut else []
        parts: list[list[bytes]] = [[] for _ in wanted]
        for (i, _), (part,) in zip(cut, found, strict=False):
            parts[i].append(part)
        joined = [b"".join(part) for part in parts]
        if [len(part) for part in joined] != [size for _, size in wanted]:
            raise StoreError("what is kept for an epoch's receipts is not whole")
        return joined


def _starts(data: memoryview, bits: int) -> bytes:
    """With which digest each bucket starts, and where the last one ends."""
    heads = np.frombuffer(data, dtype=">u4").reshape(-1, DIGEST_BYTES // 4)[:, 0].astype(np.uint64)
    buckets = np.right_shift(heads, np.uint64(32 - bits))
    starts = np.searchsorted(buckets, np.arange(2**bits + 1, dtype=np.uint64))
    return starts.astype("<u8").tobytes()


def _rows(parts: Sequence[memoryview]) -> Iterator[list[bytes]]:
    """All parts, one after the other, cut into rows; as many rows at once as a statement takes."""
    rows: list[bytes] = []
    row = bytearray()
    for part in parts:
        at = 0
        while at < len(part):
            some = part[at : at + _ROW_BYTES - len(row)]
            row += some
            at += len(some)
            if len(row) == _ROW_BYTES:
                rows.append(bytes(row))
                row.clear()
                if len(rows) == _ROWS_AT_ONCE:
                    yield rows
                    rows = []
    if row:
        rows.append(bytes(row))
    if rows:
        yield rows


def _in_rows(start: int, size: int) -> Iterator[tuple[int, int, int]]:
    """A range as parts of rows: which row, where in it, how much."""
    while size > 0:
        row, at = divmod(start, _ROW_BYTES)
        some = min(size, _ROW_BYTES - at)
        yield row, at, some
        start, size = start + some, size - some
