"""PostgresStore: a coordinator's store in one PostgreSQL database that many nodes have in common (docs/data-model.md).

Capsules and records are kept as they come, many in one row; each epoch has tables of its own, which its scrub drops.
Two row locks carry the whole: who appends holds the epoch's row FOR SHARE until its commit, so that closing the epoch
waits for it, or it finds the epoch closed; and who drives holds the fence FOR SHARE, so that taking over waits for its
change, or it finds itself stale. No node holds a lock between two calls.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from secvm.coordinator.store import rules
from secvm.coordinator.store.port import Ask, CoordinatorStore, Deposit, StoredKey, begin_epoch
from secvm.coordinator.store.postgres_migrations import check_schema
from secvm.coordinator.store.postgres_pool import (
    BusyError,
    Connection,
    Patience,
    Pool,
    given_groups,
    own_tables,
    run,
    table_names,
)
from secvm.coordinator.store.queries import NoTableError, Row, queries
from secvm.coordinator.store.records import check_block
from secvm.coordinator.store.rules import SHARDS
from secvm.errors import LocalProtocolError, StaleDriverError, StoreError

#: How long a claim lasts: longer than opening what was claimed takes, shorter than people wait for a round.
CLAIM_S = 60.0
#: Blocks are read in pieces of about so many bytes and at most so many rows.
_PIECE_BYTES = 2**22
_PIECE_ROWS = 4096
#: Most bytes in one statement; PostgreSQL takes less than 2^30.
_STATEMENT_BYTES = 2**26

_SQL = queries("shared", "driver", "epochs", "batches")


class PostgresStore(CoordinatorStore):
    """The store in one database; any number of them, in any number of processes."""

    _scrubs = ("drop_shard_claims",)
    _forgets = ("drop_run_claims",)

    def __init__(
        self, url: str, *, patience: Patience | None = None, claim_s: float = CLAIM_S, most_connections: int = 8
    ) -> None:
        """``url``: postgresql://user@host/database. Raises ``BadInputError`` for a database that cannot be used."""
        self._pool = Pool(url, patience=patience, most=most_connections)
        self._term: int | None = None
        self._claim_s = claim_s
        self._listening = _Listening(self._pool)
        try:
            self._pool.check()
            check_schema(self._pool)
            #: Whose claims they are. Another one after each start: a node does not inherit from itself.
            ((self._node,),) = self._once("node")
        except BaseException:
            self._pool.close()
            raise

    def __repr__(self) -> str:
        return f"<PostgresStore{'' if self._term is None else f' driving term {self._term}'}>"

    @property
    def pool(self) -> Pool:
        """Its connections, for whoever looks into the database."""
        return self._pool

    @property
    def term(self) -> int | None:
        """Under which term it changes what a driver changes."""
        return self._term

    def wait_for_change(self, seconds: float) -> bool:
        """Wait until experiments, rounds, epochs, notes or the driver may have changed. False: they have not, as far
        as is known. Changes may be missed, so nobody waits for long. One thread at a time.
        """
        return self._listening.wait(seconds)

    @contextmanager
    def _changing(self, *, bulk: bool = False) -> Iterator[Ask]:
        with self._pool.changing(bulk=bulk) as connection:
            yield partial(_ask, connection)

    def _once(self, query: str, **given: object) -> list[Row]:
        return self._pool.once(_SQL[query].format(**own_tables(given)), given)

    # ── who drives ───────────────────────────────────────────────────────────────────────────────────────────────────

    def lead(self, holder: str, lease_s: float) -> int | None:
        rules.may_lead(holder, lease_s)
        for (term,) in self._once("renew", holder=holder, lease_s=lease_s):
            return int(term)
        with self._changing() as ask:
            ((leads, runs),) = ask("hold_lease")
            if leads is not None and runs:
                return None
            ((term,),) = ask("next_term")
            ask("take_lease", term=term, holder=holder, lease_s=lease_s)
            ask("tell")
        # What a driver that was killed has left of its scrub. Never a reason not to drive.
        with suppress(StoreError):
            self.driving(term)._remove_left()  # noqa: SLF001  (a copy of ourselves)
        return int(term)

    def resign(self, term: int) -> None:
        with self._changing() as ask:
            ask("hold_lease")
            ask("resign", term=term)
            ask("drop_lease", term=term)
            ask("tell")

    def driving(self, term: int) -> PostgresStore:
        view = copy.copy(self)
        view._term = term  # noqa: SLF001  (a copy of ourselves)
        return view

    @contextmanager
    def driven(self, *, by_anyone: bool = False) -> Iterator[Ask]:
        if self._term is None and not by_anyone:
            raise LocalProtocolError("nobody drives this store without a term: it has many nodes")
        with self._fenced() as ask:
            yield ask
            ask("tell")

    @contextmanager
    def _fenced(self) -> Iterator[Ask]:
        """A transaction of our term, if we have one: nobody takes over before it ends."""
        with self._changing() as ask:
            if self._term is not None and not ask("fence", term=self._term):
                raise StaleDriverError
            yield ask

    def _remove_left(self) -> None:
        """Drop the tables of everything that is marked as gone, each in a transaction of its own: dropping in the one
        that marks would wait for readers and writers that wait for it.
        """
        gone = [("epoch", epoch) for (epoch,) in self._once("scrubbed_with_tables")]
        gone += [("batch", batch) for (batch,) in self._once("forgotten_with_tables")]
        for kind, number in gone:
            names = table_names(kind, number)
            try:
                self._drop("drop_soon", names)
            except BusyError:
                # No session has had a reason to read them since they were marked: one that still does was stopped.
                self._once("end_readers", names=list(names.values()))
                self._drop("drop", names)

    def _drop(self, query: str, names: Mapping[str, str]) -> None:
        with self._fenced() as ask:
            ask(query, {"tables": ", ".join(names.values())})

    # ── epochs ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def keys(self) -> list[StoredKey]:
        while True:
            asked = [_SQL["key"].rstrip(";").format(**own_tables({"epoch": epoch})) for (epoch,) in self._once("begun")]
            # One that is scrubbed between the two questions is not asked for again.
            with suppress(NoTableError):
                rows = self._pool.once("\nUNION ALL\n".join(asked)) if asked else []
                return sorted((StoredKey(*row) for row in rows), key=lambda key: key.epoch)

    def append_sealed(self, epoch: int, packed: Sequence[bytes]) -> bool:
        if sum(map(len, packed)) > _STATEMENT_BYTES:
            return self._appended(epoch, lambda: self._append_much(epoch, packed))
        return self._appended(epoch, lambda: self._put(epoch, "append_sealed", packed))

    def deposit(self, deposit: Deposit, packed: Sequence[bytes]) -> bool:
        given: dict[str, object] = {"relay": deposit.relay, "count": deposit.count}
        if sum(map(len, packed)) > _STATEMENT_BYTES:
            new = self._appended(deposit.epoch, lambda: self._append_much(deposit.epoch, packed, given))
        else:
            new = self._appended(deposit.epoch, lambda: self._put(deposit.epoch, "deposit", packed, **given))
        # Not new is either closed, or there already: also by another node just now.
        return new or bool(self._once("deposited", epoch=deposit.epoch, relay=deposit.relay))

    def _appended(self, epoch: int, append: Callable[[], bool]) -> bool:
        """Append; where the epoch has no tables it has not begun yet, or is scrubbed."""
        try:
            return append()
        except NoTableError:
            with self._changing() as ask:
                begin_epoch(ask, epoch)
        try:
            return append()
        except NoTableError:
            return False

    def _put(self, epoch: int, query: str, packed: Sequence[bytes], **given: object) -> bool:
        """Groups in one statement, and whether they were taken."""
        groups, parameters = given_groups(packed)
        text = _SQL[query].format(groups=groups, **own_tables({"epoch": epoch}))
        return self._pool.once(text, {"epoch": epoch, **given, **parameters}) == [(True,)]

    def _append_much(self, epoch: int, packed: Sequence[bytes], deposit: dict[str, object] | None = None) -> bool:
        """More than one statement takes, in one transaction all the same."""
        with self._changing(bulk=True) as ask:
            begin_epoch(ask, epoch)
            if not ask("hold_open", epoch=epoch):
                return False
            if deposit is not None and not ask("put_deposit", epoch=epoch, **deposit):
                return False
            for portion in _portions(packed):
                groups, parameters = given_groups(portion)
                ask("put_sealed", {"groups": groups}, epoch=epoch, **parameters)
        return True

    def sealed(self, epoch: int, limit: int) -> list[tuple[int, bytes]]:
        claim = {"node": self._node, "claim_s": self._claim_s, "limit": limit}
        numbers = [number for (number,) in self._of_epoch(epoch, "claim_sealed", **claim)]
        if not numbers:
            return []
        return [(number, packed) for number, packed in self._of_epoch(epoch, "sealed", numbers=numbers)]

    def replace_sealed(self, epoch: int, numbers: Sequence[int], block: bytes) -> None:
        check_block(block)
        ordered, ends = rules.by_shard(block)
        with suppress(NoTableError), self._changing() as ask:
            taken = ask("take_sealed", epoch=epoch, numbers=list(numbers), node=self._node)
            # A refusal undoes the deletion.
            if rules.replaces(numbers, len(taken)) and block:
                ask("put_opened", epoch=epoch, block=ordered, ends=ends)
            return
        rules.replaces(numbers, 0)

    def opened(self, epoch: int, shard: int | None = None) -> Iterator[bytes]:
        if shard is None:
            return self._pieces(epoch, "opened")
        return self._pieces(epoch, "opened_of_shard", shard=shard)

    def _pieces(self, epoch: int, query: str, **given: object) -> Iterator[bytes]:
        # A query for each piece: nobody who scrubs waits for a reader.
        last = 0
        while rows := self._of_epoch(epoch, query, after=last, rows=_PIECE_ROWS, bytes=_PIECE_BYTES, **given):
            last = rows[-1][0]
            for _, packed in rows:
                if packed:
                    yield packed

    @property
    def n_shards(self) -> int:
        return SHARDS

    def claim_shard(self, epoch: int) -> int | None:
        if self._once("epoch", epoch=epoch) != [(True, False)] or self.left_sealed(epoch):
            return None
        return self._claim("free_shard", "claim_shard", SHARDS, epoch=epoch)

    def _claim(self, free_query: str, claim_query: str, count: int, **place: int) -> int | None:
        """Claim a shard or a run, one of so many; None where all have a result, or belong to others."""
        # Who is slower than another tries the next one.
        with suppress(NoTableError):
            for _ in range(count):
                free = self._once(free_query, last=count - 1, node=self._node, **place)
                if not free:
                    return None
                claim = {"index": free[0][0], "node": self._node, "claim_s": self._claim_s}
                if self._once(claim_query, **claim, **place):
                    return int(free[0][0])
        return None

    def _keep_result(self, ask: Ask, epoch: int, shard: int, result: bytes, /) -> None:
        for piece, at in enumerate(range(0, max(1, len(result)), _STATEMENT_BYTES)):
            part = result[at : at + _STATEMENT_BYTES]
            # The first piece decides: whoever comes second leaves all to the first.
            if not ask("keep_shard", epoch=epoch, shard=shard, piece=piece, result=part):
                return

    # ── batches ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def claim_run(self, experiment: str, number: int, runs: int) -> int | None:
        kept = self._kept_batch(experiment, number)
        if kept is None:
            return None
        batch, _, whole = kept
        return self._claim("free_run", "claim_run", runs, batch=batch) if whole else None

    def close(self) -> None:
        with suppress(StoreError):
            self._once("release_runs", node=self._node)
            self._once("release_shards", node=self._node)
            for (epoch,) in self._once("begun"):
                self._of_epoch(epoch, "release_sealed", node=self._node)
        self._listening.close()
        self._pool.close()


class _Listening:
    """A connection of its own that hears of changes."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def wait(self, seconds: float) -> bool:
        with self._lock:
            if self._connection is None:
                self._connection = self._pool.listen("secvm_changes")
                # Nobody knows what happened before.
                return True
            try:
                return self._pool.hears(self._connection, seconds)
            except StoreError:
                self._connection.close()
                self._connection = None
                raise

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _ask(connection: Connection, query: str, names: Mapping[str, str] | None = None, /, **given: object) -> list[Row]:
    """A named query in a transaction. ``names`` stand for what is in braces beside the place's own tables."""
    return run(connection, _SQL[query].format(**own_tables(given), **(names or {})), **given)


def _portions(packed: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Groups, as many at once as a statement takes."""
    portion: list[bytes] = []
    size = 0
    for group in packed:
        if portion and size + len(group) > _STATEMENT_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(group)
        size += len(group)
    if portion:
        yield portion
