"""SQLite files of ours: how each is opened, known by its marks, given its tables and kept. No other module connects.

1. A file is made for its owner alone (0600) before SQLite sees it, which gives its log the same rights.
2. First a look: nothing is changed before it is known that the file is ours, or empty.
3. ``journal_mode=WAL`` with ``synchronous=FULL``: a commit is on the disk when it returns. ``secure_delete=ON``: what
   is deleted is overwritten in the file; the log has it until ``emptied_log``. Temporary data stays in memory.
4. SQLite's own words reach nobody: they may quote what is kept.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from secvm.errors import BadInputError, SecVMError, StoreError

#: What reading a damaged file raises: names in it may be no text, and of some files SQLite says that it has no memory.
FAULTS = (sqlite3.Error, UnicodeDecodeError, MemoryError)
#: How long one command of a person waits for another that writes; a write takes milliseconds.
_PATIENCE_S = 10.0


# ── connections ──────────────────────────────────────────────────────────────────────────────────────────────────────


def connect(path: Path, refusal: str, *, make: bool = True, patience_s: float = 0.0, **more: Any) -> sqlite3.Connection:
    """A connection to this file, without transactions of Python's own. ``make``: the file, where there is none.

    ``patience_s``: how long to wait for another process that has the file just now. ``more``: see ``sqlite3.connect``.
    Raises ``BadInputError(refusal)``.
    """
    try:
        if make:
            # One that is there is left alone: to close a file drops all locks that this process holds on it, those of
            # SQLite too (https://www.sqlite.org/howtocorrupt.html, 2.2), and the next to close deletes a log in use.
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        db: sqlite3.Connection = sqlite3.connect(path, timeout=patience_s, isolation_level=None, **more)
    except (OSError, sqlite3.Error):
        raise BadInputError(refusal) from None
    return db


def connect_personal(path: Path, what: str, **more: Any) -> sqlite3.Connection:
    """The same of a person's own file, in a folder that nobody else may look into. ``what``: for messages."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name == "posix" and stat.S_IMODE(path.parent.stat().st_mode) & 0o077:
            raise BadInputError(
                f"{path.parent}: others may look into this folder, so no {what} is kept in it",
                next_step=f"Close it to others: chmod 700 {path.parent}",
            )
        with suppress(FileNotFoundError):
            path.chmod(0o600)
    except OSError as error:
        reason = error.strerror or "input/output error"
        raise BadInputError(f"{path}: the {what} cannot be opened ({reason})") from None
    return connect(path, f"{path}: the {what} cannot be opened", patience_s=_PATIENCE_S, **more)


def in_memory(*, check_same_thread: bool = True) -> sqlite3.Connection:
    """A database that is gone when it is closed."""
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=check_same_thread)


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All of what is in the block, committed at its end, or nothing and an error."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # The error that led here is the one to tell. SQLite may have taken all back already: on a full disk, for one.
        with suppress(sqlite3.Error):
            if db.in_transaction:
                db.execute("ROLLBACK")
        raise


def emptied_log(db: sqlite3.Connection) -> bool:
    """Move all into the file and cut the write-ahead log to nothing; False: somebody else reads, and it is not cut."""
    return bool(db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0] == 0)


# ── kinds of files ───────────────────────────────────────────────────────────────────────────────────────────────────

#: What is said of a file, by its path.
Refusal = Callable[[Path], BadInputError]


def refusal(sentence: str, next_step: str | None = None) -> Refusal:
    """The sentence with the path in the place of {}."""
    return lambda path: BadInputError(sentence.format(path), next_step=next_step)


def statements(*scripts: str) -> tuple[str, ...]:
    """What ``executescript`` would run, one by one: that would commit on its own."""
    return tuple(statement for script in scripts for statement in script.split(";\n") if statement.strip())


@dataclass(frozen=True, slots=True)
class SqliteFormat:
    """One kind of file: its marks, its tables, how it is kept, and what is said of a file that is another's."""

    #: SQLite keeps it in the file's header, so that another program's database is not taken for ours. 0: none.
    application_id: int
    #: ``user_version``, by its side.
    version: int
    #: Statements that lead from one version to the next, the last of them to ``version``. None: it is made elsewhere.
    migrations: Sequence[Sequence[str]]
    foreign: Refusal
    newer: Refusal
    older: Refusal
    #: What to raise where SQLite could not do it.
    fault: Callable[[Exception, Path], SecVMError]
    #: By ``application_id``: files of programs before this one.
    earlier: Mapping[int, Refusal] = field(default_factory=dict)
    #: For one process at a time: a second one finds it in use.
    exclusive: bool = False
    #: Further settings. They come first: only a new file takes a ``page_size``.
    settings: tuple[str, ...] = ()

    def prepare(self, db: sqlite3.Connection, path: Path, *, synchronous: str = "FULL") -> None:
        """Refuse what is no file of this kind; else set it up, and bring it to this version. Closed if it fails."""
        with self.guarding(db, path):
            version = self._look(db, path)
            for setting in (
                *self.settings,
                *(("locking_mode = EXCLUSIVE",) if self.exclusive else ()),
                "journal_mode = WAL",
                f"synchronous = {synchronous}",
                "secure_delete = ON",
                "temp_store = MEMORY",
            ):
                db.execute(f"PRAGMA {setting}").fetchall()
            if self.exclusive and version == self.version:
                # The lock is taken by the first transaction, not by the setting.
                with transaction(db):
                    pass
            while version < self.version:
                with transaction(db):
                    # Looked at again: of two that open a new file at once, one makes it.
                    version = self._look(db, path)
                    if version < self.version:
                        version = self._migrate(db, version)

    @contextmanager
    def guarding(self, db: sqlite3.Connection, path: Path) -> Iterator[None]:
        """What is read of a file to open it: if that fails, the file is closed, and one sentence is said."""
        try:
            yield
        except FAULTS as error:
            db.close()
            raise self.fault(error, path) from None
        except BaseException:
            db.close()
            raise

    def _look(self, db: sqlite3.Connection, path: Path) -> int:
        """The version of a file of this kind; of an empty one, the version before the first migration."""
        application, version = (int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in _MARKS)
        tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        first = self.version - len(self.migrations)
        if self.migrations and not (application or version or tables):
            return first
        if application in self.earlier:
            raise self.earlier[application](path)
        if application != self.application_id:
            raise self.foreign(path)
        if version > self.version:
            raise self.newer(path)
        if version < first + bool(self.migrations):
            raise self.older(path)
        return version

    def _migrate(self, db: sqlite3.Connection, version: int) -> int:
        for statement in self.migrations[version - self.version]:
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {self.application_id}")
        db.execute(f"PRAGMA user_version = {version + 1}")
        return version + 1


_MARKS = ("application_id", "user_version")


def service_format(
    store: str, kind: str, *, application_id: int, version: int, migrations: Sequence[Sequence[str]]
) -> SqliteFormat:
    """A file for one process of a service. ``store`` is such as "the relay's store", ``kind`` "store of a relay".

    A file that another process uses, or that is none of ours, is for a person to put right (exit code 2). A disk that
    is full or fails may be well again by the next start (exit code 1, and a service manager starts the service again).
    """
    none = refusal(f"{store} {{}} is no {kind} of this version, or it is damaged")

    def fault(error: Exception, path: Path) -> SecVMError:
        # The lower byte is the kind of fault; the rest says more about it. Without a code it is Python's own complaint.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR) & 0xFF
        # SQLITE_ERROR is a statement that does not fit: the tables are others.
        if not isinstance(error, sqlite3.OperationalError) or code == sqlite3.SQLITE_ERROR:
            return none(path)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return BadInputError(f"{store} {path} is in use by another process")
        return StoreError(
            f"{store} {path} cannot be read or written now ({fault_name(error)})",
            next_step="Look whether its disk is full, fails or is read-only.",
        )

    return SqliteFormat(application_id, version, migrations, none, none, none, fault, exclusive=True)


def fault_name(error: Exception) -> str:
    """SQLite's own name of what happened, such as SQLITE_FULL: never what was written."""
    return str(getattr(error, "sqlite_errorname", type(error).__name__))
