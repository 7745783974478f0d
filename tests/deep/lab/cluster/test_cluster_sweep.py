"""Longer cases of ``tests/system/lab/cluster/test_cluster_sweep.py``."""

import os
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

from secvm.errors import ClusterError
from secvm_lab.cluster.sweep import ClusterSweep
from secvm_lab.engine import Swept
from tests.system.lab.cluster.test_cluster_sweep import (
    HOW,
    LABELS,
    ROUNDS,
    ROWS,
    ask,
    assert_same,
)
from tests.unit.lab.cluster import on_workers
from tests.unit.lab.cluster.on_workers import SmallRecipe, some_rows


def test_rows_that_died_with_all_their_workers_are_sent_again(
    client: Client, alone: list[Swept], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "meet")
    before = set(client.run(os.getpid).values())
    client.run(on_workers.die_together, str(tmp_path / "meet"))
    notices: list[str] = []
    assert_same(list(ClusterSweep(client, notice=notices.append)(ROWS, LABELS, **HOW)), alone)
    assert any("sending them again" in notice for notice in notices)
    assert before.isdisjoint(client.run(os.getpid).values())


def test_group_that_kills_its_workers_is_given_up_in_a_sentence(
    cluster: LocalCluster, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)
    client.run(on_workers.die_once, str(tmp_path))
    recipe = SmallRecipe(7, str(tmp_path))  # its rows cannot be lost
    with pytest.raises(ClusterError, match="workers died 1 times with the same group"):
        list(ClusterSweep(client)(recipe, some_rows(7, 200, 15, 60)[1], [ask(60)], rounds=ROUNDS))


def test_worker_that_is_killed_in_the_middle_changes_nothing(
    client: Client, alone: list[Swept], tmp_path: Path
) -> None:
    before = set(client.run(os.getpid).values())
    client.run(on_workers.die_once, str(tmp_path))
    assert_same(list(ClusterSweep(client)(ROWS, LABELS, **HOW)), alone)
    assert (tmp_path / "died").exists()
    assert len(before & set(client.run(os.getpid).values())) == 1
