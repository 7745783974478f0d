"""Shards are judged by other processes as by this one, and the command says what its audit counted and proved."""

import json
import random
from pathlib import Path

import pytest

from secvm.auditor.relayed.recounter import OpenedRound, Recounter, ServedShard, ShardVerdict
from secvm.cli.main import run as command
from secvm.protocol.documents.experiment import publish
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR
from secvm_lab.rigs.lies.about_shards import COUNT_LIES, Scene
from tests.seeds import seed_for
from tests.unit.auditor.histories import lay_out


def drawn(name: str, *, large: bool) -> Scene:
    """A scene of a lie, about a round of one shard or, if it is large, of two."""
    return COUNT_LIES[name].told(random.Random(seed_for("scenes")), large=large)


def test_other_processes_judge_as_this_one_does() -> None:
    scene = drawn("one-more-in-a-bin", large=True)
    made = scene.round
    opened = OpenedRound(publish(made.document, keys=(COORDINATOR,)), made.manifest.data, scene.opening.data)
    names = ("shard", "capsules", "tally")
    files = [ServedShard(k, *(scene.files[scene.path(name, k)] for name in names)) for k in (0, 1)]
    with Recounter(processes=2, many=1) as there, Recounter(processes=1) as here:
        judged = [list(one.judge(opened, 2, files)) for one in (there, here)]
    assert judged[0] == judged[1]
    assert [one.verdict for _, one in judged[0]].count(ShardVerdict.COUNT) == 1
    assert sum(one.recounted for _, one in judged[0]) == len(made.mixed)


def test_command_counts_again_writes_evidence_and_explains_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = drawn("sign-swapped", large=False)
    lay_out(scene.files, tmp_path / "public")
    found = tmp_path / "found.json"
    arguments = ["audit", str(tmp_path / "public"), "--at", "2026-01-02T00:00:00Z"]
    assert command([*arguments, "--evidence-to", str(found), "--format", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["rounds_recounted"] == 2
    assert [fault["finding"] for fault in told["faults"]] == ["count"]
    assert command(["audit", "--evidence", str(found)]) == 0
    text = capsys.readouterr().out
    assert "It signed a count of shard 0 of round 2" in text
    assert "the capsules of a shard, under the mixing relay's signature" in text
