"""Fetch keys: one a slot, named by manifests of two relays, which keeps them; no package is sealed to one."""

import asyncio
import os

import pytest

from secvm.coordinator.intake.gateway import Gateway
from secvm.coordinator.intake.running import CurrentRounds, gateway_key, make_fetch_key, published
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import StoredKey
from secvm.crypto.sealing.oblivious import SealedRequest, decode_key_configurations, seal_request
from secvm.errors import MalformedMessageError, OpeningError, UnknownKeyError
from secvm.protocol.plain.sealed_requests import fetch_request, read_answer
from secvm.testing.clock import ManualClock
from tests.unit.coordinator.rounds import GRID, Coordinator
from tests.unit.coordinator.two_relays import GRID as TWO_RELAYS_GRID
from tests.unit.coordinator.two_relays import Federation, TwoRelays, add, document
from tests.unit.protocol.helpers import START

PERIOD_MS = 1000 * GRID.period_s
KEYS = [StoredKey(epoch, epoch % 256, bytes([epoch % 251 + 1]) * 32) for epoch in (7, 263, 8)]


def asked(key: StoredKey) -> SealedRequest:
    return seal_request(gateway_key(key).configuration, fetch_request("/v1/experiments"), os.urandom)


def handed_out(coordinator: Coordinator) -> bytes:
    found = coordinator.publisher.public("/v1/keys")
    assert found is not None
    return found[0]


def test_a_manifest_names_the_key_that_is_handed_out_when_it_is_made() -> None:
    store, of = MemoryStore(), document()
    add(store, of)
    federation = Federation(store, TwoRelays(of))
    asyncio.run(federation.go())
    named = federation.driver.fetch_keys()
    assert len(named) == of.rounds
    assert named == {published(key) for key in store.fetch_keys()}
    # Whoever makes the slot's key later, another driver or another node, finds the one that is there.
    for key in store.fetch_keys():
        now = TWO_RELAYS_GRID.start(key.epoch - 1)
        assert make_fetch_key(store, TWO_RELAYS_GRID, now, os.urandom) == key


def test_a_named_key_is_kept_and_any_other_is_forgotten_when_its_slot_is_over() -> None:
    store, clock = MemoryStore(), ManualClock(START)
    coordinator = Coordinator(store, clock)
    asyncio.run(coordinator.step())
    named = handed_out(coordinator)
    coordinator.driver.others_named = lambda: frozenset({named})
    seen = [named]
    for _ in range(5):
        clock.advance(PERIOD_MS)
        asyncio.run(coordinator.step())
        seen.append(handed_out(coordinator))
    assert len(set(seen)) == 6
    # The named one, the one of this slot, for whoever was told of it in the slot before, and the next one.
    assert [published(key) for key in store.fetch_keys()] == [named, *seen[-2:]]
    (key,) = decode_key_configurations(seen[-1])
    assert key.key_id == (GRID.slot_of(clock.now()) + 1) % 256
    assert coordinator.ingest.present.fetch_keys == tuple(store.fetch_keys())
    assert store.keys() == []


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key.epoch}")
def test_fetches_under_every_kept_key_are_answered_also_where_two_have_one_id(key: StoredKey) -> None:
    gateway = Gateway(dice=os.urandom, public=lambda _path: (b"content", "text/plain"), date=lambda: "now")
    gateway.update(CurrentRounds(keys=(KEYS[2],), fetch_keys=tuple(KEYS[:2])))
    sealed = asked(key)
    assert read_answer(sealed.open_response(gateway.fetch(sealed.capsule))).content == b"content"


def test_no_package_is_opened_with_a_fetch_key() -> None:
    present = CurrentRounds(fetch_keys=tuple(KEYS))
    with pytest.raises(UnknownKeyError):
        present.epoch_of(asked(KEYS[0]).capsule[0])


def test_what_no_key_opens_is_refused_by_its_kind() -> None:
    present = CurrentRounds(fetch_keys=tuple(KEYS))
    stranger = StoredKey(7, 7, b"\x63" * 32)
    with pytest.raises(OpeningError) as found:
        present.open_fetch(asked(stranger).capsule)
    assert not isinstance(found.value, UnknownKeyError)
    with pytest.raises(UnknownKeyError):
        present.open_fetch(asked(StoredKey(9, 9, b"\x63" * 32)).capsule)
    with pytest.raises(MalformedMessageError):
        present.open_fetch(b"")
