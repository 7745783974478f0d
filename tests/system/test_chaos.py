"""Chaos for real, in small: processes, PostgreSQL, cables and disks, and the bytes that must come out all the same.

``./secvm dev chaos`` does the same for ten minutes. What the accounts are worth is shown by a relay that acknowledges
and forgets.
"""

from __future__ import annotations

from pathlib import Path

from secvm_lab.chaos.faults import DATABASE, DRIVER, NODE, Kind
from secvm_lab.chaos.run import ChaosPlan, Played, play


def check(played: Played, rounds: int) -> None:
    verdict = played.verdict
    print(dict(played.done), dict(played.answers), verdict)
    assert (verdict.lost, verdict.counted_twice, played.audit, played.forks) == (0, 0, [], 0)
    assert played.state == played.offline
    assert len(played.accounts) == rounds
    assert verdict.acknowledged == verdict.scheduled > 0
    # A node that is started while the database is away says so and ends; whoever looks after it starts it again.
    assert all("the database" in words for words in played.last_words), played.last_words
    assert played.right


def test_nodes_driver_and_database_are_killed_and_the_weights_are_those_of_the_undisturbed_rounds(
    tmp_path: Path,
) -> None:
    plan = ChaosPlan(rounds=2, kills=8, nodes=2, faults=("kill", "stop"), participants=16)
    played = play(tmp_path, plan)
    check(played, plan.rounds)
    killed = {whom: count for (kind, whom), count in played.done.items() if kind is Kind.KILL}
    assert sum(killed[whom] for whom in (NODE, DRIVER, DATABASE)) == plan.kills
    # The stopped driver lost the lead to another one, and woke up into that.
    assert played.done[Kind.STOP, DRIVER] == played.taken_over == 1
