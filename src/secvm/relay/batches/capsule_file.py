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

from secvm.protocol.relays.batches import PIECE_CAPSULES, capsule_digest, capsule_root
from secvm.relay.database import RelayDatabase

_VERSION = 1
_SCHEMA = """
CREATE TABLE capsules (digest BLOB PRIMARY KEY, capsule BLOB NOT NULL) WITHOUT ROWID;
-- What has been done with them, such as "part 3": each in the transaction that did it.
CREATE TABLE done (step TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID
"""
_NEXT_DIGESTS = "SELECT digest FROM capsules WHERE digest > ? ORDER BY digest LIMIT ?"
_READ_AT_ONCE = 4096
_WRITE_AT_ONCE = 2**14


class CapsuleFile(RelayDatabase):
    """A SQLite file with the capsules of one label, each once, under its digest."""

    def __init__(self, path: Path, more: str = "") -> None:
        """``more``: further tables, of the role whose file it is."""
        super().__init__(path, _SCHEMA.rstrip() + (";\n" + more.strip() if more else ""), _VERSION)

    def count(self) -> int:
        """Distinct capsules so far."""
        return int(self.value("SELECT count(*) FROM capsules"))

    def done(self, step: str) -> int | None:
        """What was noted when this step was done; None: it was not."""
        noted: int | None = self.value("SELECT value FROM done WHERE step = ?", (step,))
        return noted

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
        last = b""
        while rows := self.rows(_NEXT_DIGESTS, (last, _READ_AT_ONCE)):
            last = rows[-1][0]
            yield [digest for (digest,) in rows]

    def root(self) -> bytes:
        """The root over all that is here."""
        return capsule_root(digest for some in self.digests() for digest in some)

    def piece(self, index: int) -> bytes:
        """One piece of it; none: there is no such."""
        first = self.value("SELECT digest FROM capsules ORDER BY digest LIMIT 1 OFFSET ?", (index * PIECE_CAPSULES,))
        if first is None:
            return b""
        question = "SELECT capsule FROM capsules WHERE digest >= ? ORDER BY digest LIMIT ?"
        return b"".join(capsule for (capsule,) in self.rows(question, (first, PIECE_CAPSULES)))


def put_capsules(db: sqlite3.Connection, capsules: Iterable[bytes]) -> int:
    """Inside of a transaction: add those that are not there; how many were."""
    before, waiting, count = db.total_changes, iter(capsules), 0
    while some := list(islice(waiting, _WRITE_AT_ONCE)):
        rows = sorted((capsule_digest(capsule), capsule) for capsule in some)
        db.executemany("INSERT OR IGNORE INTO capsules VALUES (?, ?)", rows)
        count += len(rows)
    return count - (db.total_changes - before)
