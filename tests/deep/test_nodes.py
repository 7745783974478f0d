"""Two nodes on one PostgreSQL: a driver that is stopped inside a transaction, and comes back late, changes nothing."""

from __future__ import annotations

import json
import random
import signal
from functools import partial
from pathlib import Path

import psycopg
import pytest

from secvm.testing.federation import Federation
from secvm_lab.rigs.postgres import PostgresCluster
from tests.deep.test_covered_federation import balanced
from tests.seeds import seed_for
from tests.system.covered_federation import a_case, check, play

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def driver(federation: Federation, *, but: str = "") -> bytes | None:
    """The name of the node that says that it drives; None where none does just now."""
    for name in federation.node_names:
        health = None if name == but else federation.answer(name, "/health")
        if health is not None and json.loads(health)["node"]["role"] == "driver":
            return name.encode()
    return None


class StoppedInside:
    """The driver is stopped while it opens the first round, in a transaction that waits for a row of ours. It gets the
    row, says nothing, and goes on when the other node drives.
    """

    def __init__(self, database: str) -> None:
        self.database = database
        #: Every "leading" of both nodes, and every "lost-the-lead" of the one that was stopped.
        self.terms: list[int] = []
        self.lost: list[object] = []
        self._stopped = ""

    def __call__(self, federation: Federation, step: str) -> None:
        if step == "mixed" and not self._stopped:
            self._strike(federation)
        elif step == "over":
            self.terms = [line["term"] for name in federation.node_names for line in federation.events(name, "leading")]
            self.lost = [line["term"] for line in federation.events(self._stopped, "lost-the-lead")]

    def _strike(self, federation: Federation) -> None:
        with psycopg.connect(self.database, autocommit=True) as looking, psycopg.connect(self.database) as holding:
            assert holding.execute("SELECT number FROM secvm.rounds FOR SHARE").fetchall() == [(1,)]
            waits = partial(looking.execute, WAITING)
            federation.patiently(lambda: b"yes" if waits().fetchall() == [(1,)] else None, "a driver that waits")
            self._stopped = federation.patiently(partial(driver, federation), "a driver").decode()
            federation.children.send(self._stopped, signal.SIGSTOP)
        federation.patiently(partial(driver, federation, but=self._stopped), "another driver")
        federation.children.send(self._stopped, signal.SIGCONT)


@pytest.mark.takes(minutes=2)
def test_a_driver_stopped_inside_a_transaction_comes_back_late_and_changes_no_byte(tmp_path: Path) -> None:
    case = a_case(random.Random(seed_for("a stopped driver")), ("a", "b"), people=16)
    with PostgresCluster() as cluster:
        stopped = StoppedInside(cluster.create_database())
        found = play(tmp_path, case, nodes=2, database=stopped.database, doors=balanced, between=stopped)
    check(case, *found, learns=False)
    # Another drove, and the one that was stopped found out.
    assert len(stopped.terms) == len(set(stopped.terms)) >= 2
    assert stopped.lost
