"""SQLiteStore: a coordinator's store in one file (docs/data-model.md). What is acknowledged survives SIGKILL and power.

Capsules and records are kept as they come, many in one blob: a commit is a row or a few, whatever it carries.
"""

from __future__ import annotations

import copy
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from secvm.coordinator.store import rules
from secvm.coordinator.store.database import Database
from secvm.coordinator.store.port import (
    CoordinatorStore,
    Deposit,
    Standing,
    StoredExperiment,
    StoredKey,
    StoredNote,
    StoredRound,
)
from secvm.coordinator.store.records import check_block
from secvm.coordinator.store.sqlite_batches import SQLiteBatches
from secvm.errors import BadInputError, LocalProtocolError, StaleDriverError
from secvm.protocol.round_state import RoundState

#: Blocks are read, and scrubbed, in pieces of about so many bytes and at most so many rows: ingest waits meanwhile.
_PIECE_BYTES = 2**22
_PIECE_ROWS = 4096


class SQLiteStore(SQLiteBatches):
    """The port on one file; one object, and one process, for a file.

    So nobody else can drive: a lease lasts until it is let go of or the file is, and claims are not needed.
    """

    def __init__(self, path: Path) -> None:
        self._database = Database(path)
        #: By term; at most one. Shared with the views of those who drive.
        self._holders: dict[int, str] = {}
        self._term: int | None = None
        try:
            self._finish_forgetting()
            self._finish_scrubs()
        except BaseException:
            self._database.close()
            raise

    # ── who drives ───────────────────────────────────────────────────────────────────────────────────────────────────

    def lead(self, holder: str, lease_s: float) -> int | None:
        rules.may_lead(holder, lease_s)
        with self._database.changing() as connection:
            for term, leads in self._holders.items():
                return term if leads == holder else None
            (term,) = connection.execute("UPDATE driver SET term = term + 1 RETURNING term").fetchone()
            self._holders[term] = holder
            return int(term)

    def resign(self, term: int) -> None:
        with self._database.reading():
            self._holders.pop(term, None)

    def driving(self, term: int) -> CoordinatorStore:
        view = copy.copy(self)
        view._term = term  # noqa: SLF001  (a copy of ourselves)
        return view

    @contextmanager
    def _fenced(self) -> Iterator[sqlite3.Connection]:
        """A transaction of somebody who may drive: without a term there is one process, and it may."""
        with self._database.changing() as connection:
            if self._term is not None and self._term not in self._holders:
                raise StaleDriverError
            yield connection

    # ── experiments, rounds, blobs ───────────────────────────────────────────────────────────────────────────────────

    def add_experiment(self, experiment: StoredExperiment, blobs: Mapping[str, bytes]) -> None:
        with self._fenced() as connection:
            found = connection.execute(
                "SELECT digest, envelope, settings, standing FROM experiments WHERE digest = ?", (experiment.digest,)
            ).fetchone()
            if found is not None:
                rules.same_experiment(_experiment(found), experiment)
                return
            connection.execute(
                "INSERT INTO experiments (digest, envelope, settings, standing) VALUES (?, ?, ?, ?)",
                (experiment.digest, experiment.envelope, experiment.settings, experiment.standing.value),
            )
            _keep(connection, blobs)

    def experiments(self) -> list[StoredExperiment]:
        rows = self._database.rows("SELECT digest, envelope, settings, standing FROM experiments ORDER BY position")
        return [_experiment(row) for row in rows]

    def set_standing(self, digest: str, standing: Standing) -> None:
        with self._fenced() as connection:
            rules.may_stand(_standing(connection, digest), standing)
            connection.execute("UPDATE experiments SET standing = ? WHERE digest = ?", (standing.value, digest))

    def rounds(self, digest: str) -> list[StoredRound]:
        rows = self._database.rows(f"{_ROUNDS} WHERE experiment = ? ORDER BY number", digest)
        return [_stored_round(row) for row in rows]

    def blob(self, digest: str) -> bytes:
        for (data,) in self._database.rows("SELECT data FROM blobs WHERE digest = ?", digest):
            return bytes(data)
        raise KeyError(digest)

    def keep_blobs(self, blobs: Mapping[str, bytes]) -> None:
        with self._fenced() as connection:
            _keep(connection, blobs)

    def agree(self, name: str, value: bytes) -> bytes:
        with self._database.changing() as connection:
            _keep(connection, {rules.agreed_name(name): value})
        return self.blob(rules.agreed_name(name))

    def announce(self, announced: StoredRound, blobs: Mapping[str, bytes]) -> None:
        with self._fenced() as connection:
            standing = _standing(connection, announced.experiment)
            there = _round(connection, announced.experiment, announced.number)
            rules.may_announce(there, announced, standing)
            if there is not None:
                return
            _begin_epoch(connection, announced.epoch)
            connection.execute(
                "INSERT INTO rounds (experiment, number, epoch, state, envelope) VALUES (?, ?, ?, ?, ?)",
                (announced.experiment, announced.number, announced.epoch, announced.state.value, announced.envelope),
            )
            _keep(connection, blobs)

    def set_state(self, digest: str, number: int, state: RoundState) -> None:
        with self._fenced() as connection:
            if rules.moves(_round(connection, digest, number), state):
                connection.execute(
                    "UPDATE rounds SET state = ? WHERE experiment = ? AND number = ?", (state.value, digest, number)
                )

    def conclude(
        self, digest: str, number: int, *, tally: str | None, next_state: str, blobs: Mapping[str, bytes]
    ) -> None:
        with self._fenced() as connection:
            if not rules.concludes(_round(connection, digest, number), tally, next_state):
                return
            state = RoundState.ABANDONED if tally is None else RoundState.TALLIED
            connection.execute(
                "UPDATE rounds SET state = ?, tally = ?, next_state = ? WHERE experiment = ? AND number = ?",
                (state.value, tally, next_state, digest, number),
            )
            _keep(connection, blobs)

    # ── epochs ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def add_key(self, key: StoredKey) -> StoredKey:
        with self._fenced() as connection:
            _, scrubbed = _begin_epoch(connection, key.epoch)
            rules.key_fits(key, scrubbed=scrubbed)
            return _put_key(connection, "keys", key)

    def keys(self) -> list[StoredKey]:
        rows = self._database.rows("SELECT epoch, key_id, private FROM keys ORDER BY epoch")
        return [StoredKey(*row) for row in rows]

    def add_fetch_key(self, key: StoredKey) -> StoredKey:
        rules.key_fits(key, scrubbed=False)
        with self._fenced() as connection:
            return _put_key(connection, "fetch_keys", key)

    def fetch_keys(self) -> list[StoredKey]:
        rows = self._database.rows("SELECT epoch, key_id, private FROM fetch_keys ORDER BY epoch")
        return [StoredKey(*row) for row in rows]

    def forget_fetch_key(self, epoch: int) -> None:
        with self._fenced() as connection:
            connection.execute("DELETE FROM fetch_keys WHERE epoch = ?", (epoch,))
        self._database.empty_log()

    def append_sealed(self, epoch: int, packed: Sequence[bytes]) -> bool:
        with self._database.changing() as connection:
            closed, _ = _begin_epoch(connection, epoch)
            if not closed:
                _append(connection, epoch, packed)
            return not closed

    def sealed(self, epoch: int, limit: int) -> list[tuple[int, bytes]]:
        return self._database.rows(f"SELECT number, packed {_SEALED} ORDER BY number LIMIT ?", epoch, limit)

    def left_sealed(self, epoch: int) -> bool:
        return self._database.row(f"SELECT 1 {_SEALED}", epoch) is not None

    def replace_sealed(self, epoch: int, numbers: Sequence[int], block: bytes) -> None:
        check_block(block)
        with self._database.changing() as connection:
            deleted = sum(
                connection.execute("DELETE FROM sealed WHERE number = ? AND epoch = ?", (number, epoch)).rowcount
                for number in numbers
            )
            # A refusal undoes the deletion.
            if rules.replaces(numbers, deleted):
                _put_opened(connection, epoch, block)

    def opened(self, epoch: int, shard: int | None = None) -> Iterator[bytes]:
        return self._pieces("opened", epoch) if shard in (None, 0) else iter(())

    def _pieces(self, table: str, epoch: int) -> Iterator[bytes]:
        # A query for each piece: no cursor stays open between two, so that others write and scrub empties the log.
        last = 0
        while True:
            with self._database.reading() as connection:
                shown = connection.execute("SELECT NOT scrubbed FROM epochs WHERE epoch = ?", (epoch,)).fetchone()
                after, last = last, _end_of_piece(connection, table, epoch, last) if shown == (1,) else 0
                blocks = connection.execute(
                    f"SELECT packed FROM {table} WHERE epoch = ? AND number > ? AND number <= ? ORDER BY number",  # noqa: S608  # our own name
                    (epoch, after, last),
                ).fetchall()
            if not blocks:
                return
            for (block,) in blocks:
                yield block

    @property
    def n_shards(self) -> int:
        return 1

    def claim_shard(self, epoch: int) -> int | None:
        with self._database.reading() as connection:
            complete, scrubbed = _complete(connection, epoch)
            known = connection.execute("SELECT 1 FROM shards WHERE epoch = ?", (epoch,)).fetchone()
            return 0 if complete and not scrubbed and known is None else None

    def keep_shard(self, epoch: int, shard: int, result: bytes) -> None:
        with self._database.changing() as connection:
            complete, scrubbed = _complete(connection, epoch)
            rules.may_keep_shard(shard, self.n_shards, complete=complete)
            if not scrubbed:
                connection.execute("INSERT OR IGNORE INTO shards VALUES (?, ?)", (epoch, result))

    def counted_shards(self, epoch: int) -> set[int]:
        return {shard for (shard,) in self._database.rows("SELECT 0 FROM shards WHERE epoch = ?", epoch)}

    def shards(self, epoch: int) -> dict[int, bytes]:
        return dict(self._database.rows("SELECT 0, result FROM shards WHERE epoch = ?", epoch))

    def deposit(self, deposit: Deposit, packed: Sequence[bytes]) -> bool:
        with self._database.changing() as connection:
            closed, _ = _begin_epoch(connection, deposit.epoch)
            known = "SELECT 1 FROM deposits WHERE epoch = ? AND relay = ?"
            if connection.execute(known, (deposit.epoch, deposit.relay)).fetchone() is not None:
                return True
            if closed:
                return False
            connection.execute("INSERT INTO deposits VALUES (?, ?, ?)", (deposit.epoch, deposit.relay, deposit.count))
            _append(connection, deposit.epoch, packed)
            return True

    def deposits(self, epoch: int) -> list[Deposit]:
        rows = self._database.rows("SELECT epoch, relay, count FROM deposits WHERE epoch = ? ORDER BY relay", epoch)
        return [Deposit(*row) for row in rows]

    def close_epoch(self, epoch: int) -> None:
        with self._fenced() as connection:
            _begin_epoch(connection, epoch)
            connection.execute("UPDATE epochs SET closed = 1 WHERE epoch = ?", (epoch,))

    def scrub(self, epoch: int) -> None:
        with self._fenced() as connection:
            # From here on nothing of it is shown; what follows may be killed, and is gone on with at the next start.
            _begin_epoch(connection, epoch)
            connection.execute("UPDATE epochs SET closed = 1, scrubbed = 1 WHERE epoch = ?", (epoch,))
            connection.execute("DELETE FROM keys WHERE epoch = ?", (epoch,))
            connection.execute("DELETE FROM shards WHERE epoch = ?", (epoch,))
        self._remove_content(epoch)
        self._database.empty_log()

    # ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def append_entries(self, at: int, entries: Sequence[bytes]) -> None:
        with self._fenced() as connection:
            rules.may_append(connection.execute("SELECT count(*) FROM entries").fetchone()[0], at)
            rows = [(at + index, entry) for index, entry in enumerate(entries)]
            connection.executemany("INSERT INTO entries VALUES (?, ?)", rows)

    def entries(self, since: int = 0) -> list[bytes]:
        rows = self._database.rows("SELECT entry FROM entries WHERE place >= ? ORDER BY place", since)
        return [entry for (entry,) in rows]

    def keep_note(self, name: str, *, size: int, root: bytes, note: bytes) -> None:
        with self._fenced() as connection:
            found = connection.execute(f"{_NOTES} WHERE name = ?", (name,)).fetchone()
            rules.may_follow(None if found is None else StoredNote(*found), size=size, root=root)
            connection.execute(
                "INSERT INTO notes (name, size, root, note) VALUES (?1, ?2, ?3, ?4)"
                " ON CONFLICT (name) DO UPDATE SET size = ?2, root = ?3, note = ?4",
                (name, size, root, note),
            )

    def notes(self) -> list[StoredNote]:
        return [StoredNote(*row) for row in self._database.rows(f"{_NOTES} ORDER BY name")]

    def keep_beacon(self, digest: str, index: int, record: bytes) -> None:
        with self._fenced() as connection:
            if connection.execute("SELECT 1 FROM experiments WHERE digest = ?", (digest,)).fetchone() is None:
                raise LocalProtocolError("there is no such experiment")
            known = "SELECT record FROM beacons WHERE experiment = ? AND place = ?"
            found = connection.execute(known, (digest, index)).fetchone()
            rules.same_beacon(None if found is None else found[0], record)
            connection.execute("INSERT OR IGNORE INTO beacons VALUES (?, ?, ?)", (digest, index, record))

    def beacons(self, digest: str) -> dict[int, bytes]:
        return dict(
            self._database.rows("SELECT place, record FROM beacons WHERE experiment = ? ORDER BY place", digest)
        )

    def close(self) -> None:
        self._database.close()

    def _finish_scrubs(self) -> None:
        """What a scrub that was killed left: rows, or their bytes in the log."""
        left = self._database.rows(
            "SELECT epoch FROM epochs WHERE scrubbed"
            " AND (epoch IN (SELECT epoch FROM sealed) OR epoch IN (SELECT epoch FROM opened))"
        )
        for (epoch,) in left:
            self._remove_content(epoch)
        self._database.empty_log()

    def _remove_content(self, epoch: int) -> None:
        for table in ("sealed", "opened"):
            while self._remove_some(table, epoch):
                pass

    def _remove_some(self, table: str, epoch: int) -> bool:
        with self._database.changing() as connection:
            last = _end_of_piece(connection, table, epoch, 0)
            connection.execute(f"DELETE FROM {table} WHERE epoch = ? AND number <= ?", (epoch, last))  # noqa: S608  # our own name
            return last > 0


Word = TypeVar("Word", Standing, RoundState)

_SEALED = "FROM sealed JOIN epochs USING (epoch) WHERE epoch = ? AND NOT scrubbed"
_NOTES = "SELECT name, size, root, note FROM notes"
_ROUNDS = "SELECT experiment, number, epoch, state, envelope, tally, next_state FROM rounds"


def _one_of(kind: type[Word], value: str) -> Word:
    """The word of this kind; nothing but a damaged file has another."""
    try:
        return kind(value)
    except ValueError:
        raise BadInputError(
            f"the coordinator's database is damaged: it holds no {kind.__name__} where one belongs",
            next_step="Restore it from a backup.",
        ) from None


def _experiment(row: tuple[str, bytes, bytes, str]) -> StoredExperiment:
    digest, envelope, settings, standing = row
    return StoredExperiment(digest, envelope, settings, _one_of(Standing, standing))


def _stored_round(row: tuple[str, int, int, str, bytes, str | None, str | None]) -> StoredRound:
    experiment, number, epoch, state, envelope, tally, next_state = row
    return StoredRound(experiment, number, epoch, _one_of(RoundState, state), envelope, tally, next_state)


def _standing(connection: sqlite3.Connection, digest: str) -> Standing:
    found = connection.execute("SELECT standing FROM experiments WHERE digest = ?", (digest,)).fetchone()
    if found is None:
        raise LocalProtocolError("there is no such experiment")
    return _one_of(Standing, found[0])


def _round(connection: sqlite3.Connection, digest: str, number: int) -> StoredRound | None:
    found = connection.execute(f"{_ROUNDS} WHERE experiment = ? AND number = ?", (digest, number)).fetchone()
    return None if found is None else _stored_round(found)


def _keep(connection: sqlite3.Connection, blobs: Mapping[str, bytes]) -> None:
    connection.executemany("INSERT OR IGNORE INTO blobs VALUES (?, ?)", blobs.items())


def _put_key(connection: sqlite3.Connection, table: str, key: StoredKey) -> StoredKey:
    """The key of the epoch: the one that is there, or this one."""
    connection.execute(f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?)", (key.epoch, key.key_id, key.private))  # noqa: S608  # our own name
    found = connection.execute(f"SELECT epoch, key_id, private FROM {table} WHERE epoch = ?", (key.epoch,))  # noqa: S608  # our own name
    return StoredKey(*found.fetchone())


def _begin_epoch(connection: sqlite3.Connection, epoch: int) -> tuple[bool, bool]:
    """Whether the epoch is closed, and scrubbed; one that nobody has used yet begins open."""
    connection.execute("INSERT OR IGNORE INTO epochs (epoch) VALUES (?)", (epoch,))
    closed, scrubbed = connection.execute("SELECT closed, scrubbed FROM epochs WHERE epoch = ?", (epoch,)).fetchone()
    return bool(closed), bool(scrubbed)


def _left_sealed(connection: sqlite3.Connection, epoch: int) -> bool:
    return connection.execute(f"SELECT 1 {_SEALED}", (epoch,)).fetchone() is not None


def _complete(connection: sqlite3.Connection, epoch: int) -> tuple[bool, bool]:
    """Whether everything of the epoch is there, opened; and whether it is scrubbed."""
    found = connection.execute("SELECT closed, scrubbed FROM epochs WHERE epoch = ?", (epoch,)).fetchone()
    closed, scrubbed = (0, 0) if found is None else found
    return bool(closed) and not _left_sealed(connection, epoch), bool(scrubbed)


def _append(connection: sqlite3.Connection, epoch: int, packed: Sequence[bytes]) -> None:
    connection.executemany("INSERT INTO sealed (epoch, packed) VALUES (?, ?)", [(epoch, group) for group in packed])


def _put_opened(connection: sqlite3.Connection, epoch: int, block: bytes) -> None:
    if block:
        connection.execute("INSERT INTO opened (epoch, packed) VALUES (?, ?)", (epoch, block))


def _end_of_piece(connection: sqlite3.Connection, table: str, epoch: int, after: int) -> int:
    """Up to which number the rows that follow ``after`` make a piece: at least one row; 0 when there is none."""
    sizes = connection.execute(
        f"SELECT number, length(packed) FROM {table} WHERE epoch = ? AND number > ? ORDER BY number LIMIT ?",  # noqa: S608  # our own name
        (epoch, after, _PIECE_ROWS),
    )
    last = total = 0
    for number, size in sizes:
        if last and total + size > _PIECE_BYTES:
            break
        last = number
        total += size
    sizes.close()
    return last
