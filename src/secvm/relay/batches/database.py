"""SQLite as a relay uses it: durable when it answers, for one process, and empty where something was destroyed."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from secvm.errors import BadInputError, LocalProtocolError
from secvm.files import sync_folder
from secvm.runtime.sqlite_faults import opening_fault

_BLOCK_BYTES = 2**20
#: What SQLite puts beside a database.
_BESIDE = ("", "-wal", "-shm", "-journal")


class Database:
    """One file of tables. Methods may be called from any thread; whoever writes opens a ``transaction``."""

    def __init__(self, path: Path, schema: str, version: int) -> None:
        """Opened, or made with these tables.

        Raises
        ------
        BadInputError
            The file is in use, or no such database.
        StoreError
            The disk does not do it.
        """
        self.path = path
        self._lock = threading.RLock()
        try:
            # Made by us first, so that nobody else can read it; SQLite gives its log the same rights.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        except (OSError, sqlite3.Error):
            raise BadInputError(f"cannot open the relay's store {path}") from None
        try:
            self._prepare(schema, version)
        except (sqlite3.Error, ValueError, MemoryError) as error:  # the last is SQLite's word for some damaged files
            self._db.close()
            raise opening_fault(error, f"the relay's store {path}", "store of a relay of this version") from None

    def _prepare(self, schema: str, version: int) -> None:
        # Exclusive: a second process on the same file would draw or hand on under the first one's hands.
        for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute("PRAGMA temp_store=MEMORY")
        with self.transaction():
            found = self._db.execute("PRAGMA user_version").fetchone()[0]
            if found == 0:
                for statement in schema.split(";\n"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {version}")
            elif found != version:
                raise ValueError

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commits at its end, durably, or takes everything back."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                # SQLite may have done so already: on a full disk, for example.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def rows(self, question: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        """All rows of an answer that is small."""
        with self._lock:
            return self._db.execute(question, values).fetchall()

    def value(self, question: str, values: tuple[object, ...] = ()) -> object:
        """The first value of the first row; None where there is none."""
        with self._lock:
            found = self._db.execute(question, values).fetchone()
        return None if found is None else found[0]

    def cut_log(self) -> None:
        """Everything into the database's file, and the log to length zero: it has copies of what was destroyed."""
        with self._lock, closing(self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")) as found:
            if found.fetchone()[0] != 0:
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
