"""``secvm participant init``: settings from an invite; and one rule for where a device lies, in all its commands."""

import io
import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from secvm.participant.invitation import invitations
from secvm.participant.settings import ParticipantSettings
from secvm.participant.storage.state import DeviceState, Status
from secvm.participant.storage.vault import Vault
from secvm.participant.trust.trust_policy import TrustedRelay
from secvm.protocol.documents.experiment import publish
from secvm.protocol.invite import Invite
from secvm.runtime.disk.process_lock import FILE as LOCK
from secvm.runtime.disk.process_lock import is_carried, only_one
from secvm.runtime.settings import read_settings
from secvm_lab.rigs.histories.relayed_rounds import COORDINATOR, relayed_document
from tests.program import Program
from tests.there import there
from tests.unit.participant.world import FEATURES, World, real_document

ASKED = real_document(operator="Uni", contact="study@uni.example", purpose="To see whether words tell.")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A network in memory, and a home in which nobody has a device yet."""
    world = World(tmp_path, ASKED)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("secvm.participant.main.make_transport", lambda *_: world.net)
    return world


@pytest.fixture
def typed(secvm: Program) -> Program:
    secvm.before = ("participant",)
    return secvm


@pytest.fixture
def device(tmp_path: Path) -> Path:
    return tmp_path / "home/.local/share/secvm"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_settings_name_the_two_relays_of_the_invite_and_trust_no_other(
    world: World, typed: Program, device: Path
) -> None:
    of = relayed_document(operator="Uni", contact="study@uni.example", purpose="To see.")
    world.net.files[f"/v1/experiment/{of.digest}"] = publish(of, keys=(COORDINATOR,))
    assert typed(f"init {Invite.of(of).to_text()}") == 0
    lines = typed.out.splitlines()
    assert lines[:3] == [of.title, "Asked by Uni. Contact: study@uni.example", "Purpose: To see."]
    for said in (
        "entry.example (Entry e.V.)",
        "mix.example (Mix Ltd.)",
        "Whoever invited you",
        "participant ui --open",
    ):
        assert said in typed.out
    settings = read_settings(device / "participant.toml", ParticipantSettings)
    assert settings.device.folder == device
    assert there(settings.relay).urls == ("https://entry.example/",)
    assert settings.policy().relays == tuple(TrustedRelay(url=r.url, key=r.key, operator=r.operator) for r in of.relays)
    assert settings.testing is None
    assert (mode(device), mode(device / "participant.toml")) == (0o700, 0o600)
    assert list(invitations(device)) == [of.digest]
    assert not (device / "state.sqlite").exists()


def test_invite_comes_in_a_file_too_and_a_test_makes_a_device_for_tests(
    world: World, typed: Program, tmp_path: Path
) -> None:
    of = replace(ASKED, test=True)
    world.serve(of)
    (tmp_path / "invite.txt").write_text(Invite.of(of).to_text() + "\n")
    assert typed("init", tmp_path / "invite.txt", "--folder", tmp_path / "other") == 0
    assert "for made-up data" in typed.out
    assert f"ui --open --folder {tmp_path / 'other'}" in typed.out
    assert read_settings(tmp_path / "other/participant.toml", ParticipantSettings).only_tests


def test_init_brings_in_a_file_of_ones_own_or_says_how(
    world: World, typed: Program, device: Path, tmp_path: Path
) -> None:
    words = tmp_path / "words.csv"
    words.write_text("kettle\nrain\n")
    line = Invite.of(ASKED).to_text()
    missing = tmp_path / "nowhere.csv"
    assert "nowhere.csv" in typed.refused(f"init {line} --from", missing)
    assert not device.exists()
    assert typed(f"init {line}") == 0
    assert "\nsecvm participant import csv FILE --as words\n" in typed.out
    assert typed(f"init {line} --from", words) == 0
    assert f"2 features of {words} are in the vault as “words”." in typed.out
    with Vault(device) as vault:
        assert set(vault.features("words").value) == {"kettle", "rain"}


def test_second_invite_keeps_the_settings_and_one_over_other_relays_is_refused(
    world: World, typed: Program, device: Path
) -> None:
    second = replace(ASKED, title="Another")
    world.serve(second)
    assert typed(f"init {Invite.of(ASKED).to_text()}") == 0
    before = (device / "participant.toml").read_bytes()
    assert typed(f"init {Invite.of(second).to_text()}") == 0
    assert set(invitations(device)) == {ASKED.digest, second.digest}
    assert "--folder" in typed.refused(f"init {Invite('https://elsewhere.example/r', ASKED.digest).to_text()}")
    assert (device / "participant.toml").read_bytes() == before


def test_what_cannot_be_fetched_or_is_no_invite_leaves_nothing_behind(
    world: World, typed: Program, device: Path
) -> None:
    unknown = Invite.of(ASKED)._replace(digest="0" * 64)
    assert "nobody answers" in typed.refused(f"init {unknown.to_text()}")
    world.net.refused_with = 401
    assert "credential" in typed.refused(f"init {unknown.to_text()}")
    world.net.files[f"/v1/experiment/{unknown.digest}"] = world.net.files[f"/v1/experiment/{ASKED.digest}"]
    assert "another experiment" in typed.refused(f"init {unknown.to_text()}")
    assert "no invite" in typed.refused("init secvm:https://relay.example")
    assert "neither an invite nor a file" in typed.refused("init nowhere")
    assert not device.exists()


def test_without_an_invite_there_is_an_empty_device(world: World, typed: Program, device: Path) -> None:
    assert typed("init") == 0
    assert mode(device) == 0o700
    assert typed("inspect") == 0
    assert typed.out == "You have joined nothing yet.\n"
    for command in ("run", "join"):
        assert "participant init INVITE" in typed.refused(command)


@pytest.mark.parametrize("named", ["", "--folder {0}", "--config {0}/participant.toml"])
def test_every_command_looks_into_the_same_vault(
    world: World, typed: Program, device: Path, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, where = Invite.of(ASKED).to_text(), named.format(device)
    assert typed(f"init {line}", "" if not named else f"--folder {device}") == 0
    settings = device / "participant.toml"
    settings.write_text(
        settings.read_text() + '[trust]\nwithout_log = true\n[consent]\npolicy = "unsafe-accept-anything"\n'
    )
    words = device.parent / "words.csv"
    words.write_text("\n".join(FEATURES))
    assert typed("import csv", words, "--as words", where) == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("b\n"))
    assert typed(f"label {ASKED.digest}", where) == 0
    shown = typed.json("show-vault", where)
    assert (shown["features"], shown["labels"]) == ({"words": len(FEATURES)}, 1)
    # Whoever was invited to one experiment need not name it.
    assert typed("join --yes", where) == 0
    assert typed.out.splitlines()[0].endswith(f"secvm participant run {where}".rstrip())
    assert typed.json("inspect", where)[ASKED.digest]["status"] == "joined"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_join_says_who_asks_and_what_it_means_in_short_and_asks_for_the_label(
    world: World, typed: Program, device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert typed(f"init {Invite.of(ASKED).to_text()}") == 0
    settings = device / "participant.toml"
    settings.write_text(settings.read_text() + "[trust]\nwithout_log = true\n")
    with Vault(device) as vault:
        vault.put("words", FEATURES)
    answers, asked = iter(["y", "neither", "y", "b"]), []

    def answer(question: str, **_how: object) -> str:
        asked.append(question)
        return next(answers)

    monkeypatch.setattr("sys.stdin", _Terminal())
    monkeypatch.setattr("typer.prompt", answer)
    # A word that is no label is not kept; and the person is asked again.
    assert typed("join --accept-leakage 1") == 2
    with Vault(device) as vault:
        assert vault.label(ASKED.digest) is None
    assert typed(f"join {ASKED.digest[:6]} --accept-leakage 1") == 0
    assert typed.err.splitlines()[:2] == [ASKED.title, "Asked by Uni. Contact: study@uni.example"]
    assert typed.err.count("\n- ") == 6
    assert "Whoever invited you chose" in typed.err
    assert "[y/N, d: read everything]" in asked[0]
    assert asked[-1] == f"Your own answer, {', '.join(ASKED.experiment.labels)} (not shown)"
    with Vault(device) as vault:
        assert there(vault.label(ASKED.digest)).value == "b"


def test_forget_shows_the_title_and_asks(world: World, typed: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    world.joined().close()
    typed.after = ("--folder", world.folder)
    forget = f"forget {ASKED.digest[:6]}"
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert typed(forget) == 2
    assert f"Leave “{ASKED.title}” for good?" in typed.err
    assert "--yes" in typed.err
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert typed(forget) == 2
    with closing(DeviceState(world.folder)) as state:
        assert there(state.record(ASKED.digest)).status is Status.JOINED
    assert typed(f"{forget} --yes") == 0
    assert f"“{ASKED.title}”" in typed.out


def test_label_without_a_terminal_is_the_first_line_and_none_is_one_sentence(
    world: World, typed: Program, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "--answer" in typed.refused("label question")
    assert not recwarn.list


def test_repro_a_device_among_those_of_a_host_was_said_not_to_run(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("000000", "000007", "000008", "else")]
    for folder in folders:
        folder.mkdir()
    with only_one(tmp_path / "000000.lock", "device"):
        assert [is_carried(folder) for folder in folders] == [True, True, True, False]
        # Another host, which does not run now, carries those from the eighth on.
        os.close(os.open(tmp_path / "000008.lock", os.O_CREAT | os.O_RDWR))
        assert [is_carried(folder) for folder in folders] == [True, True, False, False]
    with only_one(folders[3] / LOCK, "device"):
        assert [is_carried(folder) for folder in folders] == [False, False, False, True]
