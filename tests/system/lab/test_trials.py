"""Trials can be had again, and tell when something is not as expected."""

import json
import random
from dataclasses import replace
from functools import partial

import pytest

from secvm.cli.main import run as command
from secvm.errors import CheatingError
from secvm.learning import aggregate
from secvm.protocol.trust.trusted_rounds import TrustedRounds
from secvm_lab.rigs.histories.public_history import PublicHistory
from secvm_lab.rigs.lies.catalogue import LIES
from secvm_lab.trials import SENDS, TRIALS, judge, look, run, try_lie


def forgets_its_steps(dice: random.Random) -> None:
    """A run whose second model is the first one again."""
    history = PublicHistory.drawn(dice)
    history.announce()
    history.conclude(history.draw_tally())
    history.state = aggregate.start(history.document.experiment)
    history.announce()
    device = TrustedRounds(history.document, history.envelope)
    device.check(history.served(device), now=history.now)


def test_the_same_seed_gives_the_same_trials() -> None:
    lies = ["different-weights", "stale-checkpoint", "sign-swapped"]
    assert run(lies, trials=6, seed="a") == run(lies, trials=6, seed="a")
    told = (LIES["stale-checkpoint"].told(random.Random(f"variants {i}")) for i in range(40))
    outcomes = {judge(*one).variant for one in told}
    assert len(outcomes) == 4


def test_a_lie_that_is_not_as_expected_deviates(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(LIES["forged-tally"], detected=True)
    monkeypatch.setitem(TRIALS, "forged-tally", (True, partial(try_lie, wrong)))
    count = run(["forged-tally"], trials=2, seed="a")["forged-tally"]
    assert count.deviating == [0, 1]
    assert count.device.total() == 2
    assert set(count.device) <= {SENDS, "sends, 0 sent", *(f"sends, {n} sent" for n in range(4, 21))}


def test_a_wrong_step_tells_its_reason() -> None:
    scene, told = LIES["wrong-lambda"].told(random.Random(1))
    with pytest.raises(CheatingError, match="the model does not follow"):
        look(scene, told)


def test_every_lie_says_what_it_is() -> None:
    assert all(lie.sentence.endswith(".") for lie in LIES.values())
    assert [name for name, lie in LIES.items() if not lie.detected] == ["forged-tally"]


def test_command_counts_and_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["dev", "trials", "--trials", "2", "--lie", "shorter-window", "--lie", "honest", "--format", "json"]
    assert command(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["as_expected"] is True
    assert told["lies"]["shorter-window"]["caught"] == 2
    assert told["honest"] == {"runs": 2, "refused": 0, "deviating": []}


def test_command_ends_badly_when_an_honest_run_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("secvm_lab.trials.honest_run", forgets_its_steps)
    assert command(["dev", "trials", "--trials", "8", "--lie", "honest", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["honest"]["deviating"]


def test_command_knows_its_lies() -> None:
    assert command(["dev", "trials", "--lie", "white"]) == 2
