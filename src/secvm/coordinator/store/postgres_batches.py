"""Batches of rounds with two relays, in PostgreSQL: a part of ``PostgresStore``.

A batch has tables of its own, which are dropped when it is forgotten, the seed's among them. Whoever puts a piece holds
the batch's row FOR SHARE until its commit, so that dropping, finishing and forgetting wait for it, or it finds them
done.
"""

from __future__ import annotations

from contextlib import suppress

from secvm.coordinator.store import rules
from secvm.coordinator.store.port import BatchState
from secvm.coordinator.store.postgres_pool import NoTableError, Row, batch_tables, queries
from secvm.coordinator.store.postgres_pool import run as ask
from secvm.coordinator.store.postgres_rounds import PostgresRounds
from secvm.errors import LocalProtocolError

_SQL = queries("batches")
_EXPERIMENT = queries("rounds")["experiment"]


class PostgresBatches(PostgresRounds):
    """See ``BatchStore``. What is not here is ``PostgresStore``'s."""

    #: Whose claims they are, and how long one lasts.
    _node: object
    _claim_s: float

    def begin_batch(self, experiment: str, number: int, seed: bytes) -> bytes:
        with self.driven() as connection:
            if not ask(connection, _EXPERIMENT, digest=experiment):
                raise LocalProtocolError("there is no such experiment")
            made = ask(connection, _SQL["begin"], experiment=experiment, number=number)
            if made:
                ask(connection, _SQL["make_tables"].format(**batch_tables(made[0][0])))
            ((batch, _, _, forgotten),) = ask(connection, _SQL["held"], experiment=experiment, number=number)
            if forgotten:
                return rules.begun_seed(None)
            tables = batch_tables(batch)
            ask(connection, _SQL["put_seed"].format(**tables), seed=seed)
            return rules.begun_seed(bytes(ask(connection, _SQL["seed"].format(**tables))[0][0]))

    def count_seed(self, experiment: str, number: int) -> bytes | None:
        return _first(self._of_batch(experiment, number, "seed"))

    def batch(self, experiment: str, number: int) -> BatchState | None:
        found = self._kept(experiment, number)
        if found is None:
            return None
        _, attempt, whole = found
        rows = self._of_batch(experiment, number, "have")
        return None if rows is None else BatchState(attempt, tuple(piece for (piece,) in rows), whole)

    def put_piece(self, experiment: str, number: int, index: int, data: bytes) -> bool:
        with self._pool.changing(bulk=True) as connection:
            found = ask(connection, _SQL["held"], experiment=experiment, number=number)
            if not found or found[0][3]:
                return False
            batch, _, whole, _ = found[0]
            tables = batch_tables(batch)
            if not whole:
                ask(connection, _SQL["put_piece"].format(**tables), index=index, data=data)
            there = ask(connection, _SQL["piece"].format(**tables), index=index)
            # Where it was put just now it is what was given; a refusal undoes nothing that was there before.
            rules.is_new_piece(bytes(there[0][0]) if there else None, data, whole=whole)
            return True

    def piece(self, experiment: str, number: int, index: int) -> bytes | None:
        return _first(self._of_batch(experiment, number, "piece", index=index))

    def drop_pieces(self, experiment: str, number: int, attempt: int) -> None:
        with self._pool.changing() as connection:
            found = ask(connection, _SQL["next_attempt"], experiment=experiment, number=number, attempt=attempt)
            if found:
                ask(connection, _SQL["drop_pieces"].format(**batch_tables(found[0][0])))

    def finish_batch(self, experiment: str, number: int, attempt: int) -> bool:
        given = {"experiment": experiment, "number": number, "attempt": attempt}
        return bool(self._pool.once(_SQL["finish"], given))

    def claim_run(self, experiment: str, number: int, runs: int) -> int | None:
        found = self._kept(experiment, number)
        if found is None or not found[2]:
            return None
        claim = {"batch": found[0], "node": self._node}
        # Who is slower than another tries the next one.
        for _ in range(runs):
            free = self._of_batch(experiment, number, "free_run", last=runs - 1, **claim)
            if not free:
                return None
            given = {"run": free[0][0], "claim_s": self._claim_s, **claim}
            if self._pool.once(_SQL["claim_run"], given):
                return int(free[0][0])
        return None

    def keep_run(self, experiment: str, number: int, run: int, result: bytes) -> None:
        with self._pool.changing(bulk=True) as connection:
            found = ask(connection, _SQL["held"], experiment=experiment, number=number)
            if found and not found[0][3]:
                batch, _, whole, _ = found[0]
                rules.may_keep_run(whole=whole)
                ask(connection, _SQL["keep_run"].format(**batch_tables(batch)), run=run, result=result)

    def counted_runs(self, experiment: str, number: int) -> set[int]:
        return {counted for (counted,) in self._of_batch(experiment, number, "counted_runs") or ()}

    def run_result(self, experiment: str, number: int, run: int) -> bytes | None:
        return _first(self._of_batch(experiment, number, "run_result", run=run))

    def forget_batch(self, experiment: str, number: int) -> None:
        with self.driven() as connection:
            for (batch,) in ask(connection, _SQL["forget"], experiment=experiment, number=number):
                ask(connection, _SQL["drop_claims"], batch=batch)
        # In transactions of their own: dropping here would wait for readers that wait for us.
        self._drop_batches(self._term)

    def batches(self) -> list[tuple[str, int]]:
        return [(experiment, number) for experiment, number in self._pool.once(_SQL["batches"])]

    def _drop_batches(self, term: int | None) -> None:
        """Drop the tables that forgotten batches still have."""
        self._drop_left(term, _SQL, batch_tables)

    def _release_runs(self) -> None:
        self._pool.once(_SQL["release_runs"], {"node": self._node})

    def _kept(self, experiment: str, number: int) -> Row | None:
        found = self._pool.once(_SQL["kept"], {"experiment": experiment, "number": number})
        return found[0] if found else None

    def _of_batch(self, experiment: str, number: int, query: str, **given: object) -> list[Row] | None:
        """What a question to a batch's own tables brings; None where it has not begun, or is forgotten."""
        found = self._kept(experiment, number)
        with suppress(NoTableError):
            return None if found is None else self._pool.once(_SQL[query].format(**batch_tables(found[0])), given)
        return None


def _first(rows: list[Row] | None) -> bytes | None:
    return bytes(rows[0][0]) if rows else None
