"""``secvm participant evidence``: in plain words, as a file, and not without a warning."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from secvm.cli.main import run
from secvm.protocol.evidence.plain import examine
from tests.unit.participant.logged_world import LEAD_MS, LoggedWorld

SENTENCE = "The coordinator signed two different manifests for round 1."


@pytest.fixture
def world(tmp_path: Path) -> LoggedWorld:
    """A device that was told two things about one round."""
    world = LoggedWorld(tmp_path)
    device = world.joined()
    first = world.announce()
    world.drive(device, until=first.closes_at)
    other = replace(first, quota=first.quota + 1).signed([world.history.parties.coordinator])
    world.net.files[f"{world.history.place}/manifest/latest"] = other
    world.drive(device, until=first.accept_until + LEAD_MS)
    device.close()
    return world


def command(world: LoggedWorld, *arguments: str) -> int:
    return run(["participant", "evidence", *arguments, "--folder", str(world.folder)])


def test_evidence_is_told_in_words(world: LoggedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(world) == 0
    told = capsys.readouterr().out
    assert SENTENCE in told
    assert world.of.digest in told
    assert command(world, world.of.digest[:8], "--format", "json") == 0
    (one,) = json.loads(capsys.readouterr().out)["evidence"]
    assert (one["kind"], one["sentence"], one["number"]) == ("two-documents", SENTENCE, 1)


def test_export_warns_first_and_takes_no_for_an_answer(
    world: LoggedWorld, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = world.folder.with_name("evidence.json")
    answers = iter([False, True])
    monkeypatch.setattr("typer.confirm", lambda *_, **__: next(answers))
    assert command(world, "--export", str(file)) == 2
    assert not file.exists()
    assert "mark" in capsys.readouterr().err
    assert command(world, "--export", str(file)) == 0
    assert examine(file.read_bytes()).sentence == SENTENCE


def test_where_nobody_can_answer_export_says_how_to_agree(
    world: LoggedWorld, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = world.folder.with_name("evidence.json")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert command(world, "--export", str(file)) == 2
    assert "--yes" in capsys.readouterr().err
    assert command(world, "--export", str(file), "--yes") == 0
    assert "secvm audit --evidence" in capsys.readouterr().out


def test_device_that_holds_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = LoggedWorld(tmp_path)
    world.joined().close()
    assert command(world) == 0
    assert "holds nothing" in capsys.readouterr().out
    assert command(world, "--export", str(tmp_path / "file"), "--yes") == 2
    assert command(world, "--export", str(tmp_path / "file"), "--number", "3", "--yes") == 2


def test_inspect_tells_of_log_witnesses_and_evidence(world: LoggedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["participant", "inspect", "--folder", str(world.folder)]) == 0
    told = capsys.readouterr().out
    for said in ("log.example/secvm/v2", "w0.example, w1.example, w2.example", "lines of the log", "holds evidence"):
        assert said in told
