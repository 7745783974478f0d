"""The coordinator's SQLite file: its tables, opened strictly and changed in whole transactions.

Its migrations are numbered: a file of version v has had the first v of them. A migration that was released is never
changed; a new one is added at the end. Files of version 1 of the protocol are refused. docs/data-model.md explains the
tables; ``runtime.disk.sqlite_file`` says how a file is kept. ``empty_log`` removes deleted bytes for good.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from secvm.errors import SecVMError, StoreError
from secvm.runtime.disk.sqlite_file import FAULTS, SqliteFormat, connect, emptied_log, fault_name, refusal, transaction

#: "SeV2": SQLite keeps it in the file's header, so that another program's database is not taken for ours.
APPLICATION_ID = 0x53655632
#: "SecV": a coordinator's file of version 1 of the protocol.
FIRST_APPLICATION_ID = 0x53656356

_FIRST = (
    # position: the order in which experiments were added.
    """
    CREATE TABLE experiments (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        digest TEXT NOT NULL UNIQUE,
        envelope BLOB NOT NULL,
        settings BLOB NOT NULL,
        standing TEXT NOT NULL CHECK (standing IN ('running', 'paused', 'stopped', 'finished'))
    ) STRICT
    """,
    # scrubbed: nothing of the epoch is shown any more, though a scrub that was killed may still have bytes to remove.
    """
    CREATE TABLE epochs (
        epoch INTEGER PRIMARY KEY,
        closed INTEGER NOT NULL DEFAULT 0 CHECK (closed IN (0, 1)),
        scrubbed INTEGER NOT NULL DEFAULT 0 CHECK (scrubbed IN (0, closed))
    ) STRICT
    """,
    # experiment, number, epoch and envelope never change; tally and next_state are written once.
    """
    CREATE TABLE rounds (
        experiment TEXT NOT NULL REFERENCES experiments (digest),
        number INTEGER NOT NULL CHECK (number >= 1),
        epoch INTEGER NOT NULL REFERENCES epochs (epoch),
        state TEXT NOT NULL
            CHECK (state IN ('announced', 'open', 'closing', 'tallied', 'published', 'abandoned')),
        envelope BLOB NOT NULL,
        tally TEXT,
        next_state TEXT,
        PRIMARY KEY (experiment, number)
    ) STRICT
    """,
    "CREATE TABLE blobs (digest TEXT NOT NULL PRIMARY KEY, data BLOB NOT NULL) STRICT",
    # Secret; deleted by scrub.
    """
    CREATE TABLE keys (
        epoch INTEGER PRIMARY KEY REFERENCES epochs (epoch),
        key_id INTEGER NOT NULL CHECK (key_id BETWEEN 0 AND 255),
        private BLOB NOT NULL
    ) STRICT
    """,
    # Groups of capsules; deleted when they are opened, or by scrub. AUTOINCREMENT: no number is used twice.
    """
    CREATE TABLE sealed (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        epoch INTEGER NOT NULL REFERENCES epochs (epoch),
        packed BLOB NOT NULL
    ) STRICT
    """,
    "CREATE INDEX sealed_by_epoch ON sealed (epoch)",
    # Blocks of records; deleted by scrub.
    """
    CREATE TABLE opened (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        epoch INTEGER NOT NULL REFERENCES epochs (epoch),
        packed BLOB NOT NULL
    ) STRICT
    """,
    "CREATE INDEX opened_by_epoch ON opened (epoch)",
    """
    CREATE TABLE deposits (
        epoch INTEGER NOT NULL REFERENCES epochs (epoch),
        relay TEXT NOT NULL,
        count BLOB NOT NULL,
        PRIMARY KEY (epoch, relay)
    ) STRICT
    """,
)

_LOG = (
    # What witnesses cosigned of the log, by the name for which it is kept: size, root and note go forward together.
    """
    CREATE TABLE notes (
        name TEXT NOT NULL PRIMARY KEY,
        size INTEGER NOT NULL CHECK (size >= 0),
        root BLOB NOT NULL,
        note BLOB NOT NULL
    ) STRICT
    """,
    # Records of public randomness, verified; never change. place: which of the experiment's beacons, from 0.
    """
    CREATE TABLE beacons (
        experiment TEXT NOT NULL REFERENCES experiments (digest),
        place INTEGER NOT NULL CHECK (place >= 0),
        record BLOB NOT NULL,
        PRIMARY KEY (experiment, place)
    ) STRICT
    """,
)

_NODES = (
    # The last term that was given; who has it, the process knows.
    "CREATE TABLE driver (one INTEGER PRIMARY KEY CHECK (one = 1), term INTEGER NOT NULL) STRICT",
    "INSERT INTO driver VALUES (1, 0)",
    # What a part of an epoch's records came to; deleted by scrub. Here there is one part: all.
    """
    CREATE TABLE shards (
        epoch INTEGER PRIMARY KEY REFERENCES epochs (epoch),
        result BLOB NOT NULL
    ) STRICT
    """,
)

_BATCHES = (
    # Batches of rounds with two relays. forgotten: nothing of it is shown any more, though pieces may be left.
    """
    CREATE TABLE batches (
        id INTEGER PRIMARY KEY,
        experiment TEXT NOT NULL REFERENCES experiments (digest),
        number INTEGER NOT NULL CHECK (number >= 1),
        attempt INTEGER NOT NULL DEFAULT 0,
        whole INTEGER NOT NULL DEFAULT 0 CHECK (whole IN (0, 1)),
        forgotten INTEGER NOT NULL DEFAULT 0 CHECK (forgotten IN (0, 1)),
        UNIQUE (experiment, number)
    ) STRICT
    """,
    # Secret until the round is opened; deleted when the batch is forgotten.
    "CREATE TABLE count_seeds (batch INTEGER PRIMARY KEY REFERENCES batches (id), seed BLOB NOT NULL) STRICT",
    # Inner capsules side by side, as they came; deleted when the batch is forgotten.
    """
    CREATE TABLE pieces (
        batch INTEGER NOT NULL REFERENCES batches (id),
        piece INTEGER NOT NULL CHECK (piece >= 0),
        data BLOB NOT NULL,
        PRIMARY KEY (batch, piece)
    ) STRICT
    """,
    # What a piece's capsules came to; deleted when the batch is forgotten.
    """
    CREATE TABLE runs (
        batch INTEGER NOT NULL REFERENCES batches (id),
        run INTEGER NOT NULL CHECK (run >= 0),
        result BLOB NOT NULL,
        PRIMARY KEY (batch, run)
    ) STRICT
    """,
)

_ONE_LOG = (
    # The log of all experiments, line by line; its order is known from nowhere else. Never changes.
    "CREATE TABLE entries (place INTEGER PRIMARY KEY CHECK (place >= 0), entry BLOB NOT NULL) STRICT",
)

_FETCH_KEYS = (
    # Secret; a key that no manifest names is deleted when its epoch is over.
    """
    CREATE TABLE fetch_keys (
        epoch INTEGER PRIMARY KEY,
        key_id INTEGER NOT NULL CHECK (key_id BETWEEN 0 AND 255),
        private BLOB NOT NULL
    ) STRICT
    """,
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _LOG, _NODES, _BATCHES, _ONE_LOG, _FETCH_KEYS)


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
        """Let go of the file."""
        with self._lock:
            self._connection.close()
