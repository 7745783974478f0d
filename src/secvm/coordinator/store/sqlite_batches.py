"""Batches of rounds with two relays, in the coordinator's file: a part of ``SQLiteStore``.

A piece is one row with one blob of at most 8 MiB, whatever it holds. One process has the file, so nobody claims runs.
"""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager

from secvm.coordinator.store import rules
from secvm.coordinator.store.database import Database
from secvm.coordinator.store.port import BatchState
from secvm.errors import LocalProtocolError

_KEPT = "SELECT id, attempt, whole FROM batches WHERE experiment = ? AND number = ? AND NOT forgotten"


class SQLiteBatches:
    """See ``BatchStore``. What is not here is ``SQLiteStore``'s."""

    _database: Database

    def _fenced(self) -> AbstractContextManager[sqlite3.Connection]:
        raise NotImplementedError

    def begin_batch(self, experiment: str, number: int, seed: bytes) -> bytes:
        with self._fenced() as connection:
            batch = _begun(connection, experiment, number)
            connection.execute(
                "INSERT OR IGNORE INTO count_seeds SELECT id, ? FROM batches WHERE id = ? AND NOT forgotten",
                (seed, batch),
            )
            found = connection.execute("SELECT seed FROM count_seeds WHERE batch = ?", (batch,)).fetchone()
            return rules.begun_seed(None if found is None else found[0])

    def count_seed(self, experiment: str, number: int) -> bytes | None:
        query = "SELECT seed FROM count_seeds JOIN batches ON id = batch WHERE experiment = ? AND number = ?"
        found = self._database.row(query, experiment, number)
        return None if found is None else bytes(found[0])

    def batch(self, experiment: str, number: int) -> BatchState | None:
        with self._database.reading() as connection:
            found = connection.execute(_KEPT, (experiment, number)).fetchone()
            if found is None:
                return None
            batch, attempt, whole = found
            rows = connection.execute("SELECT piece FROM pieces WHERE batch = ? ORDER BY piece", (batch,)).fetchall()
        return BatchState(attempt, tuple(piece for (piece,) in rows), bool(whole))

    def put_piece(self, experiment: str, number: int, index: int, data: bytes) -> bool:
        with self._database.changing() as connection:
            found = connection.execute(_KEPT, (experiment, number)).fetchone()
            if found is None:
                return False
            batch, _, whole = found
            known = connection.execute("SELECT data FROM pieces WHERE batch = ? AND piece = ?", (batch, index))
            there = known.fetchone()
            if rules.is_new_piece(None if there is None else there[0], data, whole=bool(whole)):
                connection.execute("INSERT INTO pieces VALUES (?, ?, ?)", (batch, index, data))
            return True

    def piece(self, experiment: str, number: int, index: int) -> bytes | None:
        return self._of_batch("SELECT data FROM pieces JOIN", "piece", experiment, number, index)

    def drop_pieces(self, experiment: str, number: int, attempt: int) -> None:
        with self._database.changing() as connection:
            found = connection.execute(_KEPT, (experiment, number)).fetchone()
            if found is not None and found[1:] == (attempt, 0):
                connection.execute("DELETE FROM pieces WHERE batch = ?", (found[0],))
                connection.execute("UPDATE batches SET attempt = attempt + 1 WHERE id = ?", (found[0],))

    def finish_batch(self, experiment: str, number: int, attempt: int) -> bool:
        with self._database.changing() as connection:
            changed = connection.execute(
                "UPDATE batches SET whole = 1 WHERE experiment = ? AND number = ? AND attempt = ? AND NOT forgotten",
                (experiment, number, attempt),
            )
            return changed.rowcount > 0

    def claim_run(self, experiment: str, number: int, runs: int) -> int | None:
        state = self.batch(experiment, number)
        if state is None or not state.whole:
            return None
        counted = self.counted_runs(experiment, number)
        return next((run for run in range(runs) if run not in counted), None)

    def keep_run(self, experiment: str, number: int, run: int, result: bytes) -> None:
        with self._database.changing() as connection:
            found = connection.execute(_KEPT, (experiment, number)).fetchone()
            if found is not None:
                rules.may_keep_run(whole=bool(found[2]))
                connection.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?)", (found[0], run, result))

    def counted_runs(self, experiment: str, number: int) -> set[int]:
        rows = self._database.rows(
            "SELECT run FROM runs JOIN batches ON id = batch WHERE experiment = ? AND number = ? AND NOT forgotten",
            experiment,
            number,
        )
        return {run for (run,) in rows}

    def run_result(self, experiment: str, number: int, run: int) -> bytes | None:
        return self._of_batch("SELECT result FROM runs JOIN", "run", experiment, number, run)

    def forget_batch(self, experiment: str, number: int) -> None:
        with self._fenced() as connection:
            # From here on nothing of it is shown; what follows may be killed, and is gone on with at the next start.
            if not connection.execute("SELECT 1 FROM experiments WHERE digest = ?", (experiment,)).fetchone():
                return
            batch = _begun(connection, experiment, number)
            connection.execute("UPDATE batches SET forgotten = 1 WHERE id = ?", (batch,))
            connection.execute("DELETE FROM count_seeds WHERE batch = ?", (batch,))
            connection.execute("DELETE FROM runs WHERE batch = ?", (batch,))
        self._remove_pieces(batch)
        self._database.empty_log()

    def batches(self) -> list[tuple[str, int]]:
        return self._database.rows(
            "SELECT experiment, number FROM batches WHERE NOT forgotten ORDER BY experiment, number"
        )

    def _of_batch(self, select: str, column: str, experiment: str, number: int, index: int) -> bytes | None:
        query = f"{select} batches ON id = batch WHERE experiment = ? AND number = ? AND {column} = ? AND NOT forgotten"
        found = self._database.row(query, experiment, number, index)
        return None if found is None else bytes(found[0])

    def _finish_forgetting(self) -> None:
        """Remove what a process that was killed had begun to forget."""
        left = "SELECT id FROM batches WHERE forgotten AND id IN (SELECT batch FROM pieces)"
        for (batch,) in self._database.rows(left):
            self._remove_pieces(batch)

    def _remove_pieces(self, batch: int) -> None:
        """Remove the pieces one by one, so that others can write meanwhile."""
        removed = True
        while removed:
            with self._database.changing() as connection:
                first = (
                    "DELETE FROM pieces WHERE batch = ?1 AND piece = (SELECT min(piece) FROM pieces WHERE batch = ?1)"
                )
                removed = connection.execute(first, (batch,)).rowcount > 0


def _begun(connection: sqlite3.Connection, experiment: str, number: int) -> int:
    """The id of the batch, which is made where there is none."""
    if connection.execute("SELECT 1 FROM experiments WHERE digest = ?", (experiment,)).fetchone() is None:
        raise LocalProtocolError("there is no such experiment")
    connection.execute("INSERT OR IGNORE INTO batches (experiment, number) VALUES (?, ?)", (experiment, number))
    found = connection.execute("SELECT id FROM batches WHERE experiment = ? AND number = ?", (experiment, number))
    return int(found.fetchone()[0])
