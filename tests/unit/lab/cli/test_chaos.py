"""``secvm dev chaos``: what it tells, several runs as one, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from secvm_lab.chaos import run as chaos
from secvm_lab.chaos.faults import Kind
from secvm_lab.chaos.run import ChaosPlan, Played
from secvm_lab.cli.dev import app

FINE = Played(state=b"s", offline=b"s", accounts=[], audit=[], forks=0)
STORMY = replace(
    FINE,
    done=Counter({(Kind.KILL, "node"): 3, (Kind.KILL, "database"): 2, (Kind.STOP, "driver"): 1, (Kind.CUT, "node"): 1}),
    answers=Counter({202: 5, 503: 1}),
    slowed_by="tbf",
    no_disk="a small file system needs root on Linux",
)


class FakeRuns:
    """What ``play`` is replaced by; disturbed runs come to these, one after the other."""

    def __init__(self, *disturbed: Played) -> None:
        self._left = list(disturbed)
        self.plans: list[ChaosPlan] = []
        self.folders: list[Path] = []

    def __call__(self, folder: Path, plan: ChaosPlan, *, disturbed: bool = True, **_: Any) -> Played:
        assert folder.is_dir()
        self.folders.append(folder)
        if not disturbed:
            return FINE
        self.plans.append(plan)
        return self._left.pop(0)


def run(monkeypatch: pytest.MonkeyPatch, runs: FakeRuns, *arguments: str) -> tuple[int, dict[str, Any], str]:
    monkeypatch.setattr(chaos, "play", runs)
    result = CliRunner().invoke(app, ["chaos", *arguments, "--format", "json"])
    return result.exit_code, json.loads(result.stdout), result.stderr


def test_a_run_in_which_nothing_is_wrong_ends_with_0_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = FakeRuns(STORMY)
    code, told, _ = run(monkeypatch, runs, "--kills", "5", "--seed", "3")
    assert code == 0
    assert {whom: count for whom, count in told["kills"].items() if count} == {"node": 3, "database": 2}
    assert list(told["kills"]) == ["node", "driver", "database", "relay", "entry", "mix", "witness", "host"]
    assert (told["stops"], told["cuts"], told["disk_full"]) == (1, 1, 0)
    assert told["network"] == "tried"
    assert told["disk"] == "not tried: a small file system needs root on Linux"
    assert told["slowed_by"] == "tbf"
    assert told["identical"] is True
    assert (told["lost"], told["counted_twice"], told["runs"]) == (0, 0, 1)
    assert told["answers"] == {"202": 5, "503": 1}
    assert list(told)[-2:] == ["seconds", "peak_rss_mb"]
    assert runs.plans[0].seed == 3
    assert runs.plans[0].nodes == 3
    assert not any(folder.exists() for folder in runs.folders)


@pytest.mark.parametrize(
    "wrong",
    [
        replace(STORMY, state=b"other"),
        replace(STORMY, audit=["a step is wrong"]),
        replace(STORMY, forks=1),
        replace(STORMY, offline=b"other"),
        replace(STORMY, accused=["a canary is missing"]),
    ],
    ids=["other bytes", "a fault from outside", "a fork", "other than offline", "somebody honest is accused"],
)
def test_a_difference_ends_with_1_says_how_to_see_it_again_and_keeps_the_files(
    monkeypatch: pytest.MonkeyPatch, wrong: Played
) -> None:
    runs = FakeRuns(wrong)
    code, _, said = run(monkeypatch, runs, "--kills", "7", "--faults", "kill, stop", "--minutes", "60")
    assert code == 1
    assert "./secvm dev chaos --experiment plain --seed 0 --kills 7 --faults kill,stop" in said
    assert runs.folders[0].parent.is_dir()
    assert str(runs.folders[0].parent) in said
    for folder in {*runs.folders}:
        folder.rmdir()
    runs.folders[0].parent.rmdir()


def test_several_runs_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = FakeRuns(STORMY, replace(STORMY, last_words=["node-0: bye"]), replace(STORMY, forks=2))
    code, told, said = run(monkeypatch, runs, "--store", "sqlite", "--minutes", "60")
    assert code == 1
    assert [plan.seed for plan in runs.plans] == [0, 1, 2]
    assert {plan.nodes for plan in runs.plans} == {1}
    assert told["runs"] == 3
    assert told["kills"]["node"] == 9
    assert (told["forks"], told["last_words"]) == (2, ["node-0: bye"])
    kept = runs.folders[-1].parent
    assert str(kept) in said
    for folder in kept.iterdir():
        folder.rmdir()
    kept.rmdir()


def test_under_cover_bytes_are_those_of_the_rounds_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = replace(STORMY, state=b"noise", offline=b"noise", unopened=[2])
    runs = FakeRuns(noise)
    code, told, _ = run(monkeypatch, runs, "--experiment", "covered")
    assert code == 0
    assert (told["experiment"], told["identical"], told["unopened"]) == ("covered", True, 1)
    assert len(runs.folders) == 1, "each run has noise of its own: another one says nothing"
    assert run(monkeypatch, FakeRuns(replace(noise, offline=b"other")), "--experiment", "covered")[0] == 1


def test_faults_that_there_are_not_are_refused() -> None:
    for given in ("kill,earthquake", "", ","):
        result = CliRunner().invoke(app, ["chaos", "--faults", given])
        assert result.exit_code != 0
        assert "--faults" in str(result.exception)


def test_sigterm_unwinds_as_ctrl_c_does(monkeypatch: pytest.MonkeyPatch) -> None:
    unwound = []

    def play(*_: Any, **__: Any) -> Played:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        finally:
            unwound.append(True)
        return FINE

    monkeypatch.setattr(chaos, "play", play)
    before = signal.getsignal(signal.SIGTERM)
    result = CliRunner().invoke(app, ["chaos", "--format", "json"])
    assert result.exit_code != 0
    assert unwound
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_plan_has_every_fault_that_can_be_tried() -> None:
    five = dict.fromkeys((Kind.STOP, Kind.CUT, Kind.SLOW, Kind.LOSS, Kind.DELAY), 5)
    wanted = ChaosPlan(kills=200).wanted(network=True, disks=True)
    assert wanted == {Kind.KILL: 200, **five, Kind.DISK: 2, Kind.RESTART: 0}
    # Two unopened rounds of any ten would end participation.
    for rounds, restarts in ((1, 0), (2, 1), (100, 1)):
        plan = ChaosPlan(rounds=rounds, experiment="covered")
        assert plan.wanted(network=True, disks=True)[Kind.RESTART] == restarts
    assert ChaosPlan(kills=200, faults=("network", "disk")).wanted(network=False, disks=False) == {}
