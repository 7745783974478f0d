"""``protect-keys`` of every party: set, changed and taken away by command, and a wrong passphrase is one sentence."""

import hashlib
import io
import os
from pathlib import Path

import pytest

from secvm.crypto.locking import Cost, is_locked
from secvm.participant.storage.vault import Vault
from secvm.runtime.disk import secret_files
from tests.program import Program

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


def coordinator(folder: Path, secvm: Program) -> tuple[Path, list[Path]]:
    assert secvm("coordinator init", folder / "c") == 0
    return folder / "c/coordinator.toml", [folder / "c/state/signing.key", folder / "c/state/log.key"]


def relay(folder: Path, secvm: Program) -> tuple[Path, list[Path]]:
    assert secvm("relay key --out", folder / "relay.key") == 0
    token = secret(folder, "relay.token", "a-token-of-the-relay")
    settings = folder / "relay.toml"
    settings.write_text(
        "[listen]\nport = 0\n"
        f'[gateway]\nurl = "http://127.0.0.1:9"\ntoken_file = "{token}"\n'
        f'[epochs]\nperiod_s = 60\n[store]\npath = "{folder}/relay.db"\n[signing]\nkey_file = "{folder}/relay.key"\n',
        encoding="utf-8",
    )
    return settings, [folder / "relay.key", token]


def witness(folder: Path, secvm: Program) -> tuple[Path, list[Path]]:
    log = f"log.example {hashlib.sha256(b'a key').hexdigest()}"
    assert secvm("witness init", folder / "w", f"--name witness.example/w --log '{log}'") == 0
    return folder / "w/witness.toml", [folder / "w/witness.key"]


PARTIES = {"coordinator": coordinator, "relay": relay, "witness": witness}


@pytest.mark.parametrize("party", PARTIES)
def test_keys_are_put_under_a_passphrase_and_taken_out_again(party: str, tmp_path: Path, secvm: Program) -> None:
    settings, paths = PARTIES[party](tmp_path, secvm)
    secvm.secrets = (WORD, OTHER)
    before = [path.read_bytes() for path in paths]
    word, other = secret(tmp_path, "word", WORD), secret(tmp_path, "other", OTHER)
    command = (party, "protect-keys --config", settings)
    told = secvm.json(*command, "--new-passphrase-file", word, quiet=False)
    assert told == {"protected": True, "files": [str(one) for one in paths], "changed": [str(one) for one in paths]}
    assert all(is_locked(path.read_bytes()) for path in paths)
    # A service that has another one, or none, ends with 2 and one sentence.
    serve = (party, "serve --config", settings)
    assert "does not open" in secvm.refused(*serve, "--passphrase-file", other).splitlines()[0]
    assert "none was given" in secvm.refused(*serve).splitlines()[0]

    reading, writing = os.pipe()
    os.write(writing, OTHER.encode() + b"\n")
    os.close(writing)
    assert secvm(*command, "--passphrase-file", word, f"--new-passphrase-fd {reading}") == 0
    os.close(reading)
    assert secvm(*command, "--passphrase-file", word, "--remove") == 2
    assert secvm(*command, "--passphrase-file", other, "--remove") == 0
    assert [path.read_bytes() for path in paths] == before
    assert "already" not in secvm.out
    assert secvm(*command, "--remove") == 0
    assert "already" in secvm.out


def test_a_witness_tells_its_public_key_with_its_passphrase(tmp_path: Path, secvm: Program) -> None:
    settings, _ = witness(tmp_path, secvm)
    word = secret(tmp_path, "word", WORD)
    assert secvm("witness key --config", settings) == 0
    public = secvm.out
    assert secvm("witness protect-keys --config", settings, "--new-passphrase-file", word) == 0
    assert secvm("witness key --config", settings, "--passphrase-file", word) == 0
    assert secvm.out == public


def test_a_device_is_under_a_passphrase_by_command(tmp_path: Path, secvm: Program) -> None:
    folder, word = tmp_path / "device", secret(tmp_path, "word", WORD)
    with Vault(folder) as vault:
        vault.put("words", {"quokka": 1})
    settings = tmp_path / "device.toml"
    settings.write_text(f'[device]\nfolder = "{folder}"\n[relay]\nurls = ["http://127.0.0.1:9/relay"]\n')
    secvm.before = ("participant",)
    there, given = ("--folder", folder), ("--passphrase-file", word)
    assert secvm("protect-keys", *there, "--new-passphrase-file", word) == 0
    assert "none was given" in secvm.refused("show-vault", *there)
    assert secvm("label question --answer yes", *there, *given) == 0
    told = secvm.json("show-vault", *there, *given)
    assert (told["features"], told["labels"]) == ({"words": 1}, 1)
    # Whoever starts it without the passphrase is told so, and it does not run as nobody's device.
    assert "none was given" in secvm.refused("run --config", settings)
    assert secvm("protect-keys --remove", *there, *given) == 0
    assert secvm("show-vault", *there) == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--remove --new-passphrase-fd 3", "exclude each other"),
        ("--passphrase-fd 3 --passphrase-file x --remove", "exclude each other"),
        ("", "nobody is there to type"),
    ],
)
def test_options_that_make_no_sense_are_one_sentence(
    options: str, sentence: str, tmp_path: Path, secvm: Program
) -> None:
    settings, paths = witness(tmp_path, secvm)
    assert sentence in secvm.refused("witness protect-keys --config", settings, options)
    assert not is_locked(paths[0].read_bytes())


def test_no_command_takes_a_passphrase_as_an_argument(secvm: Program) -> None:
    for party in ("coordinator", "relay", "witness", "participant"):
        for verb in ("protect-keys", "run" if party == "participant" else "serve"):
            assert secvm(party, verb, "--help") == 0
            assert "--passphrase-file" in secvm.out
            assert "--passphrase " not in secvm.out


def test_a_new_admin_key_takes_the_place_of_the_old_one(tmp_path: Path, secvm: Program) -> None:
    settings, _ = coordinator(tmp_path, secvm)
    kept = tmp_path / "c/state/admin.sha256"
    before = kept.read_text()
    key = secvm.json("coordinator new-admin-key --config", settings)["admin_key"]
    assert len(bytes.fromhex(key)) == 32
    assert kept.read_text() == hashlib.sha256(key.encode()).hexdigest() + "\n" != before
    settings.write_text(settings.read_text().replace('folder = "state"', 'folder = "elsewhere"'))
    assert "no coordinator" in secvm.refused("coordinator new-admin-key --config", settings)


def test_a_passphrase_is_typed_twice_at_a_terminal(
    tmp_path: Path, secvm: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, paths = witness(tmp_path, secvm)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal())
    asked: list[dict[str, object]] = []

    def prompt(_text: str, **how: object) -> str:
        asked.append(how)
        return WORD

    monkeypatch.setattr("typer.prompt", prompt)
    assert secvm("witness protect-keys --config", settings) == 0
    assert secvm("witness protect-keys --remove --config", settings) == 0
    assert not is_locked(paths[0].read_bytes())
    assert [how.get("confirmation_prompt") for how in asked] == [True, None]
    assert all(how["hide_input"] and how["err"] for how in asked)
