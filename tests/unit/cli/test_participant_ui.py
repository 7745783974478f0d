"""``secvm participant ui``: prints one address, ends when it should, and takes the passphrase as all commands do."""

import os
import re
from pathlib import Path

import pytest

from secvm.crypto.locking import Cost
from secvm.participant.storage.passphrase import protect_device
from secvm.runtime.disk.secret_files import Passphrase
from tests.program import Program
from tests.unit.participant.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.joined().close()
    (tmp_path / "device.toml").write_text(
        f'[device]\nfolder = "{world.folder}"\n[relay]\nurls = ["https://relay.example/r"]\n'
    )
    return world


@pytest.fixture
def page(secvm: Program) -> Program:
    secvm.before = ("participant ui --minutes 0",)
    return secvm


def test_address_is_printed_once_and_is_new_each_time(world: World, page: Program) -> None:
    addresses = []
    for where in (("--config", world.folder.with_name("device.toml")), ("--folder", world.folder)):
        addresses.append(page.json(*where, quiet=False)["page"])
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[A-Za-z0-9_-]{43}/", addresses[-1])
        assert addresses[-1].split("/")[3] not in page.err
    assert addresses[0] != addresses[1]
    assert page("--folder", world.folder) == 0
    assert "Keep the address to yourself" in page.out


def test_open_gives_the_browser_a_file_and_removes_it(
    world: World, page: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("secvm.participant.ui.guard.webbrowser.open", opened.append)
    assert page("--open --folder", world.folder) == 0
    assert opened == [(world.folder / "open-page.html").as_uri()]
    assert not (world.folder / "open-page.html").exists()


def test_bad_input_is_one_sentence(world: World, page: Program, tmp_path: Path) -> None:
    assert "this machine only" in page.refused("--listen 0.0.0.0:0 --folder", world.folder)
    assert "exclude" in page.refused("--config nowhere.toml --folder", world.folder)
    assert "no device" in page.refused("--folder", tmp_path / "nothing")


def test_locked_device_wants_its_passphrase(world: World, page: Program, tmp_path: Path) -> None:
    word = tmp_path / "word"
    word.write_text("a long enough passphrase")
    word.chmod(0o600)
    page.secrets = ("long enough",)
    new = Passphrase(lambda: b"a long enough passphrase")
    protect_device(world.folder, None, old=None, new=new, dice=os.urandom, cost=Cost(log2_n=10))
    page.refused("--folder", world.folder)
    assert page("--folder", world.folder, "--passphrase-file", word) == 0
    assert "long enough" not in page.said


def test_settings_of_many_made_up_people_show_no_page(world: World, page: Program) -> None:
    config = world.folder.with_name("device.toml")
    config.write_text(config.read_text() + '[testing]\npeople = "people.jsonl"\n')
    assert "--folder" in page.refused("--config", config)
