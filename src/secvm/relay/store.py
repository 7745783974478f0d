"""What a relay holds of plain experiments: what was answered 202 survives whatever happens to process or machine.

SQLite in WAL mode, synchronous=FULL: a commit is on the disk when it returns. The life of an epoch in it:

 1. ``append``: groups of capsules, one packed blob for each group, under a random number and sorted inside, so that
    the tables do not say in which order capsules came. Beside them how many each client sent, by a keyed hash; the
    key is in the epoch's own row. No row joins a client with a capsule.
 2. ``seal``, at the deposit moment, one transaction: the sorted deposit is written, or nothing where nothing came;
    groups, clients and key are destroyed. From here on the deposit's bytes do not change, however often it is sent.
 3. ``forget``, when the coordinator has it: the deposit is destroyed as well.

What is destroyed is overwritten in the database's file (secure_delete), and the write-ahead log, which has older copies
of pages, is cut to nothing. What a disk or a file system keeps of overwritten blocks is beyond a program.

Methods may be called from any thread; each is one transaction.

``Holding`` is what becomes of a package's capsule that was let in (§19.6): it is answered after our commit. A capsule
that comes again while the first is under way waits for the same commit. The number of capsules that wait is limited,
and who is one too many is asked to come later.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from secvm.crypto.sealing.capsules import pack, packed_size, unpack
from secvm.crypto.sealing.kem import RandomBytes
from secvm.errors import LocalProtocolError
from secvm.relay.admission import Admission, Begun, EpochTable, Verdict, digest_of
from secvm.relay.database import FETCH_KEYS, RelayDatabase
from secvm.relay.gateway import Answer
from secvm.relay.refusals import problem, try_later
from secvm.runtime.disk.group_commit import GroupCommit
from secvm.runtime.http.server import HttpResponse

#: Of the tables below; another number is another program's file.
_VERSION = 4
#: A deposit is kept in pieces: SQLite's values end at a gigabyte.
_PART_BYTES = 2**22

_SCHEMA = """
-- An epoch that has capsules and is not sealed. Row: gone at the seal.
CREATE TABLE epochs (
    epoch      INTEGER PRIMARY KEY,
    client_key BLOB NOT NULL        -- turns addresses into names; 32 random bytes
);
-- Capsules side by side (crypto.capsules). Gone at the seal.
CREATE TABLE groups (
    number INTEGER PRIMARY KEY,     -- random: says nothing of when
    epoch  INTEGER NOT NULL,
    packed BLOB NOT NULL
);
-- How many distinct capsules each client sent. Grows; gone at the seal.
CREATE TABLE clients (
    epoch    INTEGER NOT NULL,
    name     BLOB NOT NULL,
    capsules INTEGER NOT NULL,
    PRIMARY KEY (epoch, name)
) WITHOUT ROWID;
-- A sealed epoch on its way: the body of POST /v1/deposit in pieces. Gone when the coordinator has it.
CREATE TABLE deposits (
    epoch INTEGER NOT NULL,
    part  INTEGER NOT NULL,
    data  BLOB NOT NULL,
    PRIMARY KEY (epoch, part)
) WITHOUT ROWID;
-- One row: the last epoch that was sealed. Stays.
CREATE TABLE sealed (epoch INTEGER NOT NULL);
INSERT INTO sealed VALUES (-1);
-- One row: the grid by which epochs are numbered here. Stays.
CREATE TABLE grid (origin_ms INTEGER NOT NULL, period_ms INTEGER NOT NULL);
"""

_COUNT_CLIENT = """
INSERT INTO clients VALUES (?, ?, ?)
ON CONFLICT (epoch, name) DO UPDATE SET capsules = capsules + excluded.capsules
"""


@dataclass(frozen=True, slots=True, repr=False)
class Arrival:
    """One capsule, and who is to be counted for it."""

    epoch: int
    #: The epoch's key for names of clients.
    key: bytes
    client: bytes
    capsule: bytes


#: Distinct clients and distinct capsules of an epoch → the bytes to deposit; None: it is to be destroyed.
MakeDeposit = Callable[[int, Sequence[bytes]], bytes | None]


class RoundStore(RelayDatabase):
    """Capsules until their epoch is deposited."""

    def __init__(self, path: Path, dice: RandomBytes, *, database: sqlite3.Connection | None = None) -> None:
        super().__init__(path, _SCHEMA + FETCH_KEYS, _VERSION, database=database)
        self._dice = dice
        with self._format.guarding(self._db, path):
            self._sealed: int = self._db.execute("SELECT epoch FROM sealed").fetchone()[0]
            self._begun = {row[0] for row in self._db.execute("SELECT epoch FROM epochs")}

    def keep_grid(self, origin_ms: int, period_ms: int) -> bool:
        """Whether epochs are numbered here as they always were; the first time decides."""
        with self.transaction():
            kept = self._db.execute("SELECT origin_ms, period_ms FROM grid").fetchone()
            if kept is None:
                self._db.execute("INSERT INTO grid VALUES (?, ?)", (origin_ms, period_ms))
        return kept is None or kept == (origin_ms, period_ms)

    def append(self, arrivals: Sequence[Arrival]) -> None:
        """Keep these, all or none, in one commit."""
        by_epoch: dict[int, list[Arrival]] = {}
        for arrival in arrivals:
            by_epoch.setdefault(arrival.epoch, []).append(arrival)
        with self.transaction():
            for epoch, members in by_epoch.items():
                if epoch <= self._sealed:
                    raise LocalProtocolError("nothing is added to an epoch that is sealed")
                number = int.from_bytes(self._dice(8), "little") >> 1
                packed = pack(sorted(arrival.capsule for arrival in members))
                self._db.execute("INSERT OR IGNORE INTO epochs VALUES (?, ?)", (epoch, members[0].key))
                self._db.execute("INSERT INTO groups VALUES (?, ?, ?)", (number, epoch, packed))
                counts = Counter(arrival.client for arrival in members)
                self._db.executemany(_COUNT_CLIENT, [(epoch, name, count) for name, count in sorted(counts.items())])
        self._begun |= by_epoch.keys()

    def begun(self) -> list[int]:
        """Epochs that have capsules or gave tokens, and are not sealed, ascending."""
        return sorted(self._begun)

    def read(self, epoch: int) -> Begun | None:
        """What is known of an epoch that has begun; None of another, at once."""
        if epoch not in self._begun:
            return None
        with self._lock:
            key = self._db.execute("SELECT client_key FROM epochs WHERE epoch = ?", (epoch,)).fetchone()[0]
            sent = dict(self._db.execute("SELECT name, capsules FROM clients WHERE epoch = ?", (epoch,)))
        sizes = {digest_of(capsule): packed_size(capsule) for capsule in self._capsules(epoch)}
        return Begun(key, sent, sizes.keys(), sum(sizes.values()))

    def sealed(self) -> int:
        """The last epoch that was sealed; -1: none yet."""
        return self._sealed

    def seal(self, epoch: int, make: MakeDeposit) -> bool:
        """End an epoch: what ``make`` returns is what will be deposited. False: it made nothing, all is destroyed.

        A second time changes nothing. There must be no ``append`` to this epoch any more.
        """
        if epoch <= self._sealed:
            return bool(self.deposit(epoch))
        distinct = {hashlib.sha256(capsule).digest(): capsule for capsule in self._capsules(epoch)}
        with self._lock:
            clients = self._db.execute("SELECT count(*) FROM clients WHERE epoch = ?", (epoch,)).fetchone()[0]
        # Outside of the lock: with a million capsules this takes a second, and other epochs' commits go on.
        body = make(clients, list(distinct.values()))
        with self._lock:
            with self.transaction():
                for part, at in enumerate(range(0, len(body or b""), _PART_BYTES)):
                    data = (body or b"")[at : at + _PART_BYTES]
                    self._db.execute("INSERT INTO deposits VALUES (?, ?, ?)", (epoch, part, data))
                for table in ("groups", "clients", "epochs"):
                    self._db.execute(f"DELETE FROM {table} WHERE epoch <= ?", (epoch,))  # noqa: S608  (names of ours)
                self._db.execute("UPDATE sealed SET epoch = ?", (epoch,))
            self._sealed = epoch
            self._begun = {other for other in self._begun if other > epoch}
            self.cut_log()
        return body is not None

    def waiting(self) -> list[int]:
        """Epochs that are sealed and not yet with the coordinator, ascending."""
        with self._lock:
            return [row[0] for row in self._db.execute("SELECT DISTINCT epoch FROM deposits ORDER BY epoch")]

    def deposit(self, epoch: int) -> bytes:
        """The bytes to send for a sealed epoch; none: there is nothing to send."""
        with self._lock:
            parts = self._db.execute("SELECT data FROM deposits WHERE epoch = ? ORDER BY part", (epoch,)).fetchall()
        return b"".join(part for (part,) in parts)

    def forget(self, epoch: int) -> None:
        """The coordinator has it, or nobody wants it any more. Twice is once."""
        with self._lock:
            with self.transaction():
                self._db.execute("DELETE FROM deposits WHERE epoch = ?", (epoch,))
            self.cut_log()

    def _capsules(self, epoch: int) -> list[bytes]:
        with self._lock:
            rows = self._db.execute("SELECT packed FROM groups WHERE epoch = ?", (epoch,)).fetchall()
        return [capsule for (packed,) in rows for capsule in unpack(packed)]


#: A durable commit takes about as long.
_COMMIT_TICK_MS = 2.0
#: Capsules of one commit.
_LARGEST_GROUP = 2000


def accepted() -> HttpResponse:
    """It will not be lost."""
    return HttpResponse(202)


@dataclass(frozen=True, slots=True, repr=False)
class _Held:
    """A capsule that waits for its commit."""

    table: EpochTable
    client: bytes
    digest: bytes
    capsule: bytes


class Holding:
    """Keeps capsules until their epoch's deposit."""

    def __init__(self, store: RoundStore, admission: Admission, *, waiting: int, retry_after_s: int) -> None:
        self.store = store
        self._admission = admission
        self._retry_after_s = retry_after_s
        self._under_way: dict[tuple[int, bytes], asyncio.Future[HttpResponse]] = {}
        self._group: GroupCommit[_Held, HttpResponse] = GroupCommit(
            self._keep,
            _COMMIT_TICK_MS,
            largest=_LARGEST_GROUP,
            waiting=waiting,
            failed=lambda _error: try_later(retry_after_s),
            settled=self._settled,
        )

    def take(self, table: EpochTable, client: bytes, capsule: bytes) -> Answer:
        """Let it in, and answer."""
        # The first byte is the id of the gateway's key, which is the epoch's number modulo 256 (docs/protocol.md
        # §19.1). In another epoch's deposit nobody could open it: accepted, it would be lost.
        ahead = (capsule[0] - table.epoch) % 256
        if ahead:
            # Of the next epoch: its clock is ahead of ours, or ours was set back.
            return try_later(self._retry_after_s) if ahead == 1 else problem("stale")
        digest = digest_of(capsule)
        known = self._under_way.get((table.epoch, digest))
        if known is not None:
            # One who hangs up must not take the other's answer away.
            return asyncio.shield(known)
        if self._group.full:
            return try_later(self._retry_after_s)
        match table.admit(client, digest, packed_size(capsule)):
            case Verdict.OVER_QUOTA:
                return problem("over-quota")
            case Verdict.FULL:
                return try_later(self._retry_after_s)
            case Verdict.AGAIN:
                return accepted()
        future = self._group.add(_Held(table, client, digest, capsule))
        self._under_way[table.epoch, digest] = future
        return asyncio.shield(future)

    def _keep(self, held: list[_Held]) -> list[HttpResponse]:
        self.store.append([Arrival(item.table.epoch, item.table.key, item.client, item.capsule) for item in held])
        return [accepted() for _ in held]

    def _settled(self, group: list[_Held], durable: bool) -> None:
        for item in group:
            self._under_way.pop((item.table.epoch, item.digest), None)
            if not durable:
                item.table.release(item.client, item.digest, packed_size(item.capsule))

    async def end_before(self, epoch: int) -> None:
        """Put nothing more into epochs before this one, and return when what was put there is durable."""
        self._admission.lowest = max(self._admission.lowest, epoch)
        await self.flush()

    async def flush(self) -> None:
        """Return when everything taken before this call has its answer, without waiting for company."""
        await self._group.flush()

    async def close(self) -> None:
        """Nothing more will come."""
        await self._group.close()
