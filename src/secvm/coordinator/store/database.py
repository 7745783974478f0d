"""One SQLite file: opened strictly, changed in whole transactions, and emptied so that deleted bytes are gone.

``synchronous=FULL`` in WAL mode: a commit has reached the disk when it returns. ``secure_delete=ON``: what is deleted
is overwritten with zeros in the file; the write-ahead log still has it until ``empty_log``. Temporary data stays in
memory.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from secvm.coordinator.store.schema import APPLICATION_ID, FIRST_APPLICATION_ID, MIGRATIONS
from secvm.errors import BadInputError, StoreError

#: How long to wait for another process that has the file just now, such as a person who looks into it.
_PATIENCE_S = 5.0
#: Python decodes what SQLite says, and names in a damaged file may be no text.
_FAULTS = (sqlite3.Error, UnicodeDecodeError)
_DAMAGED = "the file {} is no database, or a damaged one"
_RESTORE = "Restore it from a backup, or name another state folder in the settings."


class Database:
    """The one connection of a store. Any thread may use it, one at a time."""

    def __init__(self, path: Path, migrations: tuple[tuple[str, ...], ...] = MIGRATIONS) -> None:
        self._lock = threading.RLock()
        try:
            # Private keys lie in it: nobody else may read it. SQLite gives its other files the same mode.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._connection = sqlite3.connect(path, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise BadInputError(f"the database {path} cannot be opened") from error
        try:
            self._prepare(path, migrations)
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, path: Path, migrations: tuple[tuple[str, ...], ...]) -> None:
        try:
            # Nothing is changed before it is known that the file is ours.
            version, application = self._pragma("user_version"), self._pragma("application_id")
            n_tables = self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        except _FAULTS as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) in (
                sqlite3.SQLITE_NOTADB,
                sqlite3.SQLITE_CORRUPT,
            ):
                raise BadInputError(_DAMAGED.format(path), next_step=_RESTORE) from error
            raise StoreError(f"the database {path} cannot be read") from error
        if application == FIRST_APPLICATION_ID:
            raise BadInputError(
                f"the database {path} is of version 1 of the protocol, whose experiments do not run here",
                next_step="Begin in a new folder; experiments of version 1 end with the program that began them.",
            )
        if application != APPLICATION_ID and (application or version or n_tables):
            raise BadInputError(f"the database {path} is not one of a SecVM coordinator")
        if version < 0:
            raise BadInputError(_DAMAGED.format(path), next_step=_RESTORE)
        if version > len(migrations):
            raise BadInputError(
                f"the database {path} was written by a newer version of SecVM", next_step="Install that version."
            )
        try:
            for setting in (
                # Only a new file takes it. Blobs are large: reading them in small pages costs three times the CPU.
                "page_size = 16384",
                "journal_mode = WAL",
                "synchronous = FULL",
                "secure_delete = ON",
                "foreign_keys = ON",
                "temp_store = MEMORY",
            ):
                self._connection.execute(f"PRAGMA {setting}").fetchall()
        except _FAULTS as error:
            raise StoreError(f"the database {path} cannot be written") from error
        for number in range(version, len(migrations)):
            with self.changing() as connection:
                for statement in migrations[number]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {number + 1}")

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of what is in the block, durably, or nothing and an error."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            except (*_FAULTS, OverflowError) as error:
                self._undo()
                raise StoreError(f"the database could not be changed ({_reason(error)})") from error
            except BaseException:
                self._undo()
                raise

    def _undo(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except _FAULTS:
            # The error that led here is the one to tell. A transaction without COMMIT is none for whoever opens next.
            return

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """For a query or two, fetched inside the block."""
        with self._lock:
            try:
                yield self._connection
            except _FAULTS as error:
                raise StoreError(f"the database could not be read ({_reason(error)})") from error

    def empty_log(self) -> None:
        """Move everything from the write-ahead log into the file, and cut the log to nothing."""
        with self.reading() as connection:
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise StoreError(
                "another process reads the database, so that deleted bytes stay in its log",
                next_step="End that process; the next scrub, or the next start, removes them.",
            )

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()


def _reason(error: Exception) -> str:
    """SQLite's own name of what happened, such as SQLITE_FULL: never what was written."""
    return str(getattr(error, "sqlite_errorname", type(error).__name__))
