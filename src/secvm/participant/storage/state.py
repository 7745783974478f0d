"""What one device must not forget, in SQLite: which experiments it takes part in, and what is still to be sent.

**What must be on the disk, and when.** Packages of a round are sealed once. If a device sent some, lost its capsules in
a power cut and sealed the round again, it would send *other* content for the same round: packages would count twice,
and two drawings of the same secret would leave the device. So the commit that stores fresh capsules, with the manifest
they answer, is synced to the disk (``synchronous = FULL``) before the first of them is sent.

Everything later is cheap: that a capsule was acknowledged, a new time for a retry, counts. If a power cut loses it, the
device sends the same bytes again, and the same bytes count once. So these are written together now and then, and not
synced (``synchronous = NORMAL``, in write-ahead mode: such commits may be lost, in order, from the last one; nothing is
damaged). A process that is merely killed loses only what was not written yet.

**What is pinned.** Cohort, label and binned vector are drawn and fixed when the person joins. A new sample of features
in every round, or at every restart, would empty a history bit by bit.

**What is forgotten.** A capsule: when it is acknowledged, or at the end of its window. Vector, label, session and
capsules of an experiment, and what is believed of it: with ``forget``, overwritten with zeros (``secure_delete``), the
log emptied. Cohort, counts and ledger stay: who forgets cannot join again to be drawn anew. No content of a package is
kept, and no time but those still to come. What is kept to check the server is ``books``'s.

The folder is the person's alone (0700), the file too (0600). Two processes may have it open: one that runs, and a
command that pauses or forgets; ``changed_elsewhere`` tells the first.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from secvm.errors import BadInputError, StoreError
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.contribution import Individual
from secvm.learning.package import Cohort
from secvm.participant.storage.books import (
    NOTHING,
    TABLES,
    TAKES_PART,
    Accepted,
    Book,
    LedgerBook,
    RelayedBook,
    TrustBook,
)
from secvm.participant.storage.device_lock import DeviceLock, lock_person, refuse_locked, rewrite_people, unlock_person
from secvm.protocol.plain.session_events import Abstain, Finished
from secvm.protocol.plain.session_memory import Changes, WaitingRow
from secvm.protocol.relays.session import RelayedChanges, RequestRow
from secvm.runtime.disk.sqlite_file import FAULTS, SqliteFormat, connect_personal, refusal, statements, transaction

FILE = "state.sqlite"
#: "SeS2", in the file's header; "SecS" is a state of version 1 of the protocol.
_APPLICATION, _FIRST_APPLICATION = 0x53655332, 0x53656353
_VERSION = 1
_OTHER_VERSION = refusal("{}: the state was made by another version of this program")
#: Days of traffic that are kept.
_DAYS_KEPT = 7

_SCHEMA = """
-- Changes: status, and ending once. With forget: label, target and vector go.
CREATE TABLE experiment (
    digest TEXT PRIMARY KEY, envelope BLOB NOT NULL, status TEXT NOT NULL,
    cohort TEXT, label INTEGER, target INTEGER, vector BLOB, ending BLOB, salt BLOB
) WITHOUT ROWID;
-- A session without its capsules. Goes with forget.
CREATE TABLE session (experiment TEXT PRIMARY KEY, header BLOB NOT NULL) WITHOUT ROWID;
-- Sealed and not acknowledged yet. Goes with the acknowledgement, the window or forget.
CREATE TABLE capsule (
    experiment TEXT NOT NULL, id INTEGER NOT NULL, at INTEGER NOT NULL, attempts INTEGER NOT NULL,
    capsule BLOB NOT NULL, PRIMARY KEY (experiment, id)
) WITHOUT ROWID;
-- The last model that this device believes: whose blob lies beside this file.
CREATE TABLE model (experiment TEXT PRIMARY KEY, round INTEGER NOT NULL, weights TEXT NOT NULL) WITHOUT ROWID;
-- How many packages left the device, never which. Stays.
CREATE TABLE history (
    experiment TEXT NOT NULL, round INTEGER NOT NULL, packages INTEGER NOT NULL,
    acknowledged INTEGER NOT NULL, lost INTEGER NOT NULL, PRIMARY KEY (experiment, round)
) WITHOUT ROWID;
-- Why nothing was sent. Stays.
CREATE TABLE abstention (
    experiment TEXT NOT NULL, round INTEGER NOT NULL, reason TEXT NOT NULL, sentence TEXT NOT NULL,
    PRIMARY KEY (experiment, round, reason)
) WITHOUT ROWID;
-- Signed bytes that convince others. Stays.
CREATE TABLE evidence (experiment TEXT NOT NULL, envelope BLOB NOT NULL, UNIQUE (experiment, envelope));
-- Bytes sent and fetched, by day. Goes after a week.
CREATE TABLE traffic (day INTEGER PRIMARY KEY, bytes INTEGER NOT NULL);
"""
#: All tables of a state.
_TABLES = statements(_SCHEMA, TABLES)
_FORMAT = SqliteFormat(
    application_id=_APPLICATION,
    version=_VERSION,
    migrations=(_TABLES,),
    foreign=refusal("{}: this is no state of a device"),
    newer=_OTHER_VERSION,
    older=_OTHER_VERSION,
    fault=lambda _error, path: BadInputError(f"{path}: this is no state of a device, or it is damaged"),
    earlier={
        _FIRST_APPLICATION: refusal(
            "{}: this state is of version 1 of the protocol, whose experiments do not run any more",
            "Take a new folder; keep the old one if you want to know what it has told.",
        )
    },
)


class Published(Protocol):
    """A manifest or an ending, for the model that it names."""

    @property
    def round_number(self) -> int: ...

    @property
    def evaluation_weights(self) -> str: ...


class Status(StrEnum):
    """What the person has decided about an experiment."""

    JOINED = "joined"
    PAUSED = "paused"
    FORGOTTEN = "forgotten"
    DECLINED = "declined"


@dataclass(frozen=True, slots=True)
class ExperimentRecord:
    """One experiment on this device."""

    digest: str
    status: Status
    #: As it was served.
    envelope: bytes = field(repr=False)
    cohort: Cohort | None
    #: The person as the experiment sees it, pinned when they joined; None: never joined, forgotten, or locked.
    person: Individual | None
    #: The statement that the experiment is over, as it was served.
    ending: bytes | None = field(default=None, repr=False)
    #: The salt that beacons fixed, as it was when the person joined.
    salt: bytes | None = None


@dataclass(frozen=True, slots=True)
class RoundHistory:
    """What left the device in one round."""

    round_number: int
    packages: int
    acknowledged: int
    lost: int


@dataclass(frozen=True, slots=True)
class BelievedModel:
    """Which model a device believes."""

    #: After how many rounds it is: a round's manifest brings the model of the rounds before, an ending that of all.
    rounds: int
    #: Digest of the evaluation weights.
    weights: str


class DeviceState(Book):
    """The state of one device. ``close`` it; writes happen inside ``writing``."""

    def __init__(
        self,
        folder: Path,
        *,
        unsafe_unsynced: bool = False,
        lock: DeviceLock | None = None,
        database: sqlite3.Connection | None = None,
    ) -> None:
        """``lock``: of a device with a passphrase. Without it the people of its records are not known. ``database``:
        open already, in place of the folder's file: on a simulated disk, say.
        """
        self._path = folder / FILE
        self._lock = lock
        super().__init__(database or connect_personal(self._path, "state", cached_statements=64))
        _FORMAT.prepare(self._db, self._path, synchronous="OFF" if unsafe_unsynced else "FULL")
        #: For hundreds of made-up people on one disk: a process that is killed loses nothing, a power cut may.
        self._unsynced = unsafe_unsynced
        self._durable = True
        #: What it keeps to check the server.
        self.trust = TrustBook(self._db)
        #: Which rounds it has joined, for ever.
        self.ledger = LedgerBook(self._db)
        #: What it keeps of experiments with two relays.
        self.relayed = RelayedBook(self._db)
        self._version = self._data_version()
        if lock is not None:
            # Pinned before there was a passphrase, or left by a change that was interrupted.
            rewrite_people(self._db, self.writing(durable=True), old=lock, new=lock)

    def __repr__(self) -> str:
        return "DeviceState(...)"

    @property
    def folder(self) -> Path:
        """Where this device keeps its things."""
        return self._path.parent

    def close(self) -> None:
        self._db.close()

    def changed_elsewhere(self) -> bool:
        """Whether another process has written since this was last asked."""
        before, self._version = self._version, self._data_version()
        return before != self._version

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[None]:
        """One transaction. ``durable``: on the disk when this ends; else it may be lost in a power cut."""
        if durable != self._durable and not self._unsynced:
            self._db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._durable = durable
        with transaction(self._db):
            yield

    # ── experiments ──────────────────────────────────────────────────────────────────────────────────────────────────

    def records(self) -> list[ExperimentRecord]:
        """All experiments that this device knows."""
        query = (
            "SELECT digest, status, envelope, cohort, label, target, vector, ending, salt FROM experiment"
            " ORDER BY digest"
        )
        try:
            rows = self._rows(query)
        except FAULTS:
            raise StoreError("the state of this device cannot be read") from None
        return [_read_record(row, self._lock) for row in rows]

    def record(self, digest: str) -> ExperimentRecord | None:
        """One of them."""
        return next((record for record in self.records() if record.digest == digest), None)

    def join(
        self,
        digest: str,
        envelope: bytes,
        person: Individual,
        *,
        salt: bytes | None = None,
        accepted: Accepted = NOTHING,
    ) -> None:
        """Take part from now on; what is pinned here stays. Only once: see ``forget``."""
        if self._lock is None:
            refuse_locked(self.folder)
        row = lock_person((person.label, person.target, _write_vector(person.vector)), digest, self._lock)
        with self.writing(durable=True):
            if self._row("SELECT 1 FROM experiment WHERE digest = ? AND status <> ?", digest, Status.DECLINED):
                raise BadInputError("this device has joined that experiment before, and cannot be drawn anew")
            query = "INSERT OR REPLACE INTO experiment VALUES (?, ?, ?, ?, ?, ?, ?, NULL, ?)"
            self._run(query, digest, envelope, Status.JOINED, person.cohort.name, *row, salt)
            self.ledger.put_accepted(digest, accepted)

    def decline(self, digest: str, envelope: bytes) -> None:
        """Remember that the person said no. What was joined before stays as it is."""
        with self.writing(durable=True):
            query = "INSERT OR IGNORE INTO experiment VALUES (?, ?, ?, NULL, NULL, NULL, NULL, NULL, NULL)"
            self._run(query, digest, envelope, Status.DECLINED)

    def set_status(self, digest: str, status: Status) -> None:
        """Pause or resume. Whoever resumes has seen why the device distrusted, if it did."""
        with self.writing(durable=True):
            if status is Status.JOINED:
                self.trust.clear_distrust(digest)
                self.relayed.clear_unopened(digest)
            query = "UPDATE experiment SET status = ? WHERE digest = ? AND status IN (?, ?)"
            changed = self._run(query, status, digest, Status.JOINED, Status.PAUSED)
        if not changed:
            raise BadInputError("this device does not take part in that experiment")

    def forget(self, digest: str) -> None:
        """Forget the person in this experiment for ever. Cohort, counts and ledger stay, and so does the decision."""
        with self.writing(durable=True):
            query = "UPDATE experiment SET status = ?, label = NULL, target = NULL, vector = NULL WHERE digest = ?"
            self._run(query, Status.FORGOTTEN, digest)
            # A round that runs is over with this: what does not wait any more has left the device.
            self._run(
                "UPDATE history SET acknowledged = packages - (SELECT count(*) FROM capsule WHERE experiment = ?1)"
                " WHERE experiment = ?1 AND acknowledged + lost = 0"
                " AND round = (SELECT max(round) FROM history WHERE experiment = ?1)"
                " AND EXISTS (SELECT 1 FROM capsule WHERE experiment = ?1)",
                digest,
            )
            self._delete(digest, "session", "capsule", "model")
            self.trust.forget(digest)
            self.relayed.forget(digest)
        if not self.empty_log():
            raise BadInputError(
                "forgotten, but another process reads the state, so its log still holds what was there before",
                next_step="Run the command again when the other process is done.",
            )

    def empty_log(self) -> bool:
        """Cut SQLite's log, which may still hold pages as they were; False: another process reads, and it stays."""
        busy, _, _ = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def unlock_for_good(self) -> None:
        """Keep label and vector plain again; the person wants no passphrase any more."""
        old, self._lock = self._lock, None
        rewrite_people(self._db, self.writing(durable=True), old=old, new=None)

    # ── sessions, inside ``writing`` ─────────────────────────────────────────────────────────────────────────────────

    def session_parts(self, digest: str) -> tuple[bytes, list[WaitingRow]] | None:
        """Header and capsules of a session, if it was ever stored."""
        session = self._row("SELECT header FROM session WHERE experiment = ?", digest)
        if session is None:
            return None
        rows = self._rows("SELECT id, at, attempts, capsule FROM capsule WHERE experiment = ?", digest)
        return session[0], [WaitingRow(*row) for row in rows]

    def relayed_session(self, digest: str) -> tuple[bytes, RequestRow | None] | None:
        """Header and request of a session in an experiment with two relays, if it was ever stored."""
        session = self._row("SELECT header FROM session WHERE experiment = ?", digest)
        return None if session is None else (session[0], self.relayed.request(digest))

    def put_relayed_session(self, digest: str, changes: RelayedChanges, manifest: bytes) -> None:
        """The same for changes of such a session; ``manifest`` is the payload of its round."""
        if not self._put_header(digest, changes.header):
            return
        if changes.forget:
            self.relayed.drop_request(digest)
        if changes.sealed is not None:
            self.relayed.put_request(digest, *changes.sealed)
        if changes.taken is not None:
            self.relayed.put_canary(digest, changes.taken, manifest)

    def put_session(self, digest: str, changes: Changes) -> None:
        """Apply changes, unless another process has forgotten the experiment meanwhile."""
        if not self._put_header(digest, changes.header):
            return
        self._db.executemany(
            "DELETE FROM capsule WHERE experiment = ? AND id = ?", [(digest, i) for i in changes.removed]
        )
        self._db.executemany(
            "INSERT OR REPLACE INTO capsule VALUES (?, ?, ?, ?, ?)",
            [(digest, row.package_id, row.at, row.attempts, row.capsule) for row in changes.put],
        )

    def _put_header(self, digest: str, header: bytes | None) -> bool:
        """Whether the experiment is still taken part in; then the session's header is written, where it changed."""
        if not self._row(f"SELECT 1 WHERE {TAKES_PART}", digest):
            return False
        if header is not None:
            self._run("INSERT OR REPLACE INTO session VALUES (?, ?)", digest, header)
        return True

    def put_joined(self, digest: str, round_number: int, packages: int) -> None:
        """A round's packages are sealed."""
        self._run("INSERT OR IGNORE INTO history VALUES (?, ?, ?, 0, 0)", digest, round_number, packages)

    def put_finished(self, digest: str, finished: Finished) -> None:
        """A round is over for this device."""
        query = "UPDATE history SET acknowledged = ?, lost = ? WHERE experiment = ? AND round = ?"
        self._run(query, finished.acknowledged, finished.lost, digest, finished.round_number)

    def put_abstention(self, digest: str, round_number: int, abstain: Abstain) -> None:
        """Why nothing was sent, and what shows it."""
        query = "INSERT OR REPLACE INTO abstention VALUES (?, ?, ?, ?)"
        self._run(query, digest, round_number, abstain.reason.name, abstain.sentence)
        for data in abstain.evidence:
            self._run("INSERT OR IGNORE INTO evidence VALUES (?, ?)", digest, data)

    def put_model(self, digest: str, published: Published) -> None:
        """The model that this device believes now: the one of a round, or of the ending."""
        query = f"INSERT OR REPLACE INTO model SELECT ?, ?, ? WHERE {TAKES_PART}"
        self._run(query, digest, published.round_number, published.evaluation_weights, digest)

    def put_ending(self, digest: str, envelope: bytes, ending: Published) -> None:
        """The experiment is over; its last model is believed."""
        self._run("UPDATE experiment SET ending = ? WHERE digest = ?", envelope, digest)
        self.put_model(digest, ending)

    def put_traffic(self, day: int, count: int) -> None:
        """So many bytes more."""
        query = "INSERT INTO traffic VALUES (?, ?) ON CONFLICT (day) DO UPDATE SET bytes = bytes + excluded.bytes"
        self._run(query, day, count)
        self._run("DELETE FROM traffic WHERE day < ?", day - _DAYS_KEPT)

    # ── looking back ─────────────────────────────────────────────────────────────────────────────────────────────────

    def history(self, digest: str) -> list[RoundHistory]:
        """The rounds in which this device took part."""
        query = "SELECT round, packages, acknowledged, lost FROM history WHERE experiment = ? ORDER BY round"
        return [RoundHistory(*row) for row in self._rows(query, digest)]

    def abstentions(self, digest: str) -> list[tuple[int, str, str]]:
        """Round, reason, sentence."""
        query = "SELECT round, reason, sentence FROM abstention WHERE experiment = ? ORDER BY round, reason"
        return self._rows(query, digest)

    def evidence(self, digest: str) -> list[bytes]:
        """Signed bytes that contradict each other, or the experiment."""
        query = "SELECT envelope FROM evidence WHERE experiment = ? ORDER BY rowid"
        return [row[0] for row in self._rows(query, digest)]

    def model(self, digest: str) -> BelievedModel | None:
        """The last model that this device believes."""
        after = "round - (SELECT ending IS NULL FROM experiment WHERE digest = model.experiment)"
        row = self._row(f"SELECT {after}, weights FROM model WHERE experiment = ?", digest)  # noqa: S608  (our own text)
        return None if row is None else BelievedModel(*row)

    def traffic(self, day: int) -> int:
        """Bytes of one day."""
        row = self._row("SELECT bytes FROM traffic WHERE day = ?", day)
        return 0 if row is None else int(row[0])

    def _data_version(self) -> int:
        return int(self._row("PRAGMA data_version")[0])


_Row = tuple[str, str, bytes, str | None, int | None, int | None, bytes | None, bytes | None, bytes | None]


def _read_record(row: _Row, lock: DeviceLock | None) -> ExperimentRecord:
    digest, status, envelope, cohort_name, label, target, vector, ending, salt = row
    try:
        cohort = None if cohort_name is None else Cohort[cohort_name]
        known = Status(status)
    except (KeyError, ValueError):
        raise StoreError("what the state keeps of an experiment is not whole") from None
    columns = None if vector is None else unlock_person((label, target, vector), digest, lock)
    person = None
    if cohort is not None and columns is not None and columns[0] is not None and columns[1] is not None:
        person = Individual(vector=_read_vector(columns[2]), label=columns[0], target=columns[1], cohort=cohort)
    return ExperimentRecord(digest, known, envelope, cohort, person, ending, salt)


def _write_vector(vector: BinnedVector) -> bytes:
    numbers = [vector.n_bins, *(number for pair in vector.values.items() for number in pair)]
    return struct.pack(f"<{len(numbers)}q", *numbers)


def _read_vector(data: bytes) -> BinnedVector:
    try:
        n_bins, *numbers = struct.unpack(f"<{len(data) // 8}q", data)
        return BinnedVector(values=dict(zip(numbers[::2], numbers[1::2], strict=True)), n_bins=n_bins)
    except (ValueError, struct.error):
        raise StoreError("what the state keeps of a person's bins is not whole") from None
