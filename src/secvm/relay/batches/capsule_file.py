"""The capsules of one round in a file of their own, in the order of their digests.

Digests of sealed bytes are random, so their order tells nothing of who came when; a table whose key is the digest has
no other order. Reading goes along that key, a few thousand rows at a time: memory does not grow with the batch. A file
of its own for each label can be overwritten as a whole when its round is handed on, pages and log and all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from secvm.errors import LocalProtocolError
from secvm.protocol.relays.batches.capsule_tree import capsule_root
from secvm.protocol.relays.batches.label import capsule_digest
from secvm.protocol.relays.batches.pieces import PIECE_CAPSULES
from secvm.relay.database import RelayDatabase, destroy_database

_VERSION = 1
_SCHEMA = """
CREATE TABLE capsules (digest BLOB PRIMARY KEY, capsule BLOB NOT NULL) WITHOUT ROWID;
-- What has been done with them, such as "part 3": each in the transaction that did it.
CREATE TABLE done (step TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID
"""
_READ_AT_ONCE = 4096
_WRITE_AT_ONCE = 2**14


class CapsuleFile(RelayDatabase):
    """A SQLite file with the capsules of one label, each once, under its digest."""

    def __init__(self, path: Path, more: str = "") -> None:
        """``more``: further tables, of the role whose file it is."""
        super().__init__(path, _SCHEMA.rstrip() + (";\n" + more.strip() if more else ""), _VERSION)

    def count(self) -> int:
        """Distinct capsules so far."""
        return _integer(self.value("SELECT count(*) FROM capsules"))

    def done(self, step: str) -> int | None:
        """What was noted when this step was done; None: it was not."""
        found = self.value("SELECT value FROM done WHERE step = ?", (step,))
        return None if found is None else _integer(found)

    def add(self, capsules: Iterable[bytes], step: str) -> int:
        """Add those that are not there, all or none and once for each step; how many were there already."""
        known = self.done(step)
        if known is not None:
            return known
        with self.transaction() as db:
            twice = put_capsules(db, capsules)
            db.execute("INSERT INTO done VALUES (?, ?)", (step, twice))
        return twice

    def digests(self) -> Iterator[list[bytes]]:
        """All digests in order, some at a time."""
        return (list(some) for some in self._in_order("digest"))

    def root(self) -> bytes:
        """The root over all that is here."""
        return capsule_root(digest for some in self.digests() for digest in some)

    def pieces(self) -> Iterator[bytes]:
        """The batch as it travels, piece after piece."""
        held: list[bytes] = []
        for some in self._in_order("capsule"):
            held += some
            if len(held) >= PIECE_CAPSULES:
                yield b"".join(held[:PIECE_CAPSULES])
                held = held[PIECE_CAPSULES:]
        if held:
            yield b"".join(held)

    def piece(self, index: int) -> bytes:
        """One piece of it; none: there is no such."""
        first = self.value("SELECT digest FROM capsules ORDER BY digest LIMIT 1 OFFSET ?", (index * PIECE_CAPSULES,))
        if first is None:
            return b""
        question = "SELECT capsule FROM capsules WHERE digest >= ? ORDER BY digest LIMIT ?"
        return b"".join(_bytes(row[0]) for row in self.rows(question, (first, PIECE_CAPSULES)))

    def _in_order(self, column: str) -> Iterator[list[bytes]]:
        question = f"SELECT digest, {column} FROM capsules WHERE digest > ? ORDER BY digest LIMIT {_READ_AT_ONCE}"  # noqa: S608  (a name of ours)
        last = b""
        while found := self.rows(question, (last,)):
            last = _bytes(found[-1][0])
            yield [_bytes(row[1]) for row in found]

    def destroy(self) -> None:
        """Overwrite and remove it."""
        self.close()
        destroy_database(self.path)


def put_capsules(db: sqlite3.Connection, capsules: Iterable[bytes]) -> int:
    """Inside of a transaction: add those that are not there; how many were."""
    before, waiting, count = db.total_changes, iter(capsules), 0
    while some := list(islice(waiting, _WRITE_AT_ONCE)):
        rows = sorted((capsule_digest(capsule), capsule) for capsule in some)
        db.executemany("INSERT OR IGNORE INTO capsules VALUES (?, ?)", rows)
        count += len(rows)
    return count - (db.total_changes - before)


def _integer(value: object) -> int:
    if not isinstance(value, int):
        raise LocalProtocolError("the relay's store has something else where a number belongs")
    return value


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise LocalProtocolError("the relay's store has something else where bytes belong")
    return value
