"""Relays are the person's choice: packages take those that the settings name, and no others."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from secvm.errors import BadInputError
from secvm.participant.person.disclosure import what_leaves
from secvm.participant.person.inspection import as_text, inspect
from secvm.participant.settings import ParticipantSettings, RelaySettings
from secvm.participant.trust.trust_policy import TrustedRelay, TrustPolicy
from secvm.protocol.documents.experiment import Relay
from tests.unit.participant.world import RELAY_URLS, RELAYS, World, real_document
from tests.unit.protocol.helpers import RELAY, STRANGER

OWN = Relay(url="https://relay.mine.example/r", key=STRANGER.public)


def policy(**trust: Any) -> TrustPolicy:
    """As a file with these settings makes it."""
    told: dict[str, Any] = {"device": {"folder": Path("/nowhere")}, "relay": {"urls": tuple(RELAY_URLS)}}
    return ParticipantSettings.model_validate({**told, "trust": {"without_log": True, **trust}}).policy()


def named(relay: Relay) -> dict[str, str]:
    return {"operator": "Example Foundation", "url": relay.url, "key": relay.key.data.hex()}


def test_repro_a_coordinator_chose_a_relay_of_its_own() -> None:
    policy().check(real_document())
    for relays in ((OWN,), (*RELAYS, OWN)):
        with pytest.raises(
            BadInputError, match=r"the relay relay\.mine\.example, which this device does not know"
        ) as no:
            policy().check(real_document(relays=relays))
        assert "[[trust.relays]]" in str(no.value.next_step)


def test_repro_a_relays_url_with_another_key_was_taken_for_the_relay() -> None:
    known = policy(relays=(named(RELAYS[0]),))
    known.check(real_document(relays=RELAYS[:1]))
    with pytest.raises(BadInputError, match=r"the relay relay0\.example with the key"):
        known.check(real_document(relays=(replace(RELAYS[0], key=STRANGER.public),)))
    # An address of the coordinator's own, which hands everything on to a good relay, with that relay's key.
    with pytest.raises(BadInputError, match="does not know"):
        known.check(real_document(relays=(replace(OWN, key=RELAY.public),)))
    # Where relays are named, URLs for fetches count no more.
    with pytest.raises(BadInputError, match=r"relay1\.example"):
        known.check(real_document())


def test_a_host_is_told_as_it_is_reached() -> None:
    for url, host in (
        ("https://relay.example/r", "relay.example"),
        ("https://relay.example:8443", "relay.example:8443"),
        ("https://relay.example@evil.example/r", "evil.example"),
        ("https://evil.example?relay.example/", "evil.example"),
        ("https://[2001:db8::1]/r", "[2001:db8::1]"),
    ):
        assert Relay(url=url, key=RELAY.public).host == host


def test_relay_and_operator_are_named_where_a_person_reads_whom_to_trust(tmp_path: Path) -> None:
    of = real_document(relays=RELAYS[:1])
    known = policy(relays=(named(RELAYS[0]),))
    assert any(
        one.startswith("The relay relay0.example (run by Example Foundation) knows that you take part")
        for one in what_leaves(of, policy=known)
    )
    assert any("relay0.example (your settings name no operator)" in one for one in what_leaves(of, policy=policy()))
    world = World(tmp_path, of)
    device = world.joined(policy=known)
    assert "relay0.example (run by Example Foundation)" in as_text(inspect(device.state, now=0, policy=known))
    device.close()


def test_a_relay_that_was_struck_from_the_settings_gets_nothing_more(world: World) -> None:
    world.joined(policy=policy()).close()
    strict = replace(policy(), relays=(TrustedRelay(url=RELAY_URLS[0]),))
    device = world.start(policy=strict)
    world.take_part(device)
    device.flush()
    assert world.distinct(1) == 0
    ((_, _, sentence),) = device.state.abstentions(world.of.digest)
    assert "relay1.example" in sentence


def test_repro_no_name_or_password_of_a_relays_url_becomes_a_header() -> None:
    for url in ("https://me:secret@relay.example/r", "https://me@relay.example"):
        with pytest.raises(ValueError, match="must not have a name or password") as no:
            RelaySettings(urls=(url,))
        assert "credential_file" in str(no.value)
    RelaySettings(urls=("https://relay.example/@r",))
