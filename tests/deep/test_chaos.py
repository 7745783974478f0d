"""Longer cases of ``tests/system/test_chaos.py``."""

import os
from pathlib import Path

import pytest

from secvm.relay.setting_up import RELAY_PATH
from secvm.testing.federation_settings import ENTRY, MIX
from secvm_lab.chaos.faults import DATABASE, DRIVER, NODE, Kind
from secvm_lab.chaos.network import why_no_network
from secvm_lab.chaos.passage import Answer, Request
from secvm_lab.chaos.run import ChaosPlan, play
from secvm_lab.chaos.small_disk import why_no_disk
from tests.seeds import seed_for
from tests.system.test_chaos import check

#: Packages that a relay acknowledges and forgets.
FORGOTTEN = 30


def test_cut_off_slowed_and_out_of_disk_nothing_is_lost(tmp_path: Path) -> None:
    # A fixed seed: the faults that it draws are counted below.
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


@pytest.mark.takes(minutes=3)
def test_under_two_relays_cover_a_storm_changes_no_byte_and_accuses_nobody(tmp_path: Path) -> None:
    plan = ChaosPlan(
        experiment="covered", rounds=3, kills=20, nodes=2, participants=16, seed=seed_for("chaos under cover") % 2**32
    )
    played = play(tmp_path, plan)
    check(played, plan.rounds)
    killed = {whom: count for (kind, whom), count in played.done.items() if kind is Kind.KILL}
    assert sum(killed[whom] for whom in (NODE, DRIVER, DATABASE, ENTRY, MIX)) >= plan.kills
    assert min(killed[whom] for whom in (NODE, DRIVER, DATABASE, ENTRY, MIX)) >= 1
    # A relay's machine was started again, once: one round stayed unopened, and no device has ended its participation.
    assert sum(count for (kind, _), count in played.done.items() if kind is Kind.RESTART) == len(played.unopened) == 1
    assert played.accused == []


def test_repro_a_relay_that_forgets_was_to_lose_packages_that_no_tally_has(tmp_path: Path) -> None:
    swallowed: list[bytes] = []

    def forget(request: Request) -> Answer | None:
        if request.path != RELAY_PATH or len(swallowed) == FORGOTTEN:
            return None
        swallowed.append(request.body)
        return Answer(202)

    plan = ChaosPlan(rounds=1, kills=0, store="sqlite", nodes=1, participants=10)
    played = play(tmp_path, plan, disturbed=False, liar=forget)
    verdict = played.verdict
    assert len(set(swallowed)) == FORGOTTEN
    # Nulls are in no tally, and nobody misses them. About half of a round's 160 packages are nulls, so that all of
    # these are has a chance of about 1e-9.
    assert 1 <= verdict.lost <= FORGOTTEN
    assert verdict.counted_twice == 0
    assert not played.right


def _namespaces() -> list[str]:
    folder = Path("/run/netns")
    return [one.name for one in folder.iterdir()] if folder.is_dir() else []
