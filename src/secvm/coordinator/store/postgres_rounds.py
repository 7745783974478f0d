"""What a coordinator keeps for good, in PostgreSQL: experiments, rounds, blobs, notes; and who drives.

``PostgresStore`` adds the epochs. Whatever a driver changes goes through ``driven``, which holds the fence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from secvm.coordinator.store import rules
from secvm.coordinator.store.port import Standing, StoredExperiment, StoredNote, StoredRound
from secvm.coordinator.store.postgres_pool import BusyError, Connection, Pool, Row, queries, run
from secvm.errors import LocalProtocolError, StaleDriverError
from secvm.protocol.round_state import RoundState

_SQL = queries("rounds")
_DRIVER = queries("driver")


class PostgresRounds:
    """The part of the port that is not about epochs."""

    def __init__(self, pool: Pool, term: int | None = None) -> None:
        self._pool = pool
        self._term = term

    # ── who drives ───────────────────────────────────────────────────────────────────────────────────────────────────

    def lead(self, holder: str, lease_s: float) -> int | None:
        rules.may_lead(holder, lease_s)
        given = {"holder": holder, "lease_s": lease_s}
        renewed = self._pool.once(_DRIVER["renew"], given)
        if renewed:
            return int(renewed[0][0])
        with self._pool.changing() as connection:
            ((leads, runs),) = run(connection, _DRIVER["hold_lease"])
            if leads is not None and runs:
                return None
            ((term,),) = run(connection, _DRIVER["next_term"])
            run(connection, _DRIVER["take_lease"], term=term, **given)
            run(connection, _DRIVER["tell"])
        self._took_over(int(term))
        return int(term)

    def _took_over(self, term: int) -> None:
        """Finish what a driver before this one left; called once for each term."""

    def resign(self, term: int) -> None:
        with self._pool.changing() as connection:
            run(connection, _DRIVER["hold_lease"])
            run(connection, _DRIVER["resign"], term=term)
            run(connection, _DRIVER["drop_lease"], term=term)
            run(connection, _DRIVER["tell"])

    @contextmanager
    def driven(self, *, by_anyone: bool = False) -> Iterator[Connection]:
        """A transaction of whoever drives, and still does at its end; ``by_anyone``: also of a node without a term."""
        if self._term is None and not by_anyone:
            raise LocalProtocolError("nobody drives this store without a term: it has many nodes")
        with self._pool.changing() as connection:
            if self._term is not None and not self._may_drive(connection, self._term):
                raise StaleDriverError
            yield connection
            run(connection, _DRIVER["tell"])

    def _may_drive(self, connection: Connection, term: int) -> bool:
        """Whether the term drives; if so, nobody takes over before this transaction ends."""
        return bool(run(connection, _DRIVER["fence"], term=term))

    def _drop_left(
        self, term: int | None, queries: Mapping[str, str], tables_of: Callable[[int], dict[str, str]]
    ) -> None:
        """Drop the tables of everything that is marked as gone, each in a transaction of its own."""
        for (number,) in self._pool.once(queries["left_to_drop"]):
            tables = tables_of(number)
            drop = queries["drop_tables"].format(**tables)
            try:
                self._drop(term, queries["drop_soon"] + drop)
            except BusyError:
                # No session has had a reason to read them since they were marked: one that still does was stopped.
                self._pool.once(queries["end_readers"].format(**tables))
                self._drop(term, drop)

    def _drop(self, term: int | None, query: str) -> None:
        with self._pool.changing() as connection:
            if term is not None and not self._may_drive(connection, term):
                raise StaleDriverError
            run(connection, query)

    # ── experiments, rounds, blobs ───────────────────────────────────────────────────────────────────────────────────

    def add_experiment(self, experiment: StoredExperiment, blobs: Mapping[str, bytes]) -> None:
        with self.driven(by_anyone=True) as connection:
            # Their order is that of their commits: a log follows from it, and may not change behind its back.
            run(connection, _SQL["in_turn"])
            new = run(
                connection,
                _SQL["add_experiment"],
                digest=experiment.digest,
                envelope=experiment.envelope,
                settings=experiment.settings,
                standing=experiment.standing.value,
            )
            if new:
                _keep(connection, blobs)
            else:
                (there,) = run(connection, _SQL["experiment"], digest=experiment.digest)
                rules.same_experiment(_experiment(there), experiment)

    def experiments(self) -> list[StoredExperiment]:
        return [_experiment(row) for row in self._pool.once(_SQL["experiments"])]

    def set_standing(self, digest: str, standing: Standing) -> None:
        with self.driven(by_anyone=True) as connection:
            rules.may_stand(_held_experiment(connection, digest).standing, standing)
            run(connection, _SQL["set_standing"], digest=digest, standing=standing.value)

    def rounds(self, digest: str) -> list[StoredRound]:
        return [_stored_round(row) for row in self._pool.once(_SQL["rounds"], {"digest": digest})]

    def blob(self, digest: str) -> bytes:
        found = self._pool.once(_SQL["blob"], {"digest": digest})
        if not found:
            raise KeyError(digest)
        return bytes(found[0][0])

    def keep_blobs(self, blobs: Mapping[str, bytes]) -> None:
        with self.driven() as connection:
            _keep(connection, blobs)

    def agree(self, name: str, value: bytes) -> bytes:
        self._pool.once(_SQL["keep_blob"], {"digest": rules.agreed_name(name), "data": value})
        return self.blob(rules.agreed_name(name))

    def announce(self, announced: StoredRound, blobs: Mapping[str, bytes]) -> None:
        with self.driven() as connection:
            # Held until the end: whoever pauses it waits for this manifest, or it is not announced.
            standing = _held_experiment(connection, announced.experiment).standing
            there = _round(connection, announced.experiment, announced.number)
            rules.may_announce(there, announced, standing)
            if there is not None:
                return
            self._begin_in(connection, announced.epoch)
            run(
                connection,
                _SQL["announce"],
                digest=announced.experiment,
                number=announced.number,
                epoch=announced.epoch,
                state=announced.state.value,
                envelope=announced.envelope,
            )
            _keep(connection, blobs)

    def _begin_in(self, connection: Connection, epoch: int) -> None:
        raise NotImplementedError

    def set_state(self, digest: str, number: int, state: RoundState) -> None:
        with self.driven() as connection:
            if rules.moves(_round(connection, digest, number), state):
                run(connection, _SQL["set_state"], digest=digest, number=number, state=state.value)

    def conclude(
        self, digest: str, number: int, *, tally: str | None, next_state: str, blobs: Mapping[str, bytes]
    ) -> None:
        with self.driven() as connection:
            if rules.concludes(_round(connection, digest, number), tally, next_state):
                state = RoundState.ABANDONED if tally is None else RoundState.TALLIED
                run(
                    connection,
                    _SQL["conclude"],
                    digest=digest,
                    number=number,
                    state=state.value,
                    tally=tally,
                    next_state=next_state,
                )
                _keep(connection, blobs)

    # ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def append_entries(self, at: int, entries: Sequence[bytes]) -> None:
        with self.driven() as connection:
            # Two who append with one size in mind: the second waits for the first, and counts again.
            run(connection, _SQL["append_in_turn"])
            rules.may_append(run(connection, _SQL["size"])[0][0], at)
            for index, entry in enumerate(entries):
                run(connection, _SQL["append"], place=at + index, entry=entry)

    def entries(self, since: int = 0) -> list[bytes]:
        return [bytes(entry) for (entry,) in self._pool.once(_SQL["entries"], {"since": since})]

    def keep_note(self, name: str, *, size: int, root: bytes, note: bytes) -> None:
        with self.driven() as connection:
            found = run(connection, _SQL["note"], name=name)
            rules.may_follow(StoredNote(*found[0]) if found else None, size=size, root=root)
            run(connection, _SQL["keep_note"], name=name, size=size, root=root, note=note)

    def notes(self) -> list[StoredNote]:
        return [StoredNote(*row) for row in self._pool.once(_SQL["notes"])]

    def keep_beacon(self, digest: str, index: int, record: bytes) -> None:
        with self.driven() as connection:
            _held_experiment(connection, digest)
            found = run(connection, _SQL["beacon"], digest=digest, place=index)
            rules.same_beacon(bytes(found[0][0]) if found else None, record)
            run(connection, _SQL["keep_beacon"], digest=digest, place=index, record=record)

    def beacons(self, digest: str) -> dict[int, bytes]:
        return dict(self._pool.once(_SQL["beacons"], {"digest": digest}))


def _experiment(row: Row) -> StoredExperiment:
    digest, envelope, settings, standing = row
    return StoredExperiment(digest, envelope, settings, Standing(standing))


def _held_experiment(connection: Connection, digest: str) -> StoredExperiment:
    """An experiment that nobody else changes before this transaction ends."""
    found = run(connection, _SQL["experiment"], digest=digest)
    if not found:
        raise LocalProtocolError("there is no such experiment")
    return _experiment(found[0])


def _stored_round(row: Row) -> StoredRound:
    experiment, number, epoch, state, envelope, tally, next_state = row
    return StoredRound(experiment, number, epoch, RoundState(state), envelope, tally, next_state)


def _round(connection: Connection, digest: str, number: int) -> StoredRound | None:
    found = run(connection, _SQL["round"], digest=digest, number=number)
    return _stored_round(found[0]) if found else None


def _keep(connection: Connection, blobs: Mapping[str, bytes]) -> None:
    for digest, data in blobs.items():
        run(connection, _SQL["keep_blob"], digest=digest, data=data)
