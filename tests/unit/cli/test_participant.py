"""``secvm participant``: a yes to one digest, plain words, and nothing of the person on the terminal."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from secvm.cli.main import run
from secvm.cli.participant import _agrees
from secvm.crypto.signing import sign
from secvm.participant.person.disclosure import what_leaves
from secvm.participant.sending.transport import Transport
from secvm.participant.settings import ParticipantSettings
from secvm.participant.storage.state import DeviceState, Status
from secvm.participant.storage.vault import Vault
from secvm.protocol.canonical import digest_of, encode_document
from secvm.protocol.documents.experiment import FeaturesWanted
from secvm.protocol.version import EXPERIMENT_TYPE
from secvm.runtime.disk.secret_files import Passphrase
from tests.unit.participant.world import BUDGET, FEATURES, RELAY_URLS, SECRET, World
from tests.unit.protocol.helpers import COORDINATOR, document


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A device's settings beside it, and a network in memory."""
    world = World(tmp_path)
    world.fill()
    (tmp_path / "device.toml").write_text(
        f'[device]\nfolder = "{world.folder}"\n[relay]\nurls = {json.dumps(RELAY_URLS)}\n'
        "[trust]\nwithout_log = true\n"
        '[consent]\npolicy = "unsafe-accept-anything"\n'
    )

    def in_memory(_: ParticipantSettings, _passphrase: Passphrase) -> Transport:
        return world.net

    monkeypatch.setattr("secvm.participant.main.make_transport", in_memory)
    return world


def command(world: World, *arguments: str) -> int:
    return run(["participant", *arguments, "--config", str(world.folder.with_name("device.toml"))])


def status(world: World) -> Status | None:
    state = DeviceState(world.folder)
    record = state.record(world.of.digest)
    state.close()
    return None if record is None else record.status


def test_join_pause_resume_forget(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    digest = world.of.digest
    for arguments, expected in (
        (("join", digest, "--yes"), Status.JOINED),
        (("pause", digest), Status.PAUSED),
        (("resume", digest), Status.JOINED),
        (("forget", digest), Status.FORGOTTEN),
    ):
        assert command(world, *arguments) == 0
        assert status(world) is expected
    with Vault(world.folder) as vault:
        assert vault.label(digest) is None
        assert vault.features("words").value == FEATURES
    assert command(world, "join", digest, "--yes") == 2
    assert command(world, "resume", digest) == 2
    assert SECRET not in "".join(capsys.readouterr())


def test_experiment_without_a_log_is_joined_only_where_the_settings_say_so(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    config = world.folder.with_name("device.toml")
    config.write_text(config.read_text().replace("without_log = true", ""))
    assert command(world, "join", world.of.digest, "--yes") == 2
    assert "without_log = true" in capsys.readouterr().err
    assert status(world) is None


def test_once_joined_the_first_digits_name_an_experiment(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    digest = world.of.digest
    assert command(world, "join", digest, "--yes") == 0
    capsys.readouterr()
    assert command(world, "pause", digest[:6], "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == {"experiment": digest, "status": "paused"}
    other = "0000" if not digest.startswith("0000") else "1111"
    for wrong in (other, digest[:3], digest.upper()):
        assert command(world, "resume", wrong) == 2
        told = capsys.readouterr().err
        assert told.count("\n") <= 2
        assert "Traceback" not in told
    assert status(world) is Status.PAUSED


def test_where_nobody_can_answer_join_says_how_to_agree(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert command(world, "join", world.of.digest) == 2
    assert "--yes" in capsys.readouterr().err
    assert status(world) is None


def test_join_shows_what_it_means_and_takes_no_for_an_answer(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([False, True])
    monkeypatch.setattr("typer.confirm", lambda *_, **__: next(answers))
    assert command(world, "join", world.of.digest) == 0
    assert status(world) is Status.DECLINED
    shown = "".join(capsys.readouterr())
    for said in (world.of.title, f"exactly {BUDGET} sealed packages", "no formal guarantee", "Nothing was sent"):
        assert said in shown
    assert command(world, "join", world.of.digest) == 0
    assert status(world) is Status.JOINED


def test_repro_experiment_whose_text_repaints_the_consent_screen_is_refused_before_it_is_shown(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(world.of.data) | {"question": "Tea?\x1b[2J\x1b[H Nobody can learn your answer."}
    data = encode_document(content)
    digest = digest_of(data)
    world.net.files[f"/v1/experiment/{digest}"] = sign(data, purpose=EXPERIMENT_TYPE, keys=[COORDINATOR])
    assert command(world, "join", digest) == 2
    shown = "".join(capsys.readouterr())
    assert "question of the experiment has U+001B as character 5" in shown
    assert "Nobody can learn" not in shown


def test_repro_consent_screen_changes_no_terminal_whatever_it_is_given(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    evil = "\x1b[2J\x1b[H\x9b8m\u202e"
    of = document(
        title=f"title{evil}",
        question=f"question{evil}",
        experiment=replace(document().experiment, labels=(f"a{evil}", "b")),
        features=FeaturesWanted(source="words", description=f"description{evil}"),
    )
    assert not _agrees(of, what_leaves(of))
    shown = capsys.readouterr().err
    for text in ("title", "question", "(a", "description"):
        assert f"{text}?[2J?[H?8m?" in shown
    assert not {"\x1b", "\x9b", "\u202e"} & set(shown)


def test_join_refuses_what_is_not_the_experiment_that_was_named(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "0" * 64
    assert command(world, "join", other, "--yes") == 2
    assert "nobody answers" in capsys.readouterr().err
    world.net.files["/v1/experiments"] = b"{}"
    assert command(world, "join", other, "--yes") == 2
    world.net.files[f"/v1/experiment/{other}"] = world.net.files[f"/v1/experiment/{world.of.digest}"]
    assert command(world, "join", other, "--yes") == 2
    assert command(world, "join", "a word", "--yes") == 2
    said = capsys.readouterr().err
    assert "knows none of this digest" in said
    assert "another experiment" in said
    assert "64 hexadecimal digits" in said
    assert status(world) is None


@pytest.mark.parametrize("answer", [None, "neither"])
def test_whoever_has_not_answered_yet_is_told_the_labels(
    world: World, capsys: pytest.CaptureFixture[str], answer: str | None
) -> None:
    with Vault(world.folder) as vault:
        vault.forget_label(world.of.digest)
        if answer is not None:
            vault.set_label(world.of.digest, answer)
    assert command(world, "join", world.of.digest, "--yes") == 2
    said = capsys.readouterr().err
    assert f"whose labels are: {', '.join(world.of.experiment.labels)}" in said
    assert f"secvm participant label {world.of.digest}" in said
    assert "neither" not in said


def test_every_decision_can_be_had_as_json(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    digest = world.of.digest
    assert command(world, "join", digest, "--yes", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == {"joined": True}
    for act, expected in (("pause", "paused"), ("resume", "joined"), ("forget", "forgotten")):
        assert command(world, act, digest, "--format", "json") == 0
        assert json.loads(capsys.readouterr().out) == {"experiment": digest, "status": expected}


def test_inspect_tells_in_words_and_as_json(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(world, "inspect") == 2
    assert command(world, "join", world.of.digest, "--yes") == 0
    capsys.readouterr()
    assert command(world, "inspect") == 0
    text = capsys.readouterr().out
    assert world.of.title in text
    assert "Nothing waits to be sent." in text
    assert "It does not run now" in text
    assert command(world, "inspect", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found[world.of.digest]["status"] == "joined"
    assert SECRET not in text + json.dumps(found)


def test_predict_without_a_model_is_one_sentence(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(world, "join", world.of.digest, "--yes") == 0
    assert command(world, "predict", world.of.digest) == 2
    assert "no model" in capsys.readouterr().err


def test_folder_and_settings_exclude_each_other(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(world, "join", world.of.digest, "--yes") == 0
    assert command(world, "inspect", "--folder", str(world.folder)) == 2
    assert run(["participant", "inspect", "--folder", str(world.folder)]) == 0
    assert run(["participant", "inspect", "--folder", str(world.folder / "nowhere")]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_join_refuses_what_tells_too_much_and_says_how_to_accept_it(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    config = world.folder.with_name("device.toml")
    config.write_text(config.read_text().replace('policy = "unsafe-accept-anything"', "most_rounds = 1000"))
    assert command(world, "join", world.of.digest, "--yes") == 2
    complaint = capsys.readouterr().err
    assert "no formal guarantee" in complaint
    assert "--accept-leakage 1.000" in complaint
    assert status(world) is None
    assert command(world, "join", world.of.digest, "--yes", "--accept-leakage", "1") == 0
    assert status(world) is Status.JOINED
    assert command(world, "inspect", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["ledger"]["experiments"] == []
    assert found[world.of.digest]["statement"]["formal"] is False


def test_person_is_shown_the_statement_before_being_asked(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert command(world, "join", world.of.digest) == 0
    shown = capsys.readouterr().err
    assert "There is no formal guarantee" in shown
    assert "nobody has to work together" in shown
    assert "chooses the weights, by making tallies up, can tell your label with an AUC of 1.00" in shown
    assert status(world) is Status.DECLINED
