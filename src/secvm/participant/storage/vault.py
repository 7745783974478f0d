"""The vault: one person's features and labels, in SQLite, on the person's own device.

Rules it keeps:

 1. The folder is the person's alone (0700), and so is the file (0600). A folder that is open to others is refused.
 2. A source's features are replaced as a whole: a reader sees the old ones or the new ones, never a mixture.
 3. What is read comes out as ``KeptOnDevice``, which does not print itself; neither does the vault. Errors say one
    sentence without a feature or a label in it.
 4. What is replaced or forgotten is overwritten with zeros (``secure_delete``), and the write-ahead log, which may
    still hold it, is emptied before the call returns.

**Without a passphrase the vault is not encrypted.** Whoever can read this person's files, or has the disk, can read it,
as they can read the browser's own history. A passphrase (``device_lock``) helps; so do disk encryption and ``forget``.
A disk or file system that keeps old blocks by itself (flash memory, snapshots, backups) may still hold what was
forgotten or locked here.

**With a passphrase** the vault is one file, locked as a whole, which is opened into memory (``LockedVault``):
``vault.locked`` holds the vault's database as SQLite would write it, under the device's key. Each change writes it
anew, whole and durable or not at all. One process has it open at a time; others wait a while. A vault that is still
plain beside it is what an interrupted change has left: it is locked, or removed where it was locked before, when the
vault is next opened.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from secvm.errors import BadInputError
from secvm.learning.individual.binning import utf8
from secvm.learning.individual.dice import KeptOnDevice
from secvm.learning.rows import MAX_UNITS
from secvm.participant.storage.device_lock import DeviceLock, refuse_locked
from secvm.people.person import MAX_VALUE
from secvm.runtime.disk import sqlite_file
from secvm.runtime.disk.process_lock import take
from secvm.runtime.disk.secret_files import remove_secret, write_secret

LOCKED_FILE = "vault.locked"
_LOCK_FILE = "vault.lock"
_LOCKED_PLACE = "vault"
_PATIENCE_S, _EVERY_S = 10.0, 0.02
#: Of a vault; more is no vault of ours.
_MOST_BYTES = 2**32


class LockedVault:
    """The file, held by this process until ``close``."""

    def __init__(self, folder: Path, lock: DeviceLock) -> None:
        self._path, self._lock = folder / LOCKED_FILE, lock
        try:
            self._held = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BadInputError(f"{folder}: the vault cannot be opened ({error.strerror})") from None
        deadline = time.monotonic() + _PATIENCE_S  # noqa: TID251  (how long somebody waits, and nothing else)
        while not take(self._held):
            if time.monotonic() > deadline:  # noqa: TID251
                os.close(self._held)
                raise BadInputError(f"{self._path}: another program keeps the vault busy")
            time.sleep(_EVERY_S)

    def close(self) -> None:
        """Let others have it."""
        os.close(self._held)

    def exists(self) -> bool:
        """Whether there is one."""
        return self._path.exists()

    def load(self, db: sqlite3.Connection) -> None:
        """Put the vault into this database in memory, if there is one."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise BadInputError(f"{self._path}: the vault cannot be read ({error.strerror})") from None
        if len(data) > _MOST_BYTES:
            raise BadInputError(f"{self._path}: the vault is too large to be one")
        db.deserialize(self._lock.unlock(data, _LOCKED_PLACE))

    def save(self, db: sqlite3.Connection) -> None:
        """Write all of it, durably."""
        write_secret(self._path, self._lock.lock(db.serialize(), _LOCKED_PLACE))

    def remove(self) -> None:
        """There is none any more."""
        remove_secret(self._path)


def remove_plain(path: Path) -> None:
    """Overwrite and remove a plain vault with what SQLite keeps beside it."""
    for name in (f"{path.name}-wal", f"{path.name}-shm", path.name):
        remove_secret(path.with_name(name))


FILE = "vault.db"
#: "SecV", in the header of the file: another program's database is not taken for a vault.
_APPLICATION = 0x53656356
_VERSION = 2
#: A name or a label longer than this is no answer to a question.
_MAX_TEXT_BYTES = 1000

_SCHEMA = """
CREATE TABLE features (
    source TEXT NOT NULL, feature TEXT NOT NULL, value INTEGER NOT NULL, PRIMARY KEY (source, feature)
) WITHOUT ROWID;
CREATE TABLE labels (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_WHAT_WAS_READ = """
CREATE TABLE readings (
    source TEXT PRIMARY KEY, reader TEXT NOT NULL, read_at INTEGER NOT NULL, days INTEGER
) WITHOUT ROWID;
CREATE TABLE excluded (name TEXT PRIMARY KEY) WITHOUT ROWID;
"""
#: Every table, and how many columns it has.
_TABLES = {"features": 3, "labels": 2, "readings": 4, "excluded": 1}
_REASONS = {
    "SQLITE_NOTADB": "the file is no vault",
    "SQLITE_CORRUPT": "the vault is damaged",
    "SQLITE_FULL": "the disk is full",
    "SQLITE_BUSY": "another program keeps the vault busy",
    "SQLITE_READONLY": "the vault may not be written by this user",
}


def _fault(error: Exception, path: Path) -> BadInputError:
    return BadInputError(
        f"{path}: {_REASONS.get(sqlite_file.fault_name(error), 'the vault cannot be read or written')}"
    )


_OTHER_VERSION = sqlite_file.refusal("{}: the vault was made by another version of this program")
_FORMAT = sqlite_file.SqliteFormat(
    application_id=_APPLICATION,
    version=_VERSION,
    migrations=(sqlite_file.statements(_SCHEMA), sqlite_file.statements(_WHAT_WAS_READ)),
    foreign=sqlite_file.refusal("{}: the file is a database, but no vault"),
    newer=_OTHER_VERSION,
    older=_OTHER_VERSION,
    fault=_fault,
)


@dataclass(frozen=True, slots=True)
class Provenance:
    """How the features of a source came into the vault."""

    #: What read them.
    reader: str
    #: Milliseconds since 1970.
    read_at: int
    #: How far back it read; None: everything there was.
    days: int | None = None


class Vault:
    """One person's features, by source, and labels, by question. ``close`` it, or use it in a ``with``."""

    def __init__(
        self, folder: str | os.PathLike[str], *, unsafe_unsynced: bool = False, lock: DeviceLock | None = None
    ) -> None:
        """``lock``: of a device with a passphrase. Without one, a device that has a lock is refused."""
        self._path = Path(folder) / FILE
        self._locked: LockedVault | None = None
        if lock is not None:
            self._locked = LockedVault(self._path.parent, lock)
            try:
                self._db = _open_locked(self._path, self._locked)
            except BaseException:
                self._locked.close()
                raise
            return
        refuse_locked(self._path.parent)
        self._db = _open(self._path)
        if unsafe_unsynced:
            # For hundreds of made-up people on one disk: a power cut may lose what was imported.
            self._db.execute("PRAGMA synchronous = OFF")

    def __repr__(self) -> str:
        return "Vault(...)"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()
        if self._locked is not None:
            self._locked.close()

    def unlock_for_good(self) -> None:
        """Write the vault as a plain one again; the person wants no passphrase any more."""
        if self._locked is None:
            return
        remove_plain(self._path)
        with closing(_open(self._path)) as plain:
            _copy(self._db, plain)
            sqlite_file.emptied_log(plain)
        self._locked.remove()

    # ── features ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def put(self, source: str, features: Mapping[str, int], reading: Provenance | None = None) -> None:
        """Replace all that this source gave before; features of value 0 are absent.

        ``reading`` says how they were read; None for made-up people.

        Raises
        ------
        BadInputError
            When a name or a value cannot be used; then the vault is as it was.
        """
        _check_text(source, "the name of a source")
        rows = [(source, feature, value) for feature, value in features.items() if _checked(feature, value)]
        with self._writing() as db:
            _delete(db, source)
            ((others,),) = db.execute("SELECT coalesce(sum(abs(value)), 0) FROM features").fetchall()
            if others + sum(abs(value) for _, _, value in rows) >= MAX_UNITS:
                raise BadInputError(f"a person has {MAX_UNITS} units or more, too many to count exactly")
            db.executemany("INSERT INTO features VALUES (?, ?, ?)", rows)
            if reading is not None:
                row = (source, reading.reader, reading.read_at, reading.days)
                db.execute("INSERT INTO readings VALUES (?, ?, ?, ?)", row)

    def features(self, source: str | None = None) -> KeptOnDevice[dict[str, int]]:
        """The features of one source, or of all: what two sources both have is added."""
        # The sum of what one source has is its value.
        query = (
            "SELECT feature, sum(value) FROM features WHERE :source IS NULL OR source = :source"
            " GROUP BY feature HAVING sum(value) <> 0"
        )
        with _told(self._path):
            return KeptOnDevice(dict(self._db.execute(query, {"source": source}).fetchall()))

    def summary(self) -> dict[str, int]:
        """How many features each source gave, and nothing else."""
        with _told(self._path):
            query = "SELECT source, count(*) FROM features GROUP BY source ORDER BY source"
            return dict(self._db.execute(query).fetchall())

    def readings(self) -> dict[str, Provenance]:
        """How each source was read."""
        with _told(self._path):
            rows = self._db.execute("SELECT source, reader, read_at, days FROM readings ORDER BY source").fetchall()
        return {source: Provenance(reader, read_at, days) for source, reader, read_at, days in rows}

    # ── what shall never be in it ────────────────────────────────────────────────────────────────────────────────────

    def excluded(self) -> frozenset[str]:
        """Words and hosts of which the person wants nothing to be read."""
        with _told(self._path):
            return frozenset(str(name) for (name,) in self._db.execute("SELECT name FROM excluded").fetchall())

    def exclude(self, names: Collection[str]) -> int:
        """Read nothing of these words and hosts from now on, and forget what is there of them; say how many went."""
        with self._writing() as db:
            db.executemany("INSERT OR IGNORE INTO excluded VALUES (?)", [(name,) for name in names])
            return sum(
                db.execute(
                    "DELETE FROM features WHERE feature = :name OR feature = 'host:' || :name"
                    " OR feature GLOB 'host:' || :literal || ':*' OR feature GLOB 'host:*.' || :literal"
                    " OR feature GLOB 'host:*.' || :literal || ':*'",
                    # A word from a file may hold what GLOB takes for a pattern.
                    {"name": name, "literal": re.sub(r"[*?[]", r"[\g<0>]", name)},
                ).rowcount
                for name in names
            )

    def include(self, names: Collection[str]) -> None:
        """Let these be read again, when they are next imported."""
        with self._writing() as db:
            db.executemany("DELETE FROM excluded WHERE name = ?", [(name,) for name in names])

    # ── labels ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def set_label(self, name: str, value: str) -> None:
        """Keep the person's own answer: ``name`` is a question's name or an experiment's digest."""
        _check_text(name, "the name of a label")
        _check_text(value, "a label")
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO labels VALUES (?, ?)", (name, value))

    def label(self, name: str) -> KeptOnDevice[str] | None:
        """The person's answer, or none if they gave none."""
        if not _is_text(name):
            return None
        with _told(self._path):
            row = self._db.execute("SELECT value FROM labels WHERE name = ?", (name,)).fetchone()
        return None if row is None else KeptOnDevice(str(row[0]))

    def answered(self) -> list[str]:
        """Names of the questions that the person has answered, and not what."""
        with _told(self._path):
            return [str(name) for (name,) in self._db.execute("SELECT name FROM labels ORDER BY name").fetchall()]

    # ── forgetting ───────────────────────────────────────────────────────────────────────────────────────────────────

    def forget(self, source: str | None = None) -> None:
        """Forget what one source gave, or with ``None`` everything, labels included."""
        with self._writing() as db:
            if source is None:
                for table in _TABLES:
                    db.execute(f"DELETE FROM {table}")  # noqa: S608  (our own names)
            else:
                _delete(db, source)

    def forget_label(self, name: str) -> None:
        """Forget the person's answer to one question."""
        with self._writing() as db:
            db.execute("DELETE FROM labels WHERE name = ?", (name,))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, after which nothing of what it replaced is left in the log."""
        with _told(self._path):
            with sqlite_file.transaction(self._db):
                yield self._db
            if self._locked is not None:
                self._locked.save(self._db)
                return
            emptied = sqlite_file.emptied_log(self._db)
        if not emptied:
            raise BadInputError(
                f"{self._path}: changed, but another program reads it, so the log still holds what was there before",
                next_step="Run the command again when the other program is done.",
            )


def _delete(db: sqlite3.Connection, source: str) -> None:
    for table in ("features", "readings"):
        db.execute(f"DELETE FROM {table} WHERE source = ?", (source,))  # noqa: S608  (our own names)


def _open(path: Path) -> sqlite3.Connection:
    db = sqlite_file.connect_personal(path, "vault")
    _FORMAT.prepare(db, path)
    return db


def _open_locked(path: Path, locked: LockedVault) -> sqlite3.Connection:
    """The vault in memory; a plain one that an interrupted change has left is locked, and gone."""
    db = sqlite_file.in_memory()
    try:
        with _told(path):
            locked.load(db)
            _FORMAT.prepare(db, path)
            if path.exists() and not locked.exists():
                with closing(_open(path)) as plain:
                    _copy(plain, db)
            if not locked.exists():
                locked.save(db)
            remove_plain(path)
    except BaseException:
        db.close()
        raise
    return db


def _copy(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """All that is in one vault into another, in one transaction."""
    with sqlite_file.transaction(target):
        for table, columns in _TABLES.items():
            target.execute(f"DELETE FROM {table}")  # noqa: S608  (our own names)
            marks = ", ".join("?" * columns)
            target.executemany(f"INSERT INTO {table} VALUES ({marks})", source.execute(f"SELECT * FROM {table}"))  # noqa: S608


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Make one sentence of what SQLite complains about; its own words may quote what is kept."""
    try:
        yield
    except sqlite_file.FAULTS as error:
        raise _fault(error, path) from None


def _is_text(text: object) -> bool:
    if not isinstance(text, str):
        return False
    try:
        return 0 < len(utf8(text)) <= _MAX_TEXT_BYTES and text.isprintable()
    except BadInputError:
        return False


def _check_text(text: str, what: str) -> None:
    if not _is_text(text):
        raise BadInputError(f"{what} must be printable text of 1 to {_MAX_TEXT_BYTES} bytes")


def _checked(feature: object, value: object) -> bool:
    """Whether the feature is there; a bad one is an error that does not name it."""
    if not isinstance(feature, str):
        raise BadInputError("a feature is not text")
    utf8(feature)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInputError("a feature's value is not an integer")
    if abs(value) > MAX_VALUE:
        raise BadInputError(f"a feature's value lies beyond {MAX_VALUE}")
    return value != 0
