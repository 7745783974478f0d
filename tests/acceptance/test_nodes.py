"""Three nodes on one PostgreSQL: whoever drives is killed or stopped in the middle of a round's end, and the bytes that
come out are those of one process on a file.

Nodes, relay, witnesses and devices are real processes over loopback; time is steered (docs/adr/0020).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from secvm.lab.disturbed import run_disturbed
from secvm.testing.federation import Federation
from secvm.testing.postgres import PostgresCluster

pytestmark = pytest.mark.slow

ROUNDS, PEOPLE = 3, 10


class Failing:
    """At the end of the first round the driver is killed, at the end of the second one it is stopped for a while."""

    def __init__(self, then: Callable[[Federation], None]) -> None:
        self._then = then
        self.killed: str | None = None
        self.stopped: str | None = None
        self._done = 0
        #: What each node showed at the end, by path.
        self.shown: dict[str, dict[str, bytes | None]] = {}

    def __call__(self, federation: Federation) -> None:
        self._federation = federation
        federation.clock.meanwhile = self.strike

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
                federation.children.pause(name)
        elif self._done == 2 and self.stopped is not None and federation.driver(but=[self.stopped]) is not None:
            # It goes on in the middle of what it did, and believes that it drives.
            federation.children.resume(self.stopped)
            self._done = 3

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
            events[event] = [line for name in federation.node_names for line in federation.told(name, event)]
        assert failing.stopped is not None
        events["of the stopped"] = federation.told(failing.stopped, "lost-the-lead")

    failing = Failing(keep)
    (tmp_path / "nodes").mkdir()
    (tmp_path / "one").mkdir()
    with PostgresCluster() as cluster:
        many = run_disturbed(
            tmp_path / "nodes",
            participants=PEOPLE,
            rounds=ROUNDS,
            disturb=failing,
            after_round=failing.look,
            nodes=3,
            database=cluster.create_database(),
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
    assert all(
        sum(line["round"] == number for line in events["round-tallied"]) <= 1 for number in range(1, ROUNDS + 1)
    )
    # Whoever is asked shows the same.
    first, second, third = failing.shown.values()
    assert first == second == third
