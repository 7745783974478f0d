"""Setting a witness up: key and memory are made together, and settings that are wrong are one sentence."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from secvm.cli.main import run
from secvm.crypto.notes import NoteKey, SignatureKind
from secvm.errors import BadInputError
from secvm.runtime.disk.secret_files import read_signing_key
from secvm.runtime.settings import read_settings
from secvm.witness.decision import KnownLog
from secvm.witness.main import initialise, make
from secvm.witness.settings import WitnessSettings
from tests.rigs.shown_settings import check_shown, check_units, shown_toml, written
from tests.unit.witness.worlds import LOG, LOG_NAME, ORIGIN, OTHER, Place

COUNTED = {"port", "per_address", "connections", "waiting"}
LOG_TOLD = f"{LOG_NAME} {LOG.public.data.hex()}"


def test_init_makes_a_witness_that_can_be_run_and_tells_its_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "w"
    arguments = ["witness", "init", str(folder), "--name", "witness.example/w1", "--log", LOG_TOLD]
    assert run([*arguments, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    public = NoteKey.from_text(told["vkey"])
    assert (public.name, public.kind) == ("witness.example/w1", SignatureKind.COSIGNATURE)
    settings = read_settings(Path(told["settings"]), WitnessSettings)
    assert public.key == read_signing_key(settings.witness.key_file).public
    assert told["key"] == public.key.data.hex()
    assert {file.name: file.stat().st_mode & 0o077 for file in folder.glob("witness.[kd]*")} == {
        "witness.key": 0,
        "witness.db": 0,
    }
    assert [(log.name, log.key) for log in settings.logs] == [(LOG_NAME, LOG.public.data.hex())]
    assert run(["witness", "key", "--config", told["settings"]]) == 0
    assert capsys.readouterr().out == told["vkey"] + "\n"
    assert run(arguments) == 2
    assert "already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("with space", LOG_TOLD),
        ("w", LOG_NAME),
        ("w", f"{LOG_NAME} 00"),
        # A key that anybody can sign for.
        ("w", f"{LOG_NAME} {bytes(32).hex()}"),
        ("w", LOG_TOLD + " x"),
        ("w", "A " + "0" * 64),
        ("w", NoteKey("log", LOG.public, SignatureKind.COSIGNATURE).to_text()),
        ("w", NoteKey("log", LOG.public).to_text()[:-4]),
    ],
)
def test_init_makes_nothing_of_what_is_wrong(tmp_path: Path, name: str, log: str) -> None:
    with pytest.raises(BadInputError):
        initialise(tmp_path / "w", name=name, logs=[log])
    assert not (tmp_path / "w").exists()


def test_any_log_is_known_by_its_key_as_c2sp_writes_it(tmp_path: Path) -> None:
    key = NoteKey("log.elsewhere.example/2026", LOG.public)
    # Every letter that a name may have is written so that it is read again.
    name = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) != "+")
    assert initialise(tmp_path / "w", name=name, logs=[key.to_text(), LOG_TOLD]).name == name
    settings = read_settings(tmp_path / "w/witness.toml", WitnessSettings)
    logs = (KnownLog(key.name, key), KnownLog.of_coordinator(LOG_NAME, LOG.public))
    assert settings.known_logs() == {log.origin: log for log in logs}


def test_a_list_of_logs_is_read_beside_those_of_the_settings(tmp_path: Path) -> None:
    key = NoteKey("log.elsewhere.example/2026", LOG.public)
    file = tmp_path / "logs.txt"
    told = f"logs/v0\nvkey {key.to_text()}\nqpd 24\ncontact x\n"
    place = Place(tmp_path)
    file.write_text(told, encoding="utf-8")
    settings = read_settings(place.settings_file(witness={"log_list": file}), WitnessSettings)
    assert settings.known_logs()[key.name] == KnownLog(key.name, key)
    assert len(settings.known_logs()) == 1 + len(settings.logs)
    other = NoteKey(ORIGIN, OTHER.public)
    file.write_text(told.replace(key.to_text(), other.to_text()), encoding="utf-8")
    with pytest.raises(BadInputError, match="one key in the settings and another in the list"):
        settings.known_logs()
    file.unlink()
    with pytest.raises(BadInputError, match="cannot read"):
        settings.known_logs()


def test_a_witness_without_logs_is_told_what_is_missing(tmp_path: Path) -> None:
    path = Place(tmp_path).settings_file()
    path.write_text(path.read_text(encoding="utf-8").partition("[[logs]]")[0], encoding="utf-8")
    with pytest.raises(BadInputError, match="logs is missing: name one under"):
        read_settings(path, WitnessSettings)


def test_a_key_never_gets_a_new_memory(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert make(place.settings_file()) == place.key
    (tmp_path / "store.db").unlink()
    with pytest.raises(BadInputError, match=r"the key .* is there, but not the store") as raised:
        make(place.settings_file())
    assert "retire it" in str(raised.value.next_step)
    assert not (tmp_path / "store.db").exists()


def test_a_memory_may_get_a_new_key(tmp_path: Path) -> None:
    place = Place(tmp_path)
    before = (tmp_path / "store.db").read_bytes()
    (tmp_path / "key").unlink()
    assert make(place.settings_file()) != place.key
    assert (tmp_path / "store.db").read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"witness": {"name": "a+b"}}, "witness.name"),
        ({"[logs]": {"key": "xyz"}}, "logs.0 should have a name and a key in hexadecimal"),
        ({"[logs]": {"key": bytes(32).hex()}}, "and one that only the log can sign for"),
        ({"[logs]": {"key": NoteKey("x", LOG.public).to_text()}}, "or a key written origin+id+key alone"),
        ({"[logs]": {"name": "Https://x"}}, "logs.0.name"),
        ({"limits": {"waiting": 0}}, "limits.waiting"),
        ({"limits": {"orgins": 7}}, "limits.orgins is not a setting"),
    ],
)
def test_a_wrong_setting_is_one_sentence(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    path = Place(tmp_path).settings_file(**changes)
    with pytest.raises(BadInputError) as raised:
        read_settings(path, WitnessSettings)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_file_in_the_how_to_is_read_and_shows_every_setting_with_its_default(tmp_path: Path) -> None:
    shown = shown_toml("run-a-witness.md")
    read = read_settings(written(tmp_path, shown), WitnessSettings)
    check_shown(read, shown, set(WitnessSettings.model_fields) - {"testing"})
    check_units(WitnessSettings, COUNTED)


def test_a_log_stands_there_once(tmp_path: Path) -> None:
    path = Place(tmp_path).settings_file()
    text = path.read_text(encoding="utf-8")
    again = re.search(r"^\[\[logs\]\]\n.*\n.*\n", text, re.MULTILINE)
    assert again is not None
    path.write_text(text + again[0], encoding="utf-8")
    assert len(tomllib.loads(path.read_text(encoding="utf-8"))["logs"]) == len(tomllib.loads(text)["logs"]) + 1
    with pytest.raises(BadInputError, match="twice"):
        read_settings(path, WitnessSettings)


def test_serve_without_a_store_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path)
    (tmp_path / "store.db").unlink()
    assert run(["witness", "serve", "--config", str(place.settings_file())]) == 2
    said = capsys.readouterr().err
    assert "there is no witness's store" in said
    assert "retire the key" in said
