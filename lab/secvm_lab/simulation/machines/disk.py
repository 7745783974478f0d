"""A disk in memory, with one SQLite database on it, that breaks as disks do.

The database is SQLite's own; what is made up is what becomes of a commit:

- **full**: the commit fails, and nothing of it is there;
- **an error of fsync**: the commit is said to have failed. In the process it has; but what was written may be found
  after a crash all the same, until the next commit that works;
- **a crash** of the process: what was committed is there, what was not is not;
- **a power cut**: of commits that were not synced (``PRAGMA synchronous = NORMAL``) nothing may be left.

``synced`` says what a power cut would leave, for whoever wants to know whether something was on the disk in time.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from secvm_lab.simulation.machines.lives import KilledError, Life


class Connection(sqlite3.Connection):
    """A connection to a database on a simulated disk; of one life."""

    disk: Disk
    life: Life
    #: Whether commits are synced now.
    synced = True

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if self.life.dead:
            raise KilledError
        if sql == "COMMIT":
            return self.disk.commit(self, lambda: super(Connection, self).execute(sql))
        if sql.startswith("PRAGMA journal_mode"):
            # A database in memory has no log of its own; what a log is for is made up here.
            return super().execute("SELECT 'wal'")
        if sql.startswith("PRAGMA synchronous"):
            self.synced = "NORMAL" not in sql
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        if self.life.dead:
            raise KilledError
        return super().executemany(sql, parameters)

    def take_back(self) -> None:
        """As SQLite itself does when a commit fails. Whoever found its store unusable has closed it already."""
        with contextlib.suppress(sqlite3.ProgrammingError):
            if self.in_transaction:
                super().execute("ROLLBACK")


class Disk:
    """One party's. ``connect`` at each start; ``crash`` at each end."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.full = False
        #: The next commits fail in fsync: True: but they have happened, if the process dies now.
        self.failing: list[bool] = []
        #: What a power cut leaves.
        self.synced = b""
        #: What a commit that failed in fsync has written.
        self._ghost: bytes | None = None
        #: Told of every commit that is synced.
        self.on_sync: Callable[[Connection], None] | None = None
        #: Commits that failed, for whoever counts.
        self.failures = 0

    def connect(self, life: Life) -> Connection:
        """The database as it survived."""
        made = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, factory=Connection)
        if self.synced:
            made.deserialize(self.synced)
        made.disk, made.life = self, life
        self.connection = made
        return made

    def commit(self, asked: Connection, really: Callable[[], sqlite3.Cursor]) -> sqlite3.Cursor:
        """What becomes of a commit."""
        asked.life.point()
        if self.full:
            self.failures += 1
            asked.take_back()
            raise sqlite3.OperationalError("database or disk is full")
        if self.failing:
            self.failures += 1
            if self.failing.pop(0):
                self._ghost = asked.serialize()
            asked.take_back()
            raise sqlite3.OperationalError("disk I/O error")
        done = really()
        self._ghost = None
        if asked.synced:
            self.sync()
        asked.life.point()
        return done

    def sync(self) -> None:
        """Everything that is committed is on the disk."""
        if self.connection is not None:
            self.synced = self.connection.serialize()
            if self.on_sync is not None:
                self.on_sync(self.connection)

    def crash(self, *, power_cut: bool) -> None:
        """The process is gone; with its machine, if it was a power cut."""
        connection, self.connection = self.connection, None
        if connection is None:
            return
        connection.take_back()
        if self._ghost is not None:
            self.synced, self._ghost = self._ghost, None
        elif not power_cut:
            with contextlib.suppress(sqlite3.ProgrammingError):
                self.synced = connection.serialize()
        connection.close()
