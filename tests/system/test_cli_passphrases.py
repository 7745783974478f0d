"""``protect-keys`` of every party: set, changed and taken away by command, and a wrong passphrase is one sentence."""

import hashlib
import io
import json
import os
from pathlib import Path

import pytest

from secvm.cli.main import run
from secvm.crypto.locking import Cost, is_locked
from secvm.participant.storage.vault import Vault
from secvm.runtime.disk import secret_files

WORD, OTHER = "six words that nobody would guess", "and six others that are no better"


@pytest.fixture(autouse=True)
def _cheap_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guesses cost nothing here, and nobody sits at the terminal."""
    monkeypatch.setattr(secret_files.protect, "__kwdefaults__", {"cost": Cost(10)})
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)


def secret(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def coordinator(folder: Path) -> tuple[Path, list[Path]]:
    assert run(["coordinator", "init", str(folder / "c")]) == 0
    return folder / "c/coordinator.toml", [folder / "c/state/signing.key", folder / "c/state/log.key"]


def relay(folder: Path) -> tuple[Path, list[Path]]:
    assert run(["relay", "key", "--out", str(folder / "relay.key")]) == 0
    token = secret(folder, "relay.token", "a-token-of-the-relay")
    settings = folder / "relay.toml"
    settings.write_text(
        "[listen]\nport = 0\n"
        f'[gateway]\nurl = "http://127.0.0.1:9"\ntoken_file = "{token}"\n'
        f'[epochs]\nperiod_s = 60\n[store]\npath = "{folder}/relay.db"\n[signing]\nkey_file = "{folder}/relay.key"\n',
        encoding="utf-8",
    )
    return settings, [folder / "relay.key", token]


def witness(folder: Path) -> tuple[Path, list[Path]]:
    log = f"log.example {hashlib.sha256(b'a key').hexdigest()}"
    assert run(["witness", "init", str(folder / "w"), "--name", "witness.example/w", "--log", log]) == 0
    return folder / "w/witness.toml", [folder / "w/witness.key"]


PARTIES = {"coordinator": coordinator, "relay": relay, "witness": witness}


@pytest.mark.parametrize("party", PARTIES)
def test_keys_are_put_under_a_passphrase_and_taken_out_again(
    party: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, paths = PARTIES[party](tmp_path)
    before = [path.read_bytes() for path in paths]
    word, other = secret(tmp_path, "word", WORD), secret(tmp_path, "other", OTHER)
    command = [party, "protect-keys", "--config", str(settings)]
    capsys.readouterr()
    assert run([*command, "--new-passphrase-file", str(word), "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"protected": True, "files": [str(one) for one in paths], "changed": [str(one) for one in paths]}
    assert all(is_locked(path.read_bytes()) for path in paths)

    # A service that has another one, or none, ends with 2 and one sentence.
    for given, sentence in ((["--passphrase-file", str(other)], "does not open"), ([], "none was given")):
        assert run([party, "serve", "--config", str(settings), *given]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        first, *rest = said.err.splitlines()
        assert first.startswith("secvm: ")
        assert sentence in first
        assert len(rest) <= 1
        assert WORD not in said.err
        assert OTHER not in said.err

    reading, writing = os.pipe()
    os.write(writing, OTHER.encode() + b"\n")
    os.close(writing)
    change = ["--passphrase-file", str(word), "--new-passphrase-fd", str(reading)]
    assert run([*command, *change]) == 0
    os.close(reading)
    assert run([*command, "--passphrase-file", str(word), "--remove"]) == 2
    assert run([*command, "--passphrase-file", str(other), "--remove"]) == 0
    assert [path.read_bytes() for path in paths] == before
    assert "already" not in capsys.readouterr().out
    assert run([*command, "--remove"]) == 0
    assert "already" in capsys.readouterr().out


def test_a_witness_tells_its_public_key_with_its_passphrase(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, _ = witness(tmp_path)
    word = secret(tmp_path, "word", WORD)
    assert run(["witness", "key", "--config", str(settings)]) == 0
    public = capsys.readouterr().out.splitlines()[-1]
    assert run(["witness", "protect-keys", "--config", str(settings), "--new-passphrase-file", str(word)]) == 0
    capsys.readouterr()
    assert run(["witness", "key", "--config", str(settings), "--passphrase-file", str(word)]) == 0
    assert capsys.readouterr().out.strip() == public


def test_a_device_is_under_a_passphrase_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, word = tmp_path / "device", secret(tmp_path, "word", WORD)
    with Vault(folder) as vault:
        vault.put("words", {"quokka": 1})
    there, given = ["--folder", str(folder)], ["--passphrase-file", str(word)]
    assert run(["participant", "protect-keys", *there, "--new-passphrase-file", str(word)]) == 0
    capsys.readouterr()
    assert run(["participant", "show-vault", *there]) == 2
    assert "none was given" in capsys.readouterr().err
    assert run(["participant", "label", "question", "--answer", "yes", *there, *given]) == 0
    assert run(["participant", "show-vault", *there, *given, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"features": {"words": 1}, "labels": 1}
    settings = tmp_path / "device.toml"
    settings.write_text(f'[device]\nfolder = "{folder}"\n[relay]\nurls = ["http://127.0.0.1:9/relay"]\n')
    # Whoever starts it without the passphrase is told so, and it does not run as nobody's device.
    assert run(["participant", "run", "--config", str(settings)]) == 2
    assert "none was given" in capsys.readouterr().err
    assert run(["participant", "protect-keys", *there, *given, "--remove"]) == 0
    assert run(["participant", "show-vault", *there]) == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--remove", "--new-passphrase-fd", "3"], "exclude each other"),
        (["--passphrase-fd", "3", "--passphrase-file", "x", "--remove"], "exclude each other"),
        ([], "nobody is there to type"),
    ],
)
def test_options_that_make_no_sense_are_one_sentence(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, paths = witness(tmp_path)
    capsys.readouterr()
    assert run(["witness", "protect-keys", "--config", str(settings), *options]) == 2
    assert sentence in capsys.readouterr().err
    assert not is_locked(paths[0].read_bytes())


def test_no_command_takes_a_passphrase_as_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    for party in ("coordinator", "relay", "witness", "participant"):
        for verb in ("protect-keys", "run" if party == "participant" else "serve"):
            assert run([party, verb, "--help"]) == 0
            shown = capsys.readouterr().out
            assert "--passphrase-file" in shown
            assert "--passphrase " not in shown


def test_a_new_admin_key_takes_the_place_of_the_old_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, _ = coordinator(tmp_path)
    kept = tmp_path / "c/state/admin.sha256"
    before = kept.read_text()
    capsys.readouterr()
    assert run(["coordinator", "new-admin-key", "--config", str(settings), "--format", "json"]) == 0
    key = json.loads(capsys.readouterr().out)["admin_key"]
    assert len(bytes.fromhex(key)) == 32
    assert kept.read_text() == hashlib.sha256(key.encode()).hexdigest() + "\n" != before
    settings.write_text(settings.read_text().replace('folder = "state"', 'folder = "elsewhere"'))
    assert run(["coordinator", "new-admin-key", "--config", str(settings)]) == 2
    assert "no coordinator" in capsys.readouterr().err


def test_a_passphrase_is_typed_twice_at_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, paths = witness(tmp_path)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal())
    asked: list[dict[str, object]] = []

    def prompt(_text: str, **how: object) -> str:
        asked.append(how)
        return WORD

    monkeypatch.setattr("typer.prompt", prompt)
    assert run(["witness", "protect-keys", "--config", str(settings)]) == 0
    assert run(["witness", "protect-keys", "--config", str(settings), "--remove"]) == 0
    assert not is_locked(paths[0].read_bytes())
    assert [how.get("confirmation_prompt") for how in asked] == [True, None]
    assert all(how["hide_input"] and how["err"] for how in asked)
