"""PostgresStore: a coordinator's store in one PostgreSQL database that many nodes have in common (docs/data-model.md).

Capsules and records are kept as they come, many in one row; each epoch has tables of its own, which its scrub drops.
Two row locks carry the whole: who appends holds the epoch's row FOR SHARE until its commit, so that closing the epoch
waits for it, or it finds the epoch closed; and who drives holds the fence FOR SHARE, so that taking over waits for its
change, or it finds itself stale. No node holds a lock between two calls.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from secvm.coordinator.store import rules
from secvm.coordinator.store.port import SHARDS, Deposit, StoredKey
from secvm.coordinator.store.postgres_batches import PostgresBatches
from secvm.coordinator.store.postgres_migrations import check_schema
from secvm.coordinator.store.postgres_pool import (
    Connection,
    NoTableError,
    Patience,
    Pool,
    Row,
    epoch_tables,
    given_groups,
    queries,
    run,
)
from secvm.coordinator.store.records import check_block
from secvm.errors import StoreError

#: How long a claim lasts: longer than opening what was claimed takes, shorter than people wait for a round.
CLAIM_S = 60.0
#: Blocks are read in pieces of about so many bytes and at most so many rows.
_PIECE_BYTES = 2**22
_PIECE_ROWS = 4096
#: Most bytes in one statement; PostgreSQL takes less than 2^30.
_STATEMENT_BYTES = 2**26

_SQL = queries("epochs")


class PostgresStore(PostgresBatches):
    """The port on one database; any number of them, in any number of processes."""

    def __init__(
        self, url: str, *, patience: Patience | None = None, claim_s: float = CLAIM_S, most_connections: int = 8
    ) -> None:
        """``url``: postgresql://user@host/database. Raises ``BadInputError`` for a database that cannot be used."""
        super().__init__(Pool(url, patience=patience, most=most_connections))
        self._claim_s = claim_s
        self._listening = _Listening(self._pool)
        try:
            self._pool.check()
            check_schema(self._pool)
            #: Whose claims they are. Another one after each start: a node does not inherit from itself.
            ((self._node,),) = self._pool.once(_SQL["node"])
        except BaseException:
            self._pool.close()
            raise

    def __repr__(self) -> str:
        return f"<PostgresStore{'' if self._term is None else f' driving term {self._term}'}>"

    def driving(self, term: int) -> PostgresStore:
        view = copy.copy(self)
        view._term = term  # noqa: SLF001  (a copy of ourselves)
        return view

    @property
    def pool(self) -> Pool:
        """Its connections, for whoever looks into the database."""
        return self._pool

    @property
    def term(self) -> int | None:
        """Under which term it changes what a driver changes."""
        return self._term

    def _took_over(self, term: int) -> None:
        # What a driver that was killed has left of its scrub. Never a reason not to drive.
        with suppress(StoreError):
            self._drop_tables(term)
            self._drop_batches(term)

    def wait_for_change(self, seconds: float) -> bool:
        """Wait until experiments, rounds, epochs, notes or the driver may have changed. False: they have not, as far
        as is known. Changes may be missed, so nobody waits for long. One thread at a time.
        """
        return self._listening.wait(seconds)

    # ── epochs ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin_in(self, connection: Connection, epoch: int) -> None:
        """An epoch that nobody has used yet begins, with tables of its own."""
        if run(connection, _SQL["begin"], epoch=epoch):
            run(connection, _SQL["make_tables"].format(**epoch_tables(epoch)))

    def add_key(self, key: StoredKey) -> StoredKey:
        with self.driven() as connection:
            self._begin_in(connection, key.epoch)
            ((_, scrubbed),) = run(connection, _SQL["hold_counted"], epoch=key.epoch)
            rules.key_fits(key, scrubbed=scrubbed)
            tables = epoch_tables(key.epoch)
            run(connection, _SQL["add_key"].format(**tables), key_id=key.key_id, private=key.private)
            return StoredKey(*run(connection, _SQL["key"].format(**tables))[0])

    def keys(self) -> list[StoredKey]:
        while True:
            epochs = [epoch for (epoch,) in self._pool.once(_SQL["begun"])]
            asked = [_SQL["key"].rstrip(";").format(**epoch_tables(epoch)) for epoch in epochs]
            # One that is scrubbed between the two questions is not asked for again.
            with suppress(NoTableError):
                rows = self._pool.once("\nUNION ALL\n".join(asked)) if asked else []
                return sorted((StoredKey(*row) for row in rows), key=lambda key: key.epoch)

    def add_fetch_key(self, key: StoredKey) -> StoredKey:
        rules.key_fits(key, scrubbed=False)
        with self.driven() as connection:
            run(connection, _SQL["add_fetch_key"], epoch=key.epoch, key_id=key.key_id, private=key.private)
            return StoredKey(*run(connection, _SQL["fetch_key"], epoch=key.epoch)[0])

    def fetch_keys(self) -> list[StoredKey]:
        return [StoredKey(*row) for row in self._pool.once(_SQL["fetch_keys"])]

    def forget_fetch_key(self, epoch: int) -> None:
        with self.driven() as connection:
            run(connection, _SQL["forget_fetch_key"], epoch=epoch)

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
        return new or bool(self._pool.once(_SQL["deposited"], {"epoch": deposit.epoch, "relay": deposit.relay}))

    def _appended(self, epoch: int, append: Callable[[], bool]) -> bool:
        """Append; where the epoch has no tables it has not begun yet, or is scrubbed."""
        try:
            return append()
        except NoTableError:
            with self._pool.changing() as connection:
                self._begin_in(connection, epoch)
        try:
            return append()
        except NoTableError:
            return False

    def _put(self, epoch: int, query: str, packed: Sequence[bytes], **given: object) -> bool:
        """Groups in one statement, and whether they were taken."""
        groups, parameters = given_groups(packed)
        text = _SQL[query].format(groups=groups, **epoch_tables(epoch))
        return self._pool.once(text, {"epoch": epoch, **given, **parameters}) == [(True,)]

    def _append_much(self, epoch: int, packed: Sequence[bytes], deposit: dict[str, object] | None = None) -> bool:
        """More than one statement takes, in one transaction all the same."""
        tables = epoch_tables(epoch)
        with self._pool.changing(bulk=True) as connection:
            self._begin_in(connection, epoch)
            if not run(connection, _SQL["hold_open"], epoch=epoch):
                return False
            if deposit is not None and not run(connection, _SQL["deposit_count"], epoch=epoch, **deposit):
                return False
            for portion in _portions(packed):
                groups, parameters = given_groups(portion)
                run(connection, _SQL["put_sealed"].format(groups=groups, **tables), **parameters)
        return True

    def sealed(self, epoch: int, limit: int) -> list[tuple[int, bytes]]:
        claim = {"node": self._node, "claim_s": self._claim_s, "limit": limit}
        numbers = [number for (number,) in self._there(epoch, "claim_sealed", **claim)]
        if not numbers:
            return []
        return [(number, packed) for number, packed in self._there(epoch, "sealed", numbers=numbers)]

    def left_sealed(self, epoch: int) -> bool:
        return self._there(epoch, "left_sealed") == [(True,)]

    def replace_sealed(self, epoch: int, numbers: Sequence[int], block: bytes) -> None:
        check_block(block)
        ordered, ends = rules.by_shard(block)
        tables = epoch_tables(epoch)
        with suppress(NoTableError), self._pool.changing() as connection:
            taken = connection.execute(
                _SQL["take_sealed"].format(**tables).encode(), {"numbers": list(numbers), "node": self._node}
            )
            # A refusal undoes the deletion.
            if rules.replaces(numbers, taken.rowcount) and block:
                run(connection, _SQL["put_opened"].format(**tables), block=ordered, ends=ends)
            return
        rules.replaces(numbers, 0)

    def opened(self, epoch: int, shard: int | None = None) -> Iterator[bytes]:
        if shard is None:
            return self._pieces(epoch, "opened")
        return self._pieces(epoch, "opened_of_shard", shard=shard)

    def _pieces(self, epoch: int, query: str, **given: object) -> Iterator[bytes]:
        # A query for each piece: nobody who scrubs waits for a reader.
        last = 0
        while rows := self._there(epoch, query, after=last, rows=_PIECE_ROWS, bytes=_PIECE_BYTES, **given):
            last = rows[-1][0]
            for _, packed in rows:
                if packed:
                    yield packed

    @property
    def n_shards(self) -> int:
        return SHARDS

    def claim_shard(self, epoch: int) -> int | None:
        if self._pool.once(_SQL["epoch"], {"epoch": epoch}) != [(True, False)] or self.left_sealed(epoch):
            return None
        # Who is slower than another tries the next one.
        for _ in range(SHARDS):
            free = self._there(epoch, "free_shard", last=SHARDS - 1, node=self._node)
            if not free:
                return None
            claim = {"shard": free[0][0], "node": self._node, "claim_s": self._claim_s}
            if self._there(epoch, "claim_shard", **claim):
                return int(free[0][0])
        return None

    def keep_shard(self, epoch: int, shard: int, result: bytes) -> None:
        sealed = self.left_sealed(epoch)
        tables = epoch_tables(epoch)
        with self._pool.changing(bulk=True) as connection:
            found = run(connection, _SQL["hold_counted"], epoch=epoch)
            closed, scrubbed = found[0] if found else (False, False)
            rules.may_keep_shard(shard, SHARDS, complete=closed and not sealed)
            if scrubbed:
                return
            query = _SQL["keep_shard"].format(**tables)
            for piece, at in enumerate(range(0, max(1, len(result)), _STATEMENT_BYTES)):
                part = result[at : at + _STATEMENT_BYTES]
                # The first piece decides: whoever comes second leaves all to the first.
                if not run(connection, query, shard=shard, piece=piece, result=part):
                    return

    def counted_shards(self, epoch: int) -> set[int]:
        return {shard for (shard,) in self._there(epoch, "counted_shards")}

    def shards(self, epoch: int) -> dict[int, bytes]:
        # A question for each: together they may be more than a statement has time for.
        found = {shard: self._there(epoch, "shard", shard=shard) for shard in sorted(self.counted_shards(epoch))}
        return {shard: b"".join(piece for (piece,) in pieces) for shard, pieces in found.items() if pieces}

    def deposits(self, epoch: int) -> list[Deposit]:
        return [Deposit(*row) for row in self._pool.once(_SQL["deposits"], {"epoch": epoch})]

    def close_epoch(self, epoch: int) -> None:
        with self.driven() as connection:
            self._begin_in(connection, epoch)
            run(connection, _SQL["close"], epoch=epoch)

    def scrub(self, epoch: int) -> None:
        epoch_tables(epoch)
        with self.driven() as connection:
            run(connection, _SQL["mark_scrubbed"], epoch=epoch)
            run(connection, _SQL["drop_claims"], epoch=epoch)
        # From here on nothing of it is shown. Dropping in the same transaction would wait for writers that wait for it.
        self._drop_tables(self._term)

    def _drop_tables(self, term: int | None) -> None:
        """Drop the tables that scrubbed epochs still have."""
        self._drop_left(term, _SQL, epoch_tables)

    def close(self) -> None:
        with suppress(StoreError, NoTableError):
            self._release_runs()
            self._pool.once(_SQL["release_shards"], {"node": self._node})
            for (epoch,) in self._pool.once(_SQL["begun"]):
                self._ask(epoch, "release_sealed", node=self._node)
        self._listening.close()
        self._pool.close()

    def _ask(self, epoch: int, query: str, **given: object) -> list[Row]:
        return self._pool.once(_SQL[query].format(**epoch_tables(epoch)), {"epoch": epoch, **given})

    def _there(self, epoch: int, query: str, **given: object) -> list[Row]:
        """The same; nothing where the epoch has not begun, or is scrubbed."""
        try:
            return self._ask(epoch, query, **given)
        except NoTableError:
            return []


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
