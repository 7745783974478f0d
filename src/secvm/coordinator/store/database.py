"""The coordinator's SQLite file: its tables, opened strictly and changed in whole transactions.

Its migrations are numbered: a file of version v has had the first v of them. A migration that was released is never
changed; a new one is added at the end. Files of version 1 of the protocol are refused. docs/data-model.md explains the
tables; ``runtime.disk.sqlite_file`` says how a file is kept. ``empty_log`` removes deleted bytes for good.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from secvm.errors import SecVMError, StoreError
from secvm.runtime.disk.sqlite_file import FAULTS, SqliteFormat, connect, emptied_log, fault_name, refusal, transaction

#: "SeV2": SQLite keeps it in the file's header, so that another program's database is not taken for ours.
APPLICATION_ID = 0x53655632
#: "SecV": a coordinator's file of version 1 of the protocol.
FIRST_APPLICATION_ID = 0x53656356

SCHEMA = files("secvm.coordinator.store") / "sqlite_schema.sql"
_PARTS = re.split(r"^-- Version \d+ --$", SCHEMA.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
MIGRATIONS = tuple(tuple(part.strip().removesuffix(";").split(";")) for part in _PARTS)


#: How long to wait for another process that has the file just now, such as a person who looks into it.
_PATIENCE_S = 5.0
_damaged = refusal(
    "the file {} is no database, or a damaged one",
    "Restore it from a backup, or name another state folder in the settings.",
)


def _fault(error: Exception, path: Path) -> SecVMError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return _damaged(path)
    return StoreError(f"the database {path} cannot be read or written ({fault_name(error)})")


_FORMAT = SqliteFormat(
    application_id=APPLICATION_ID,
    version=len(MIGRATIONS),
    migrations=MIGRATIONS,
    foreign=refusal("the database {} is not one of a SecVM coordinator"),
    newer=refusal("the database {} was written by a newer version of SecVM", "Install that version."),
    older=_damaged,
    fault=_fault,
    earlier={
        FIRST_APPLICATION_ID: refusal(
            "the database {} is of version 1 of the protocol, whose experiments do not run here",
            "Begin in a new folder; experiments of version 1 end with the program that began them.",
        )
    },
    # Blobs are large: reading them in small pages costs three times the CPU.
    settings=("page_size = 16384", "foreign_keys = ON"),
)


class Database:
    """The one connection of a store. Any thread may use it, one at a time."""

    def __init__(self, path: Path, migrations: tuple[tuple[str, ...], ...] = MIGRATIONS) -> None:
        self._lock = threading.RLock()
        # Private keys lie in it: nobody else may read it.
        self._connection = connect(
            path, f"the database {path} cannot be opened", patience_s=_PATIENCE_S, check_same_thread=False
        )
        replace(_FORMAT, migrations=migrations, version=len(migrations)).prepare(self._connection, path)

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of what is in the block, durably, or nothing and an error."""
        with self._lock:
            try:
                with transaction(self._connection):
                    yield self._connection
            except (*FAULTS, OverflowError) as error:
                raise StoreError(f"the database could not be changed ({fault_name(error)})") from error

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """For a query or two, fetched inside the block."""
        with self._lock:
            try:
                yield self._connection
            except FAULTS as error:
                raise StoreError(f"the database could not be read ({fault_name(error)})") from error

    def rows(self, query: str, *given: object) -> list[Any]:
        """All rows of a query's answer."""
        with self.reading() as connection:
            return connection.execute(query, given).fetchall()

    def row(self, query: str, *given: object) -> Any:
        """The first row that a query answers; None where there is none."""
        with self.reading() as connection:
            return connection.execute(query, given).fetchone()

    def empty_log(self) -> None:
        """Move everything from the write-ahead log into the file, and cut the log to nothing."""
        with self.reading() as connection:
            emptied = emptied_log(connection)
        if not emptied:
            raise StoreError(
                "another process reads the database, so that deleted bytes stay in its log",
                next_step="End that process; the next scrub, or the next start, removes them.",
            )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()
