"""SqlStore: what a coordinator's store does alike in a SQLite file and in a PostgreSQL database.

Each method is one transaction of named queries, and ``rules`` decide inside of it. ``SQLiteStore`` and
``PostgresStore`` add what differs: how a transaction begins, who drives, and how much of an epoch is kept where.

Queries stand in the files of ``sql/``, where each has a name and a sentence:

    -- name --
    -- What it does.
    SELECT …;
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar, Generic, TypeVar

from secvm.coordinator.store import rules
from secvm.coordinator.store.port import (
    BatchState,
    Deposit,
    Standing,
    StoredExperiment,
    StoredKey,
    StoredNote,
    StoredRound,
)
from secvm.errors import BadInputError, LocalProtocolError
from secvm.protocol.round_state import RoundState

FOLDER = files("secvm.coordinator.store") / "sql"

#: A query's answer, row by row; what a column holds is the query's affair.
Row = tuple[Any, ...]
Connection = TypeVar("Connection")

_HEADING = re.compile(r"^-- (\w+) --$", re.MULTILINE)
#: Whose turn it is (``in_turn``).
_ADDING, _APPENDING = 1, 2


class NoTableError(Exception):
    """A query names a table that is not there (any more)."""


@cache
def queries(*names: str) -> Mapping[str, str]:
    """All queries of these files, by name."""
    gathered: dict[str, str] = {}
    for name in names:
        parts = _HEADING.split((FOLDER / f"{name}.sql").read_text(encoding="utf-8"))[1:]
        for heading, body in zip(parts[::2], parts[1::2], strict=True):
            if heading in gathered:
                raise LocalProtocolError(f"two queries have the name {heading}")
            gathered[heading] = body.strip()
    return gathered


def for_sqlite(query: str) -> str:
    """A query of PostgreSQL as SQLite reads it: its parameters are ``:name``, and its transactions hold all rows."""
    return re.sub(r" FOR (?:SHARE|UPDATE)", "", re.sub(r"%\((\w+)\)[sb]", r":\1", query))


class SqlStore(ABC, Generic[Connection]):
    """See ``CoordinatorStore``: the part of it that two databases have in common."""

    #: What else is forgotten with an epoch, and with a batch: queries of the transaction that marks it.
    _scrubs: ClassVar[tuple[str, ...]]
    _forgets: ClassVar[tuple[str, ...]]

    @abstractmethod
    def _changing(self, *, bulk: bool = False) -> AbstractContextManager[Connection]:
        """One transaction: all of what is in the block, durably, or nothing and an error."""

    @abstractmethod
    def driven(self, *, by_anyone: bool = False) -> AbstractContextManager[Connection]:
        """A transaction of whoever drives, and still does at its end; ``by_anyone``: also of a node without a term."""

    @abstractmethod
    def _ask(self, connection: Connection, query: str, **given: object) -> list[Row]:
        """A named query in a transaction, and its whole answer."""

    @abstractmethod
    def _once(self, query: str, **given: object) -> list[Row]:
        """A named query outside of any transaction. Raises ``NoTableError``."""

    @abstractmethod
    def _remove_left(self) -> None:
        """Remove what scrubbed epochs and forgotten batches still have, of this call or of one that was killed."""

    def _reading(self) -> AbstractContextManager[object]:
        """For a few questions that nobody comes between, where that costs nothing."""
        return nullcontext()

    def _make_tables(self, connection: Connection, **place: int) -> None:
        """Make the tables of an epoch or a batch that begins, where each has its own."""

    # ── experiments, rounds, blobs ───────────────────────────────────────────────────────────────────────────────────

    def add_experiment(self, experiment: StoredExperiment, blobs: Mapping[str, bytes]) -> None:
        with self.driven(by_anyone=True) as connection:
            # Their order is that of their commits: a log follows from it, and may not change behind its back.
            self._ask(connection, "in_turn", turn=_ADDING)
            new = self._ask(
                connection,
                "add_experiment",
                digest=experiment.digest,
                envelope=experiment.envelope,
                settings=experiment.settings,
                standing=experiment.standing.value,
            )
            if new:
                self._keep(connection, blobs)
            else:
                rules.same_experiment(self._held_experiment(connection, experiment.digest), experiment)

    def experiments(self) -> list[StoredExperiment]:
        return [_experiment(row) for row in self._once("experiments")]

    def set_standing(self, digest: str, standing: Standing) -> None:
        with self.driven(by_anyone=True) as connection:
            rules.may_stand(self._held_experiment(connection, digest).standing, standing)
            self._ask(connection, "set_standing", digest=digest, standing=standing.value)

    def rounds(self, digest: str) -> list[StoredRound]:
        return [_stored_round(row) for row in self._once("rounds", digest=digest)]

    def blob(self, digest: str) -> bytes:
        for (data,) in self._once("blob", digest=digest):
            return bytes(data)
        raise KeyError(digest)

    def keep_blobs(self, blobs: Mapping[str, bytes]) -> None:
        with self.driven() as connection:
            self._keep(connection, blobs)

    def agree(self, name: str, value: bytes) -> bytes:
        with self._changing() as connection:
            self._keep(connection, {rules.agreed_name(name): value})
        return self.blob(rules.agreed_name(name))

    def announce(self, announced: StoredRound, blobs: Mapping[str, bytes]) -> None:
        with self.driven() as connection:
            # Held until the end: whoever pauses it waits for this manifest, or it is not announced.
            standing = self._held_experiment(connection, announced.experiment).standing
            there = self._held_round(connection, announced.experiment, announced.number)
            rules.may_announce(there, announced, standing)
            if there is not None:
                return
            self._begin_epoch(connection, announced.epoch)
            self._ask(
                connection,
                "announce",
                digest=announced.experiment,
                number=announced.number,
                epoch=announced.epoch,
                state=announced.state.value,
                envelope=announced.envelope,
            )
            self._keep(connection, blobs)

    def set_state(self, digest: str, number: int, state: RoundState) -> None:
        with self.driven() as connection:
            if rules.moves(self._held_round(connection, digest, number), state):
                self._ask(connection, "set_state", digest=digest, number=number, state=state.value)

    def conclude(
        self, digest: str, number: int, *, tally: str | None, next_state: str, blobs: Mapping[str, bytes]
    ) -> None:
        with self.driven() as connection:
            if rules.concludes(self._held_round(connection, digest, number), tally, next_state):
                state = RoundState.ABANDONED if tally is None else RoundState.TALLIED
                outcome = {"state": state.value, "tally": tally, "next_state": next_state}
                self._ask(connection, "conclude", digest=digest, number=number, **outcome)
                self._keep(connection, blobs)

    def _held_experiment(self, connection: Connection, digest: str) -> StoredExperiment:
        """An experiment that nobody else changes before this transaction ends."""
        for row in self._ask(connection, "experiment", digest=digest):
            return _experiment(row)
        raise LocalProtocolError("there is no such experiment")

    def _held_round(self, connection: Connection, digest: str, number: int) -> StoredRound | None:
        rows = self._ask(connection, "round", digest=digest, number=number)
        return _stored_round(rows[0]) if rows else None

    def _keep(self, connection: Connection, blobs: Mapping[str, bytes]) -> None:
        for digest, data in blobs.items():
            self._ask(connection, "keep_blob", digest=digest, data=data)

    # ── epochs ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin_epoch(self, connection: Connection, epoch: int) -> None:
        """An epoch that nobody has used yet begins open."""
        if self._ask(connection, "begin_epoch", epoch=epoch):
            self._make_tables(connection, epoch=epoch)

    def _of_epoch(self, epoch: int, query: str, **given: object) -> list[Row]:
        """A question to an epoch's content; nothing where it has not begun, or is scrubbed."""
        with suppress(NoTableError):
            return self._once(query, epoch=epoch, **given)
        return []

    def add_key(self, key: StoredKey) -> StoredKey:
        with self.driven() as connection:
            self._begin_epoch(connection, key.epoch)
            ((_, scrubbed),) = self._ask(connection, "hold_epoch", epoch=key.epoch)
            rules.key_fits(key, scrubbed=scrubbed)
            self._ask(connection, "add_key", epoch=key.epoch, key_id=key.key_id, private=key.private)
            return StoredKey(*self._ask(connection, "key", epoch=key.epoch)[0])

    def add_fetch_key(self, key: StoredKey) -> StoredKey:
        rules.key_fits(key, scrubbed=False)
        with self.driven() as connection:
            self._ask(connection, "add_fetch_key", epoch=key.epoch, key_id=key.key_id, private=key.private)
            return StoredKey(*self._ask(connection, "fetch_key", epoch=key.epoch)[0])

    def fetch_keys(self) -> list[StoredKey]:
        return [StoredKey(*row) for row in self._once("fetch_keys")]

    def forget_fetch_key(self, epoch: int) -> None:
        with self.driven() as connection:
            self._ask(connection, "forget_fetch_key", epoch=epoch)

    def left_sealed(self, epoch: int) -> bool:
        return any(left for (left,) in self._of_epoch(epoch, "left_sealed"))

    @property
    @abstractmethod
    def n_shards(self) -> int:
        """See ``CoordinatorStore``."""

    def keep_shard(self, epoch: int, shard: int, result: bytes) -> None:
        with self._changing(bulk=True) as connection:
            rows = self._ask(connection, "hold_epoch", epoch=epoch)
            closed, scrubbed = rows[0] if rows else (False, False)
            # What is held is not scrubbed meanwhile, and what is closed is not appended to.
            sealed = closed and not scrubbed and self._ask(connection, "left_sealed", epoch=epoch)[0][0]
            rules.may_keep_shard(shard, self.n_shards, complete=bool(closed and not sealed))
            if not scrubbed:
                self._keep_result(connection, epoch, shard, result)

    @abstractmethod
    def _keep_result(self, connection: Connection, epoch: int, shard: int, result: bytes) -> None:
        """What the shard came to, unless it has a result."""

    def counted_shards(self, epoch: int) -> set[int]:
        return {shard for (shard,) in self._of_epoch(epoch, "counted_shards")}

    def shards(self, epoch: int) -> dict[int, bytes]:
        # A question for each: together they may be more than a statement has time for.
        results = {shard: self._of_epoch(epoch, "shard", shard=shard) for shard in sorted(self.counted_shards(epoch))}
        return {shard: b"".join(piece for (piece,) in pieces) for shard, pieces in results.items() if pieces}

    def deposits(self, epoch: int) -> list[Deposit]:
        return [Deposit(*row) for row in self._once("deposits", epoch=epoch)]

    def close_epoch(self, epoch: int) -> None:
        with self.driven() as connection:
            self._begin_epoch(connection, epoch)
            self._ask(connection, "close_epoch", epoch=epoch)

    def scrub(self, epoch: int) -> None:
        with self.driven() as connection:
            # From here on nothing of it is shown; what follows may be killed, and is gone on with later.
            self._ask(connection, "mark_scrubbed", epoch=epoch)
            for query in self._scrubs:
                self._ask(connection, query, epoch=epoch)
        self._remove_left()

    # ── batches ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin_batch(self, experiment: str, number: int, seed: bytes) -> bytes:
        with self.driven() as connection:
            self._held_experiment(connection, experiment)
            for (made,) in self._ask(connection, "begin_batch", experiment=experiment, number=number):
                self._make_tables(connection, batch=made)
            batch = self._held_batch(connection, experiment, number)
            if batch is None:
                return rules.begun_seed(None)
            self._ask(connection, "put_seed", batch=batch[0], seed=seed)
            return rules.begun_seed(bytes(self._ask(connection, "seed", batch=batch[0])[0][0]))

    def count_seed(self, experiment: str, number: int) -> bytes | None:
        return _first(self._of_batch(experiment, number, "seed"))

    def batch(self, experiment: str, number: int) -> BatchState | None:
        with self._reading():
            kept = self._kept_batch(experiment, number)
            rows = self._of_batch(experiment, number, "have")
        if kept is None or rows is None:
            return None
        _, attempt, whole = kept
        return BatchState(attempt, tuple(piece for (piece,) in rows), bool(whole))

    def put_piece(self, experiment: str, number: int, index: int, data: bytes) -> bool:
        with self._changing(bulk=True) as connection:
            held = self._held_batch(connection, experiment, number)
            if held is None:
                return False
            batch, whole = held
            if whole or not self._ask(connection, "put_piece", batch=batch, index=index, data=data):
                rows = self._ask(connection, "piece", batch=batch, index=index)
                rules.is_new_piece(_first(rows), data, whole=whole)
            return True

    def piece(self, experiment: str, number: int, index: int) -> bytes | None:
        return _first(self._of_batch(experiment, number, "piece", index=index))

    def drop_pieces(self, experiment: str, number: int, attempt: int) -> None:
        given = {"experiment": experiment, "number": number, "attempt": attempt}
        with self._changing() as connection:
            for (batch,) in self._ask(connection, "next_attempt", **given):
                self._ask(connection, "drop_pieces", batch=batch)

    def finish_batch(self, experiment: str, number: int, attempt: int) -> bool:
        with self._changing() as connection:
            given = {"experiment": experiment, "number": number, "attempt": attempt}
            return bool(self._ask(connection, "finish_batch", **given))

    def keep_run(self, experiment: str, number: int, run: int, result: bytes) -> None:
        with self._changing(bulk=True) as connection:
            held = self._held_batch(connection, experiment, number)
            if held is not None:
                batch, whole = held
                rules.may_keep_run(whole=whole)
                self._ask(connection, "keep_run", batch=batch, run=run, result=result)

    def counted_runs(self, experiment: str, number: int) -> set[int]:
        return {counted for (counted,) in self._of_batch(experiment, number, "counted_runs") or ()}

    def run_result(self, experiment: str, number: int, run: int) -> bytes | None:
        return _first(self._of_batch(experiment, number, "run_result", run=run))

    def forget_batch(self, experiment: str, number: int) -> None:
        with self.driven() as connection:
            # As in ``scrub``.
            for (batch,) in self._ask(connection, "forget_batch", experiment=experiment, number=number):
                for query in self._forgets:
                    self._ask(connection, query, batch=batch)
        self._remove_left()

    def batches(self) -> list[tuple[str, int]]:
        return [(experiment, number) for experiment, number in self._once("batches")]

    def _held_batch(self, connection: Connection, experiment: str, number: int) -> tuple[int, bool] | None:
        """The id of a batch, and whether it is whole, until this transaction ends; None: not begun, or forgotten."""
        for batch, _, whole, forgotten in self._ask(connection, "hold_batch", experiment=experiment, number=number):
            return None if forgotten else (batch, bool(whole))
        return None

    def _kept_batch(self, experiment: str, number: int) -> Row | None:
        """Id, attempt and whether it is whole, as it is now; None where it has not begun, or is forgotten."""
        rows = self._once("kept_batch", experiment=experiment, number=number)
        return rows[0] if rows else None

    def _of_batch(self, experiment: str, number: int, query: str, **given: object) -> list[Row] | None:
        """What a question to a batch's content brings; None where it has not begun, or is forgotten."""
        with self._reading(), suppress(NoTableError):
            kept = self._kept_batch(experiment, number)
            return None if kept is None else self._once(query, batch=kept[0], **given)
        return None

    # ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def append_entries(self, at: int, entries: Sequence[bytes]) -> None:
        with self.driven() as connection:
            # Two who append with one size in mind: the second waits for the first, and counts again.
            self._ask(connection, "in_turn", turn=_APPENDING)
            rules.may_append(self._ask(connection, "size")[0][0], at)
            for index, entry in enumerate(entries):
                self._ask(connection, "append", place=at + index, entry=entry)

    def entries(self, since: int = 0) -> list[bytes]:
        return [bytes(entry) for (entry,) in self._once("entries", since=since)]

    def keep_note(self, name: str, *, size: int, root: bytes, note: bytes) -> None:
        with self.driven() as connection:
            rows = self._ask(connection, "note", name=name)
            rules.may_follow(StoredNote(*rows[0]) if rows else None, size=size, root=root)
            self._ask(connection, "keep_note", name=name, size=size, root=root, note=note)

    def notes(self) -> list[StoredNote]:
        return [StoredNote(*row) for row in self._once("notes")]

    def keep_beacon(self, digest: str, index: int, record: bytes) -> None:
        with self.driven() as connection:
            self._held_experiment(connection, digest)
            rows = self._ask(connection, "beacon", digest=digest, place=index)
            rules.same_beacon(_first(rows), record)
            self._ask(connection, "keep_beacon", digest=digest, place=index, record=record)

    def beacons(self, digest: str) -> dict[int, bytes]:
        return dict(self._once("beacons", digest=digest))


Word = TypeVar("Word", Standing, RoundState)


def _one_of(kind: type[Word], value: str) -> Word:
    """The word of this kind; nothing but a damaged file has another."""
    try:
        return kind(value)
    except ValueError:
        raise BadInputError(
            f"the coordinator's database is damaged: it holds no {kind.__name__} where one belongs",
            next_step="Restore it from a backup.",
        ) from None


def _experiment(row: Row) -> StoredExperiment:
    digest, envelope, settings, standing = row
    return StoredExperiment(digest, envelope, settings, _one_of(Standing, standing))


def _stored_round(row: Row) -> StoredRound:
    experiment, number, epoch, state, envelope, tally, next_state = row
    return StoredRound(experiment, number, epoch, _one_of(RoundState, state), envelope, tally, next_state)


def _first(rows: Sequence[Row] | None) -> bytes | None:
    return bytes(rows[0][0]) if rows else None
