"""An auditor's own policy: met, not met, and never to be met."""

from dataclasses import replace
from pathlib import Path

import pytest

from secvm.cli.main import run
from secvm.crypto.notes import NoteKey
from secvm.protocol.log.checkpoints import Quorum
from secvm.protocol.log.policy import Listed, LogPolicy
from secvm_lab.rigs.histories.public_history import PublicHistory
from tests.unit.auditor.histories import audited, history, sentences, told


def own_policy(of: PublicHistory) -> LogPolicy:
    return LogPolicy.of_terms(of.terms)


def with_all_lines(of: PublicHistory) -> dict[str, bytes]:
    """Its files with the newest checkpoint cosigned by everybody."""
    signed = of.log.checkpoint()
    lines = [signed.checkpoint.cosign(one.key, name=one.name, time_s=of.now // 1000) for one in of.parties.witnesses]
    return {**of.files, f"{of.place}/checkpoint": signed.cosigned(*lines).data}


def test_what_the_experiment_demands_itself_is_met() -> None:
    made = history()
    assert told(audited(made, policy=own_policy(made))) == []
    assert told(audited(made, policy=LogPolicy())) == []


def test_witnesses_that_the_policy_wants_and_who_did_not_cosign_are_missed() -> None:
    made = history()
    everybody = replace(own_policy(made), quorum=Quorum(len(made.terms.witnesses), made.terms.rule.of))
    files = with_all_lines(made)
    assert told(audited(made, files, policy=everybody)) == []
    path = f"{made.place}/checkpoint"
    fewer = files[path].rsplit("\N{EM DASH}".encode(), 1)[0]
    assert told(audited(made, {**files, path: fewer})) == []
    report = audited(made, {**files, path: fewer}, policy=everybody)
    assert told(report) == [("log", None)]
    assert "the policy is not met: too few witnesses" in sentences(report)


def test_an_experiment_of_another_log_or_of_strangers_is_told_of() -> None:
    made = history()
    elsewhere = NoteKey("elsewhere.example/secvm/v2", made.terms.key)
    for policy, sentence in (
        (LogPolicy(logs=(Listed(elsewhere),)), "log is none of those"),
        (LogPolicy.of_witnesses(made.terms.witness_keys[:1]), "too few of this experiment's witnesses"),
    ):
        report = audited(made, policy=policy)
        assert told(report) == [("log", None)]
        assert sentence in sentences(report)


def test_the_command_reads_a_policy_before_anything_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy").write_bytes(b"quorum nobody\n")
    assert run(["audit", str(tmp_path), "--policy", str(tmp_path / "policy")]) == 2
    assert "line 1 of the policy" in capsys.readouterr().err
