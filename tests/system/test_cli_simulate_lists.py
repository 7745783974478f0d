"""``secvm dev simulate`` and ``secvm dev mutations`` as they are typed."""

import json

import pytest

from secvm.cli.main import run
from secvm_lab.simulation import Simulation, SimulationError


def test_lists_are_played_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dev", "simulate", "--lists", "2", "--seed", "3", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["lists"], told["seed"], told["right"], told["repro"]) == (2, 3, True, None)
    assert told["happened"]["sent"] > 0


def test_the_first_list_that_goes_wrong_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def play(_self: Simulation, ops: object) -> None:
        raise SimulationError("what must not be\n\ndef test_repro_what_must_not_be() -> None: ...")

    monkeypatch.setattr(Simulation, "play", play)
    assert run(["dev", "simulate", "--minutes", "0"]) == 1
    shown = capsys.readouterr()
    assert "def test_repro_what_must_not_be" in shown.out
    assert "seed 0: what must not be" in shown.err


def test_a_mutation_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dev", "mutations", "--only", "gravity"]) == 2
    assert "there is no mutation 'gravity'" in capsys.readouterr().err
