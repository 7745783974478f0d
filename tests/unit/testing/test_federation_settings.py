"""The settings files of a federation are those that the real programs read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from secvm.coordinator.settings import CoordinatorProgramSettings
from secvm.participant.settings import ParticipantSettings
from secvm.relay.setting_up import RELAY_PATH
from secvm.relay.settings import RelayServiceSettings
from secvm.runtime.settings import read_settings
from secvm.testing.federation import Federation
from secvm.testing.federation_settings import ENTRY, MIX, RELAY_STEPS, ROLES, HostOf, Pace, cover_seeds


def written(folder: Path, **options: Any) -> Federation:
    host = HostOf(folder / "people.jsonl", 0, 3, folder / "words.txt")
    made = Federation(folder, hosts=[host], seed="seed", witnesses=0, **options)
    made.write_settings()
    made.write_host("host-0", host, "d" * 64)
    return made


def test_two_relays_have_roles_tokens_and_dice_of_their_own(tmp_path: Path) -> None:
    made = written(tmp_path, covered=True)
    pace = made.pace
    assert pace.period_s == 30 + 4 + 130 + 10
    relays = {role: read_settings(tmp_path / f"{role}.toml", RelayServiceSettings) for role in ROLES}
    rounds = {role: relays[role].rounds for role in ROLES}
    for role, seed in zip(ROLES, cover_seeds("seed"), strict=True):
        own = rounds[role]
        assert own is not None
        assert (own.role, relays[role].testing.seed) == (role, seed)
        assert relays[role].epochs.period_s == pace.period_s
    entry, mix = rounds[ENTRY], rounds[MIX]
    assert entry is not None
    assert mix is not None
    assert len({entry.operator, mix.operator}) == len({entry.folder, mix.folder, entry.secrets, mix.secrets}) / 2 == 2
    tokens = {relays[role].coordinators[0].token_file.read_text() for role in ROLES}
    assert len(tokens) == 2
    coordinator = read_settings(tmp_path / "coordinator.toml", CoordinatorProgramSettings)
    assert [(one.name, one.url) for one in coordinator.relays] == [
        (role, made.url(role) + RELAY_PATH) for role in ROLES
    ]
    assert [relay["role"] for relay in made.relays_specified()] == list(ROLES)


def test_devices_trust_the_two_relays_by_operator_and_key(tmp_path: Path) -> None:
    made = written(tmp_path, covered=True, consent={"most_epsilon": 3.0})
    host = read_settings(tmp_path / "host-0.toml", ParticipantSettings)
    assert host.trust.relays is not None
    assert [(one.url, one.key) for one in host.trust.relays] == [(one.url, one.key) for one in made.known_relays]
    assert host.relay is not None
    assert list(host.relay.urls) == [made.url(role) + RELAY_PATH for role in ROLES]
    assert (host.consent.policy, host.consent.most_epsilon) == ("default", 3.0)
    assert host.testing is not None
    assert host.testing.vocabulary == tmp_path / "words.txt"


def test_a_plain_federation_has_one_relay_and_no_steps_after_a_window(tmp_path: Path) -> None:
    made = written(tmp_path)
    assert [relay.keys() for relay in made.relays_specified()] == [{"url", "key"}]
    assert not list(tmp_path.glob("entry*"))
    relay = read_settings(tmp_path / "relay.toml", RelayServiceSettings)
    assert (relay.rounds, relay.testing.seed) == (None, None)
    assert Pace().specified().keys() == {"length_s", "grace_s", "first_opening"}
    assert Pace(relays=RELAY_STEPS).specified().keys() >= {"batch_s", "mix_s", "reveal_s", "open_s"}
