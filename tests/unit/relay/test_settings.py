"""The relay's settings file: what is shown works, what is wrong is one sentence, and secrets stay secret."""

from __future__ import annotations

import hashlib
import io
import os
import re
from pathlib import Path
from typing import Any

import pytest

from secvm.cli.main import run
from secvm.crypto.sealing.capsules import MAX_CAPSULE_BYTES
from secvm.crypto.signing import SigningKey
from secvm.errors import BadInputError
from secvm.relay.main import RelayService
from secvm.relay.settings import CoordinatorPart, RelayLimits, RelayServiceSettings
from secvm.runtime.clock import SteeredClock
from secvm.runtime.disk.secret_files import read_signing_key
from secvm.runtime.settings import read_settings
from tests.rigs.shown_settings import check_shown, check_units, shown_toml, written
from tests.unit.relay.helpers import Place

COUNTED = {
    *("port", "quota", "network_quota", "fetches", "connections", "per_address", "clients", "capsules", "waiting"),
    *("forwards", "cells", "packages", "seconds_per_million", "threads"),
}
#: Tables of a role in rounds: shown in a file of their own, since no relay has those and a store.
OF_ROUNDS = {"rounds", "coordinators"}
GIVEN_ANYWAY = {"url", "token_file", "credentials_file", "address_header", "deposit_after_s"}


def test_the_files_in_the_how_to_are_read_and_show_every_setting_with_its_default(tmp_path: Path) -> None:
    every = set(RelayServiceSettings.model_fields) - {"testing"}
    for number, tables in enumerate((every - OF_ROUNDS, {"rounds"})):
        shown = shown_toml("run-a-relay.md", number)
        read = read_settings(written(tmp_path, shown), RelayServiceSettings)
        check_shown(read, shown, tables, GIVEN_ANYWAY)
    assert set(CoordinatorPart.model_fields) == {"url", "token_file"}, "required, so the file above has them"
    check_units(RelayServiceSettings, COUNTED)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("[rounds]", '[store]\npath = "relay.db"\n[rounds]', "holds packages (store) or has a role (rounds), not both"),
        ('[signing]\nkey_file = "/etc/secvm/relay.key"', "", "a role in rounds needs signing.key_file"),
        ('url = "https://entry.example/relay"', "", "relay.url"),
        ('role = "entry"', 'role = "both"', "rounds.role should be 'entry' or 'mix'"),
        ("[[coordinators]]", "[[coordinator]]", "coordinator"),
    ],
)
def test_a_role_in_rounds_asks_for_what_it_needs(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    text = shown_toml("run-a-relay.md", 1)
    assert text.count(old) == 1
    with pytest.raises(BadInputError, match=re.escape(sentence)):
        read_settings(written(tmp_path, text.replace(old, new)), RelayServiceSettings)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"relay": {"mode": "round"}}, "relay.mode is not a setting"),
        ({"relay": {"path": "/relay/"}}, "relay.path"),
        ({"relay": {"quato": 3}}, "relay.quato is not a setting"),
        ({"gateway": {"url": "coordinator.example"}}, "gateway.url"),
        ({"gateway": {"url": "http://me:secret@coordinator.example"}}, "gateway.url"),
        ({"epochs": {"deposit_after_s": 61}}, "deposit_after_s lies within the period"),
        ({"clients": {"quota": 0}}, "clients.quota"),
        ({"clients": {"known_by": "credential"}}, "clients known by credential need clients.credentials_file"),
        ({"limits": {"capsule_bytes": 20_000}}, "limits.capsule_bytes"),
    ],
)
def test_a_wrong_setting_is_one_sentence(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    path = Place(tmp_path).settings_file("http://127.0.0.1:1", **changes)
    with pytest.raises(BadInputError) as raised:
        read_settings(path, RelayServiceSettings)
    assert sentence in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("missing", ["token_file", "signing"])
def test_a_relay_that_holds_packages_asks_for_what_it_needs(tmp_path: Path, missing: str) -> None:
    path = Place(tmp_path).settings_file("http://127.0.0.1:1")
    text = path.read_text(encoding="utf-8")
    text = re.sub(rf"^{missing} = .*$|^\[{missing}\]\n.*$", "", text, flags=re.MULTILINE)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInputError, match=missing):
        read_settings(path, RelayServiceSettings)


def relay_of(place: Place, **changes: Any) -> RelayService:
    settings = read_settings(place.settings_file("http://127.0.0.1:1", **changes), RelayServiceSettings)
    clock = SteeredClock(place.folder / "clock")
    return RelayService(settings, clock=clock, steady=clock, dice=os.urandom, log_to=io.StringIO())


def test_files_that_are_wrong_are_told_of_before_anything_runs(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (tmp_path / "odd").write_bytes(b"what is this, a token with blanks in it?")
    (tmp_path / "odd").chmod(0o600)
    (tmp_path / "list").write_text(hashlib.sha256(b"good").hexdigest() + "\nnot a digest\n", encoding="utf-8")
    cases: list[dict[str, dict[str, Any]]] = [
        {"gateway": {"token_file": tmp_path / "odd"}},
        {"gateway": {"token_file": tmp_path / "nowhere"}},
        {"signing": {"key_file": tmp_path / "odd"}},
        {"store": {"path": tmp_path / "odd"}},
        {"store": {"path": tmp_path / "no" / "folder"}},
        {"clients": {"known_by": "credential", "credentials_file": tmp_path / "list"}},
        {"clients": {"known_by": "credential", "credentials_file": tmp_path / "nowhere"}},
        {"clients": {"proxies": ["example"]}},
    ]
    for changes in cases:
        with pytest.raises(BadInputError) as raised:
            relay_of(place, **changes)
        assert "blanks" not in str(raised.value)


def test_key_makes_a_key_once_and_prints_its_public_half(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "relay.key"
    assert run(["relay", "key", "--out", str(path)]) == 0
    printed = capsys.readouterr().out.strip()
    key = read_signing_key(path)
    assert isinstance(key, SigningKey)
    assert key.public.data.hex() in printed
    assert key.seed.hex() not in printed
    assert path.stat().st_mode & 0o077 == 0
    assert run(["relay", "key", "--out", str(path)]) == 2
    assert read_signing_key(path) == key


def test_serve_says_in_one_sentence_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "relay.toml").write_text("[relay]\nmode = 3\n", encoding="utf-8")
    for name in ("relay.toml", "nowhere.toml"):
        assert run(["relay", "serve", "--config", str(tmp_path / name)]) == 2
        assert capsys.readouterr().err.startswith("secvm: ")
    place = Place(tmp_path)
    (tmp_path / "clock").unlink()
    assert run(["relay", "serve", "--config", str(place.settings_file("http://127.0.0.1:1"))]) == 2
    assert "clock" in capsys.readouterr().err


def test_every_capsule_that_is_let_in_can_be_packed() -> None:
    field = RelayLimits.model_fields["package_bytes"]
    assert any(getattr(rule, "le", MAX_CAPSULE_BYTES) < MAX_CAPSULE_BYTES for rule in field.metadata)
