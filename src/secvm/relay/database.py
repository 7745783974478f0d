"""SQLite as a relay uses it: durable when it answers, for one process, and empty where something was destroyed."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from secvm.errors import LocalProtocolError
from secvm.files import sync_folder
from secvm.runtime.disk.sqlite_file import connect, emptied_log, service_format, statements, transaction

_BLOCK_BYTES = 2**20
#: What SQLite puts beside a database.
_BESIDE = ("", "-wal", "-shm", "-journal")

#: One row: the gateway's key for fetches that was handed out first in a slot. Public; another takes its place.
FETCH_KEYS = "CREATE TABLE fetch_keys (slot INTEGER NOT NULL, keys BLOB NOT NULL)"


class RelayDatabase:
    """One file of tables. Methods may be called from any thread; whoever writes opens a ``transaction``."""

    def __init__(self, path: Path, schema: str, version: int, *, database: sqlite3.Connection | None = None) -> None:
        """Open it, or make it with these tables.

        ``database``: open already, in place of the file: on a simulated disk, say.

        Raises
        ------
        BadInputError
            The file is in use, or no such database.
        StoreError
            The disk does not do it.
        """
        self.path = path
        self._lock = threading.RLock()
        # Exclusive: a second process on the same file would draw or hand on under the first one's hands.
        tables = (statements(schema),)
        self._db = database or connect(path, f"cannot open the relay's store {path}", check_same_thread=False)
        self._format = service_format(
            "the relay's store", "store of a relay", application_id=0, version=version, migrations=tables
        )
        self._format.prepare(self._db, path)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commits at its end, durably, or takes everything back."""
        with self._lock, transaction(self._db):
            yield self._db

    def rows(self, question: str, values: tuple[object, ...] = ()) -> list[Any]:
        """All rows of an answer that is small, as the tables have them."""
        with self._lock:
            return self._db.execute(question, values).fetchall()

    def value(self, question: str, values: tuple[object, ...] = ()) -> Any:
        """The first value of the first row; None where there is none."""
        with self._lock:
            row = self._db.execute(question, values).fetchone()
        return None if row is None else row[0]

    def write(self, statement: str, values: tuple[object, ...]) -> None:
        """One statement, durable when it returns."""
        with self.transaction() as db:
            db.execute(statement, values)

    def cut_log(self) -> None:
        """Everything into the database's file, and the log to length zero: it has copies of what was destroyed."""
        with self._lock:
            if not emptied_log(self._db):
                raise LocalProtocolError("somebody else reads the relay's store: its log cannot be cut")

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._db.close()


def destroy_database(path: Path) -> None:
    """Overwrite a closed database and what SQLite put beside it, then remove them. Twice is once."""
    for ending in _BESIDE:
        _destroy(path.with_name(path.name + ending))
    sync_folder(path.parent)


def _destroy(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        # Before the name goes: whoever is killed here finds the file again, and begins again.
        size = os.fstat(descriptor).st_size
        for at in range(0, size, _BLOCK_BYTES):
            os.pwrite(descriptor, bytes(min(_BLOCK_BYTES, size - at)), at)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    path.unlink()
