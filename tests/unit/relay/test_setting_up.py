"""What a relay's operator makes once fits together, and secrets are shown to nobody."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from secvm.cli.main import run
from secvm.coordinator.settings import CoordinatorProgramSettings
from secvm.relay.settings import RelayServiceSettings
from secvm.runtime.disk.secret_files import read_secret, read_signing_key
from secvm.runtime.settings import read_settings, settings_text

GIVEN = ["--operator", "Example Foundation", "--url", "https://relay.example/r", "--coordinator", "https://c.example"]


@pytest.mark.parametrize("role", ["entry", "mix", "plain"])
def test_a_new_relay_is_served_as_it_is_and_the_others_are_told_what_they_need(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], role: str
) -> None:
    folder = tmp_path / "relay"
    assert run(["relay", "init", str(folder), "--role", role, *GIVEN, "--period", "60", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    settings = read_settings(folder / "relay.toml", RelayServiceSettings)
    assert (settings.role, settings.epochs.period_s, settings.relay.path) == (role, 60, "/r")
    assert settings.clients.address_header == "x-real-ip"
    assert settings.signing is not None
    assert read_signing_key(settings.signing.key_file).public.data.hex() == told["key"]
    token = read_secret(settings.gateway.token_file).strip()
    assert told["admitted"]["token_sha256"] == hashlib.sha256(token).hexdigest()
    assert token.decode() not in str(told)
    tables: dict[str, Any] = {
        "state": {"folder": "s"},
        "epochs": {"period_s": 60, "lead_s": 5},
        "relays": [told["admitted"]],
    }
    (tmp_path / "coordinator.toml").write_text(settings_text(tables))
    read_settings(tmp_path / "coordinator.toml", CoordinatorProgramSettings)
    assert run(["relay", "init", str(folder), "--role", role, *GIVEN]) == 2
    assert "already" in capsys.readouterr().err
    assert {path.name for path in folder.iterdir()} == {"relay.toml", "relay.key", "relay.token"}


def test_a_relay_whose_url_is_a_host_alone_has_the_usual_path(tmp_path: Path) -> None:
    given = [*GIVEN[:3], "https://relay.example", *GIVEN[4:]]
    assert run(["relay", "init", str(tmp_path / "r"), "--role", "mix", *given]) == 0
    made = read_settings(tmp_path / "r/relay.toml", RelayServiceSettings).relay
    assert (made.url, made.path) == ("https://relay.example/relay", "/relay")


def test_what_cannot_be_a_relay_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [*GIVEN[:3], "relay.example", *GIVEN[4:]]
    assert run(["relay", "init", str(tmp_path / "r"), "--role", "mix", *given]) == 2
    assert "this relay: relay." in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_a_credential_is_let_in_by_the_list_it_was_added_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("first", "second"):
        assert run(["relay", "token", "--out", str(tmp_path / name), "--allow-in", str(tmp_path / "list")]) == 0
        digest = hashlib.sha256(read_secret(tmp_path / name).strip()).hexdigest()
        assert digest in capsys.readouterr().out
        assert (tmp_path / "list").read_text().split()[-1] == digest
    assert len((tmp_path / "list").read_text().split()) == 2
    assert run(["relay", "token", "--out", str(tmp_path / "first")]) == 2
