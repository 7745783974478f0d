"""``secvm participant ui``: prints one address, ends when it should, and takes the passphrase as all commands do."""

import json
import os
import re
from pathlib import Path

import pytest

from secvm.cli.main import run
from secvm.crypto.locking import Cost
from secvm.participant.storage.passphrase import protect_device
from secvm.runtime.disk.secret_files import Passphrase
from tests.unit.participant.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.joined().close()
    (tmp_path / "device.toml").write_text(
        f'[device]\nfolder = "{world.folder}"\n[relay]\nurls = ["https://relay.example/r"]\n'
    )
    return world


def ui(world: World, *arguments: str) -> int:
    return run(["participant", "ui", "--minutes", "0", *arguments])


def test_address_is_printed_once_and_is_new_each_time(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    addresses = []
    for where in (("--config", str(world.folder.with_name("device.toml"))), ("--folder", str(world.folder))):
        assert ui(world, *where, "--format", "json") == 0
        out, err = capsys.readouterr()
        addresses.append(json.loads(out)["page"])
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[A-Za-z0-9_-]{43}/", addresses[-1])
        assert addresses[-1].split("/")[3] not in err
    assert addresses[0] != addresses[1]
    assert ui(world, "--folder", str(world.folder)) == 0
    assert "Keep the address to yourself" in capsys.readouterr().out


def test_open_gives_the_browser_a_file_and_removes_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("secvm.participant.ui.guard.webbrowser.open", opened.append)
    assert ui(world, "--folder", str(world.folder), "--open") == 0
    assert opened == [(world.folder / "open-page.html").as_uri()]
    assert not (world.folder / "open-page.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--listen", "0.0.0.0:0"), "this machine only"),
        (("--config", "nowhere.toml"), "exclude"),
    ],
)
def test_bad_input_is_one_sentence(
    world: World, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert ui(world, "--folder", str(world.folder), *arguments) == 2
    assert said in capsys.readouterr().err


def test_where_there_is_no_device_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["participant", "ui", "--folder", str(tmp_path / "nothing")]) == 2
    assert "no device" in capsys.readouterr().err


def test_locked_device_wants_its_passphrase(world: World, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    word = tmp_path / "word"
    word.write_text("a long enough passphrase")
    word.chmod(0o600)
    cost = Cost(log2_n=10)
    new = Passphrase(lambda: b"a long enough passphrase")
    protect_device(world.folder, None, old=None, new=new, dice=os.urandom, cost=cost)
    assert ui(world, "--folder", str(world.folder)) == 2
    assert ui(world, "--folder", str(world.folder), "--passphrase-file", str(word)) == 0
    assert "long enough" not in "".join(capsys.readouterr())


def test_settings_of_many_made_up_people_show_no_page(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    config = world.folder.with_name("device.toml")
    config.write_text(config.read_text() + '[testing]\npeople = "people.jsonl"\n')
    assert ui(world, "--config", str(config)) == 2
    assert "--folder" in capsys.readouterr().err
