"""The witness's memory: one SQLite file. What it says was cosigned was, and nothing that was is missing.

WAL with synchronous=FULL: a commit is on the disk when it returns, and only then is anybody answered. ``answer`` reads
what was seen, decides and remembers in one transaction, under an exclusive lock on the file; so no two questions, by
whatever door, are ever decided from the same memory and both cosigned.

A witness that forgets can be made to contradict itself. So nothing is deleted here, and the file is made once, on
purpose (``create``): a path that is mistyped, or a disk that was not mounted, is no empty memory.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from secvm.crypto.notes import Note
from secvm.errors import BadInputError, MalformedMessageError, StoreError
from secvm.protocol.log.checkpoints import Checkpoint
from secvm.runtime.disk.secret_files import make_secret
from secvm.runtime.disk.sqlite_file import FAULTS, connect, in_memory, refusal, service_format, statements, transaction
from secvm.witness.decision import CosigningQuestion, Decision, Growth, decide

#: "SVMw".
APPLICATION_ID = 0x53564D77
#: Of the tables below; another number is another program's file.
_VERSION = 1
#: Of one origin. One is enough to convince; a log that signs roots without end shall not fill the disk.
MAX_FORKS = 16

_SCHEMA = """
-- What was cosigned last of an origin. Grows with its log; never deleted.
CREATE TABLE seen (
    origin TEXT NOT NULL PRIMARY KEY,
    log    TEXT NOT NULL,       -- the name of the log's key
    size   INTEGER NOT NULL,
    root   BLOB NOT NULL,
    note   BLOB NOT NULL,       -- the checkpoint with the log's signature
    time_s INTEGER NOT NULL     -- when it was cosigned last
) STRICT, WITHOUT ROWID;
CREATE INDEX seen_by_log ON seen (log);
-- Evidence: a root that was refused, because another of the same size was cosigned. Never changes, never deleted.
CREATE TABLE forks (
    origin   TEXT NOT NULL REFERENCES seen,
    size     INTEGER NOT NULL,
    root     BLOB NOT NULL,     -- the one that was refused
    cosigned BLOB NOT NULL,     -- the note that was cosigned
    refused  BLOB NOT NULL,     -- the note that was refused; the log signed both
    time_s   INTEGER NOT NULL,  -- when it came first
    PRIMARY KEY (origin, size, root)
) STRICT, WITHOUT ROWID
"""
_NONE = refusal("{} is no store of a witness of this version")
# Made on purpose alone, so that an empty file is none.
_FORMAT = replace(
    service_format(
        "the witness's store", "store of a witness", application_id=APPLICATION_ID, version=_VERSION, migrations=()
    ),
    foreign=_NONE,
    newer=_NONE,
    older=_NONE,
    settings=("foreign_keys = ON",),
)

_REMEMBER = """
INSERT INTO seen VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (origin) DO UPDATE SET
    log = excluded.log, size = excluded.size, root = excluded.root, note = excluded.note, time_s = excluded.time_s
"""


@dataclass(frozen=True, slots=True)
class Fork:
    """Two notes of one origin and size, signed by one log, with two roots."""

    origin: str
    size: int
    cosigned: bytes
    refused: bytes
    time_s: int


class WitnessStore:
    """What was cosigned last of every origin, and the forks that were seen. Any thread may use it, one at a time."""

    def __init__(self, path: Path, *, database: sqlite3.Connection | None = None) -> None:
        """Open what ``create`` made. ``database``: open already, in place of the file: on a simulated disk, say."""
        self._lock = threading.Lock()
        if database is None and not path.is_file():
            raise BadInputError(
                f"there is no witness's store {path}",
                next_step="If it is lost, so is what this key has cosigned: retire the key, and make a new witness.",
            )
        # Exclusive: a second witness on the same file would decide from what the first has not written yet.
        refused = f"cannot open the witness's store {path}"
        self._db = database or connect(path, refused, make=False, check_same_thread=False)
        _FORMAT.prepare(self._db, path)

    @staticmethod
    def create(path: Path) -> None:
        """A new, empty memory: whole and durable or not at all, in a file that only its owner can read."""
        make_secret(path, WitnessStore.empty())

    @staticmethod
    def empty() -> bytes:
        """A new memory's bytes."""
        with closing(in_memory()) as db:
            for statement in statements(_SCHEMA):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {_VERSION}")
            return db.serialize()

    def answer(self, questions: Sequence[CosigningQuestion], *, time_s: int) -> list[Decision]:
        """Decide these one after another, and remember all that follows; durable when it returns.

        Raises
        ------
        StoreError
            Nothing of it is remembered, and nobody may be told anything.
        """
        with self._changing() as db:
            return [self._answer_one(db, asked, time_s) for asked in questions]

    def _answer_one(self, db: sqlite3.Connection, asked: CosigningQuestion, time_s: int) -> Decision:
        new = asked.checkpoint
        row = db.execute("SELECT size, root, note FROM seen WHERE origin = ?", (new.origin,)).fetchone()
        decision = decide(None if row is None else Checkpoint(new.origin, row[0], row[1]), asked)
        if isinstance(decision, Growth):
            db.execute(_REMEMBER, (new.origin, asked.log, new.size, new.root, asked.note, time_s))
        elif decision.fork and row is not None:
            kept = db.execute("SELECT count(*) FROM forks WHERE origin = ?", (new.origin,)).fetchone()[0]
            if kept < MAX_FORKS:
                fork = (new.origin, new.size, new.root, row[2], asked.note, time_s)
                db.execute("INSERT OR IGNORE INTO forks VALUES (?, ?, ?, ?, ?, ?)", fork)
        return decision

    def seen(self) -> list[tuple[Checkpoint, int]]:
        """What was cosigned last of every origin, and when."""
        with self._reading() as db:
            rows = db.execute("SELECT origin, size, root, time_s FROM seen ORDER BY origin").fetchall()
        return [(Checkpoint(origin, size, root), time_s) for origin, size, root, time_s in rows]

    def cosigned(self, origin: str) -> tuple[Note, int] | None:
        """What was cosigned last of this origin, as its log signed it, and when; None: nothing was."""
        with self._reading() as db:
            row = db.execute("SELECT note, time_s FROM seen WHERE origin = ?", (origin,)).fetchone()
            return None if row is None else (Note.from_bytes(row[0]), row[1])

    def forks(self) -> list[Fork]:
        """The evidence, the oldest first."""
        with self._reading() as db:
            rows = db.execute("SELECT origin, size, cosigned, refused, time_s FROM forks ORDER BY time_s, origin, root")
            return [Fork(*row) for row in rows.fetchall()]

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of what is in the block, durably, or nothing and an error."""
        with self._lock:
            try:
                with transaction(self._db):
                    yield self._db
            except sqlite3.Error:
                raise StoreError("the witness's store could not be changed") from None

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._db
            except (*FAULTS, MalformedMessageError):
                raise StoreError("the witness's store could not be read") from None
