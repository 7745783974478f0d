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
from secvm.runtime.settings import Settings, read_settings
from secvm.witness.main import initialise, make, read_key
from secvm.witness.settings import WitnessSettings
from tests.unit.witness.worlds import LOG, LOG_NAME, Place

HOW_TO = Path(__file__).resolve().parents[3] / "docs/how-to/run-a-witness.md"
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
    assert public.key == read_key(settings.witness.key_file).public
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
    ],
)
def test_init_makes_nothing_of_what_is_wrong(tmp_path: Path, name: str, log: str) -> None:
    with pytest.raises(BadInputError):
        initialise(tmp_path / "w", name=name, logs=[log])
    assert not (tmp_path / "w").exists()


def test_names_with_every_letter_that_is_allowed_are_written_so_that_they_can_be_read(tmp_path: Path) -> None:
    name = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) != "+")
    assert initialise(tmp_path / "w", name=name, logs=[LOG_TOLD]).name == name


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
        ({"[logs]": {"key": "xyz"}}, "logs.0.key"),
        ({"[logs]": {"key": bytes(32).hex()}}, "logs.0.key should be a key that only the log can sign for"),
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


def table_kind(kind: Any) -> type[Settings]:
    kinds = [kind, *getattr(kind, "__args__", ())]
    return next(one for one in kinds if isinstance(one, type) and issubclass(one, Settings))


def test_the_file_in_the_how_to_is_read_and_shows_every_setting_with_its_default(tmp_path: Path) -> None:
    found = re.search(r"^```toml\n(.*?)^```$", HOW_TO.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert found is not None
    (tmp_path / "witness.toml").write_text(found[1], encoding="utf-8")
    read = read_settings(tmp_path / "witness.toml", WitnessSettings)
    for name, field in WitnessSettings.model_fields.items():
        for key, inner in table_kind(field.annotation).model_fields.items():
            if inner.annotation in {int, float} and not key.endswith(("_s", "_ms", "_bytes")):
                assert key in COUNTED, key
            if name == "testing":
                continue
            assert re.search(rf"^{key} = ", found[1], re.MULTILINE), key
            if not inner.is_required():
                assert getattr(getattr(read, name), key) == inner.default, key


def test_a_log_stands_there_once(tmp_path: Path) -> None:
    path = Place(tmp_path).settings_file()
    text = path.read_text(encoding="utf-8")
    again = re.search(r"^\[\[logs\]\]\n.*\n.*\n", text, re.MULTILINE)
    assert again is not None
    path.write_text(text + again[0], encoding="utf-8")
    assert len(tomllib.loads(path.read_text(encoding="utf-8"))["logs"]) == len(tomllib.loads(text)["logs"]) + 1
    with pytest.raises(BadInputError, match="twice"):
        read_settings(path, WitnessSettings)


def test_a_file_that_is_no_key_is_refused_and_not_quoted(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (tmp_path / "key").write_bytes(b"not a key but long enough")
    with pytest.raises(BadInputError, match="no signing key") as raised:
        make(place.settings_file())
    assert "long enough" not in str(raised.value)


def test_serve_without_a_store_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path)
    (tmp_path / "store.db").unlink()
    assert run(["witness", "serve", "--config", str(place.settings_file())]) == 2
    said = capsys.readouterr().err
    assert "there is no witness's store" in said
    assert "retire the key" in said
