"""Three nodes on one PostgreSQL: whoever drives is killed or stopped in the middle of a round's end, and the bytes that
come out are those of one process on a file.

Nodes, relay, witnesses and devices are real processes over loopback; time is steered (docs/adr/0020).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg

from secvm.testing.federation import Federation
from secvm_lab.disturbed import run_disturbed
from secvm_lab.rigs.postgres import PostgresCluster

ROUNDS, PEOPLE = 2, 10


class Failing:
    """The driver is killed as the first round ends. As the second one ends it is stopped inside a transaction: the one
    that closes the epoch, which waits for somebody who holds the epoch's row.
    """

    def __init__(self, database: str, then: Callable[[Federation], None]) -> None:
        self._database, self._then = database, then
        self.killed: str | None = None
        self.stopped: str | None = None
        self._windows, self._done = 0, 0
        self._holder: psycopg.Connection[tuple[object, ...]] | None = None
        #: What each node showed at the end, by path.
        self.shown: dict[str, dict[str, bytes | None]] = {}

    def __call__(self, federation: Federation) -> None:
        self._federation = federation
        federation.clock.meanwhile = self.strike

    def before_closing(self) -> None:
        self._windows += 1
        if self._windows == 2:
            self._holder = psycopg.connect(self._database)
            held = self._holder.execute("SELECT 1 FROM secvm.epochs WHERE epoch = 1 FOR SHARE").fetchall()
            assert held == [(1,)]

    def strike(self) -> None:
        federation = self._federation
        if self._done < 2 and federation.clock.now() >= self._closes(self._done + 1):
            name = federation.driver()
            if name is None:
                return
            self._done += 1
            if self._done == 1:
                self.killed = name
                federation.kill(name)
                federation.restart(name)
            else:
                self.stopped = name
                self._stop_in_the_middle(name)
        elif self._done == 2 and self.stopped is not None and federation.driver(but=[self.stopped]) is not None:
            # It goes on in the middle of what it did, and believes that it drives.
            federation.children.resume(self.stopped)
            self._done = 3

    def _stop_in_the_middle(self, name: str) -> None:
        assert self._holder is not None
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        with psycopg.connect(self._database, autocommit=True) as looking:
            self._federation.patiently(
                lambda: b"yes" if looking.execute(waiting).fetchall() == [(1,)] else None,
                "a driver that waits",
            )
        looking.close()
        self._federation.children.pause(name)
        self._holder.commit()
        self._holder.close()

    def _closes(self, number: int) -> int:
        pace = self._federation.pace
        return self._federation.opens_at(number) + 1000 * (pace.length_s + pace.grace_s)

    def look(self) -> None:
        """After each round; only the last look counts."""
        federation = self._federation
        digest = federation.digest
        paths = [f"/v1/experiment/{digest}", *(f"/v1/experiment/{digest}/manifest/{n}" for n in range(1, ROUNDS + 1))]
        if federation.public(f"/v1/experiment/{digest}/ending") is None:
            return
        self._then(federation)
        for path in (*paths, f"/v1/experiment/{digest}/ending", f"/v1/experiment/{digest}/first"):
            for name in federation.node_names:
                found = federation.patiently(lambda name=name, path=path: federation.answer(name, path), path)  # type: ignore[misc]
                self.shown.setdefault(name, {})[path] = found


def test_a_driver_killed_and_one_stopped_in_a_rounds_end_change_no_byte(tmp_path: Path) -> None:
    events: dict[str, list[dict[str, object]]] = {}

    def keep(federation: Federation) -> None:
        for event in ("leading", "lost-the-lead", "round-tallied", "shards-counted"):
            events[event] = [line for name in federation.node_names for line in federation.events(name, event)]
        assert failing.stopped is not None
        events["of the stopped"] = federation.events(failing.stopped, "lost-the-lead")

    (tmp_path / "nodes").mkdir()
    (tmp_path / "one").mkdir()
    with PostgresCluster() as cluster:
        database = cluster.create_database()
        failing = Failing(database, keep)
        many = run_disturbed(
            tmp_path / "nodes",
            participants=PEOPLE,
            rounds=ROUNDS,
            disturb=failing,
            before_closing=failing.before_closing,
            after_round=failing.look,
            nodes=3,
            database=database,
        )
    one = run_disturbed(tmp_path / "one", participants=PEOPLE, rounds=ROUNDS)
    assert many.state == one.state == many.expected
    assert many.tallies == one.tallies
    assert many.right
    assert one.right
    # There was a second driver, and a third; the one that was stopped found out.
    terms = [line["term"] for line in events["leading"]]
    assert len(terms) == len(set(terms)) >= 3
    assert events["of the stopped"]
    # No round was concluded by two.
    assert all(sum(line["round"] == number for line in events["round-tallied"]) <= 1 for number in range(1, ROUNDS + 1))
    # Whoever is asked shows the same.
    first, second, third = failing.shown.values()
    assert first == second == third
