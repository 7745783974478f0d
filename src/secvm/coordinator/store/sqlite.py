"""SQLiteStore: a coordinator's store in one file (docs/data-model.md). What is acknowledged survives SIGKILL and power.

Capsules and records are kept as they come, many in one blob: a commit is a row or a few, whatever it carries. A piece
of a batch is one row with one blob of at most 8 MiB.

The file's migrations are numbered: a file of version v has had the first v of them. A migration that was released is
never changed; a new one is added at the end. Files of version 1 of the protocol are refused.
``runtime.disk.sqlite_file`` says how a file is kept. ``empty_log`` removes deleted bytes for good.
"""

from __future__ import annotations

import copy
import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path

from secvm.coordinator.store import rules
from secvm.coordinator.store.port import Ask, CoordinatorStore, Deposit, StoredKey, begin_epoch
from secvm.coordinator.store.queries import Row, for_sqlite, queries
from secvm.coordinator.store.records import check_block
from secvm.errors import SecVMError, StaleDriverError, StoreError
from secvm.runtime.disk.sqlite_file import (
    FAULTS,
    SqliteFormat,
    connect,
    emptied_log,
    fault_name,
    in_memory,
    refusal,
    transaction,
)

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

    def __init__(self, path: Path | None, migrations: tuple[tuple[str, ...], ...] = MIGRATIONS) -> None:
        """Without a path it is in memory."""
        self._lock = threading.RLock()
        refused = f"the database {path} cannot be opened"
        # Private keys lie in it: nobody else may read it.
        self._connection = (
            in_memory(check_same_thread=False)
            if path is None
            else connect(path, refused, patience_s=_PATIENCE_S, check_same_thread=False)
        )
        kind = replace(_FORMAT, migrations=migrations, version=len(migrations))
        kind.prepare(self._connection, path or Path(":memory:"))

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
        """Close the file."""
        with self._lock:
            self._connection.close()


#: Blocks are read, and scrubbed, in pieces of about so many bytes and at most so many rows: ingest waits meanwhile.
_PIECE_BYTES = 2**22
_PIECE_ROWS = 4096

_SQL = {**{name: for_sqlite(query) for name, query in queries("shared").items()}, **queries("sqlite")}


class SQLiteStore(CoordinatorStore):
    """The store in one file; one object, and one process, for a file.

    So nobody else can drive: a lease lasts until it is let go of or the file is, and claims are not needed.
    """

    _scrubs = ("forget_key", "forget_shards")
    _forgets = ("forget_seed", "forget_runs")

    def __init__(self, path: Path | None) -> None:
        self._database = Database(path)
        #: By term; at most one. Shared with the views of those who drive.
        self._holders: dict[int, str] = {}
        self._term: int | None = None
        try:
            self._remove_left()
        except BaseException:
            self._database.close()
            raise

    @contextmanager
    def _changing(self, *, bulk: bool = False) -> Iterator[Ask]:  # noqa: ARG002  # all wait
        with self._database.changing() as connection:
            yield partial(_ask, connection)

    def _reading(self) -> AbstractContextManager[object]:
        return self._database.reading()

    def _once(self, query: str, **given: object) -> list[Row]:
        with self._database.reading() as connection:
            return _ask(connection, query, **given)

    # ── who drives ───────────────────────────────────────────────────────────────────────────────────────────────────

    def lead(self, holder: str, lease_s: float) -> int | None:
        rules.may_lead(holder, lease_s)
        with self._changing() as ask:
            for term, leads in self._holders.items():
                return term if leads == holder else None
            ((term,),) = ask("next_term")
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
    def driven(self, *, by_anyone: bool = False) -> Iterator[Ask]:  # noqa: ARG002  # without a term there is one process
        with self._changing() as ask:
            if self._term is not None and self._term not in self._holders:
                raise StaleDriverError
            yield ask

    # ── epochs ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def keys(self) -> list[StoredKey]:
        return [StoredKey(*row) for row in self._once("keys")]

    def forget_fetch_key(self, epoch: int) -> None:
        super().forget_fetch_key(epoch)
        self._database.empty_log()

    def append_sealed(self, epoch: int, packed: Sequence[bytes]) -> bool:
        with self._changing() as ask:
            return self._append(ask, epoch, packed)

    def deposit(self, deposit: Deposit, packed: Sequence[bytes]) -> bool:
        given = {"epoch": deposit.epoch, "relay": deposit.relay}
        with self._changing() as ask:
            if ask("deposited", **given):
                return True
            taken = self._append(ask, deposit.epoch, packed)
            if taken:
                ask("put_deposit", count=deposit.count, **given)
            return taken

    def _append(self, ask: Ask, epoch: int, packed: Sequence[bytes]) -> bool:
        """Whether the epoch is open; if so, the groups are in it."""
        begin_epoch(ask, epoch)
        ((closed, _),) = ask("epoch", epoch=epoch)
        if not closed:
            for group in packed:
                ask("put_sealed", epoch=epoch, packed=group)
        return not closed

    def sealed(self, epoch: int, limit: int) -> list[tuple[int, bytes]]:
        return [(number, packed) for number, packed in self._once("sealed", epoch=epoch, limit=limit)]

    def replace_sealed(self, epoch: int, numbers: Sequence[int], block: bytes) -> None:
        check_block(block)
        with self._changing() as ask:
            taken = sum(len(ask("take_sealed", number=number, epoch=epoch)) for number in numbers)
            # A refusal undoes the deletion.
            if rules.replaces(numbers, taken) and block:
                ask("put_opened", epoch=epoch, block=block)

    def opened(self, epoch: int, shard: int | None = None) -> Iterator[bytes]:
        return self._pieces(epoch) if shard in (None, 0) else iter(())

    def _pieces(self, epoch: int) -> Iterator[bytes]:
        # A query for each piece: no cursor stays open between two, so that others write and scrub empties the log.
        last = 0
        while True:
            with self._database.reading() as connection:
                if _ask(connection, "epoch", epoch=epoch) not in ([(0, 0)], [(1, 0)]):
                    return
                after, last = last, _end_of_piece(connection, "opened", epoch, last)
                blocks = _ask(connection, "opened", epoch=epoch, after=after, last=last)
            if not blocks:
                return
            for (block,) in blocks:
                yield block

    @property
    def n_shards(self) -> int:
        return 1

    def claim_shard(self, epoch: int) -> int | None:
        with self._database.reading():
            complete = self._once("epoch", epoch=epoch) == [(1, 0)] and not self.left_sealed(epoch)
            return 0 if complete and not self.counted_shards(epoch) else None

    def _keep_result(self, ask: Ask, epoch: int, shard: int, result: bytes, /) -> None:
        ask("keep_shard", epoch=epoch, shard=shard, result=result)

    # ── batches ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def claim_run(self, experiment: str, number: int, runs: int) -> int | None:
        state = self.batch(experiment, number)
        if state is None or not state.whole:
            return None
        counted = self.counted_runs(experiment, number)
        return next((run for run in range(runs) if run not in counted), None)

    # ── forgetting ───────────────────────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        self._database.close()

    def _remove_left(self) -> None:
        """Remove, a little at a time so that others can write meanwhile, rows of what is gone, and their bytes."""
        for (batch,) in self._once("forgotten_with_pieces"):
            while self._removed("remove_piece", batch=batch):
                pass
        for (epoch,) in self._once("scrubbed_with_rows"):
            for table in ("sealed", "opened"):
                while self._remove_some(table, epoch):
                    pass
        self._database.empty_log()

    def _removed(self, query: str, **place: int) -> bool:
        with self._changing() as ask:
            return bool(ask(query, **place))

    def _remove_some(self, table: str, epoch: int) -> bool:
        with self._database.changing() as connection:
            last = _end_of_piece(connection, table, epoch, 0)
            connection.execute(_SQL["remove_rows"].format(table=table), {"epoch": epoch, "last": last})
            return last > 0


def _ask(connection: sqlite3.Connection, query: str, **given: object) -> list[Row]:
    return connection.execute(_SQL[query], given).fetchall()


def _end_of_piece(connection: sqlite3.Connection, table: str, epoch: int, after: int) -> int:
    """Up to which number the rows that follow ``after`` make a piece: at least one row; 0 when there is none."""
    given = {"epoch": epoch, "after": after, "rows": _PIECE_ROWS}
    sizes = connection.execute(_SQL["sizes"].format(table=table), given)
    last = total = 0
    for number, size in sizes:
        if last and total + size > _PIECE_BYTES:
            break
        last = number
        total += size
    sizes.close()
    return last
