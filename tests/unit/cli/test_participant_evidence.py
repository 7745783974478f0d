"""``secvm participant evidence``: in plain words, as a file, and not without a warning."""

import io
from dataclasses import replace
from pathlib import Path

import pytest

from secvm.protocol.evidence.plain import examine
from tests.program import Program
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


@pytest.fixture
def typed(world: LoggedWorld, secvm: Program) -> Program:
    secvm.before, secvm.after = ("participant",), ("--folder", world.folder)
    return secvm


def test_evidence_is_told_in_words(world: LoggedWorld, typed: Program) -> None:
    assert typed("evidence") == 0
    assert SENTENCE in typed.out
    assert world.of.digest in typed.out
    (one,) = typed.json("evidence", world.of.digest[:8])["evidence"]
    assert (one["kind"], one["sentence"], one["number"]) == ("two-documents", SENTENCE, 1)


def test_export_warns_first_and_takes_no_for_an_answer(
    world: LoggedWorld, typed: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = world.folder.with_name("evidence.json")
    answers = iter([False, True])
    monkeypatch.setattr("typer.confirm", lambda *_, **__: next(answers))
    assert typed("evidence --export", file) == 2
    assert not file.exists()
    assert "mark" in typed.err
    assert typed("evidence --export", file) == 0
    assert examine(file.read_bytes()).sentence == SENTENCE


def test_where_nobody_can_answer_export_says_how_to_agree(
    world: LoggedWorld, typed: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = world.folder.with_name("evidence.json")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert typed("evidence --export", file) == 2
    assert "--yes" in typed.err
    assert typed("evidence --yes --export", file) == 0
    assert "secvm audit --evidence" in typed.out


def test_device_that_holds_nothing_says_so(tmp_path: Path, secvm: Program) -> None:
    world = LoggedWorld(tmp_path)
    world.joined().close()
    secvm.before, secvm.after = ("participant evidence",), ("--folder", world.folder)
    assert secvm() == 0
    assert "holds nothing" in secvm.out
    secvm.refused("--yes --export", tmp_path / "file")
    secvm.refused("--yes --number 3 --export", tmp_path / "file")


def test_inspect_tells_of_log_witnesses_and_evidence(typed: Program) -> None:
    assert typed("inspect") == 0
    for said in ("log.example/secvm/v2", "w0.example, w1.example, w2.example", "Lines of the log", "holds evidence"):
        assert said in typed.out
