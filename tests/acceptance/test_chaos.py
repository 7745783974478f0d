"""Chaos for real, in small: processes, PostgreSQL, cables and disks, and the bytes that must come out all the same.

``./secvm dev chaos`` does the same for ten minutes. What the accounts are worth is shown by a relay that acknowledges
and forgets.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from secvm.lab.chaos import ChaosPlan, Played, play
from secvm.testing.chaos.faults import DATABASE, DRIVER, NODE, Kind
from secvm.testing.chaos.network import why_no_network
from secvm.testing.chaos.passage import Answer, Request
from secvm.testing.chaos.small_disk import why_no_disk
from secvm.testing.federation_settings import RELAY_PATH

pytestmark = pytest.mark.slow


def check(played: Played, rounds: int) -> None:
    verdict = played.verdict
    print(dict(played.done), dict(played.answers), verdict)
    assert (verdict.lost, verdict.counted_twice, played.audit, played.forks) == (0, 0, [], 0)
    assert played.state == played.offline
    assert len(played.accounts) == rounds
    assert verdict.acknowledged == verdict.received == verdict.scheduled > 0
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


def test_cut_off_slowed_and_out_of_disk_nothing_is_lost(tmp_path: Path) -> None:
    plan = ChaosPlan(rounds=1, kills=0, nodes=2, faults=("network", "disk"), participants=16, seed=1)
    played = play(tmp_path, plan)
    check(played, plan.rounds)
    by_kind = {kind: sum(count for (one, _), count in played.done.items() if one is kind) for kind in Kind}
    if why_no_network() is None:
        assert by_kind[Kind.CUT] == 1
        assert played.taken_over >= 1
    else:
        assert played.no_network
    if why_no_disk(tmp_path) is None:
        assert by_kind[Kind.DISK] == played.disks_noticed == 2
    else:
        assert played.no_disk
    # Nothing of it is left on this machine.
    assert not [name for name in _namespaces() if name.startswith(f"secvm-{os.getpid()}-")]
    assert not [line for line in Path("/proc/mounts").read_text().splitlines() if str(tmp_path) in line]


def test_a_relay_that_acknowledges_and_forgets_is_found_out(tmp_path: Path) -> None:
    swallowed: list[bytes] = []

    def forget(request: Request) -> Answer | None:
        if request.path != RELAY_PATH or len(swallowed) == 5:
            return None
        swallowed.append(request.body)
        return Answer(202, b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")

    plan = ChaosPlan(rounds=1, kills=0, store="sqlite", nodes=1, participants=10)
    played = play(tmp_path, plan, disturbed=False, liar=forget)
    verdict = played.verdict
    assert len(set(swallowed)) == 5
    assert (verdict.lost, verdict.counted_twice) == (5, 0)
    assert not played.right


def _namespaces() -> list[str]:
    folder = Path("/run/netns")
    return [one.name for one in folder.iterdir()] if folder.is_dir() else []
