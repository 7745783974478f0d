"""The gateway's key for fetches: one a slot, the same for everybody, whatever the gateway answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.oblivious import GatewayKey, GatewayKeys, encode_key_configurations
from secvm.errors import RemoteProtocolError
from secvm.participant.sending.transport import RelayTransport
from secvm.protocol.plain.sealed_requests import fetch_answer
from secvm.runtime.http.client import HttpClient
from secvm.testing.gateway import FakeGateway, GatewayRequest, Reply
from tests.unit.relay.helpers import PERIOD_MS, Answered, Place, RolePlace, ask, behind, running

#: Of the slot after the one in which a ``Place`` begins.
KEY_ID = 11
DATE = "Thu, 01 Jan 2026 00:00:00 GMT"


def key(key_id: int = KEY_ID) -> GatewayKey:
    return GatewayKey(key_id, X25519PrivateKey(os.urandom(32)))


def keys_reply(*keys: GatewayKey) -> Reply:
    return Reply(200, encode_key_configurations([one.configuration for one in keys]), "application/ohttp-keys")


class Rotating:
    """A gateway that gives another key to whoever asks, and knows by it who fetches."""

    def __init__(self, next_id: Callable[[int], int]) -> None:
        self._next_id = next_id
        self.given: list[GatewayKey] = []
        #: Which of the keys given each fetch was sealed to.
        self.sealed_to: list[int] = []

    def __call__(self, seen: GatewayRequest) -> Reply:
        if seen.path == "/v1/keys":
            self.given.append(key(self._next_id(len(self.given))))
            return keys_reply(self.given[-1])
        for number, one in enumerate(self.given):
            with suppress(RemoteProtocolError):
                opened = GatewayKeys([one]).open(seen.body)
                self.sealed_to.append(number)
                answer = opened.seal_response(fetch_answer(200, b"file", DATE), os.urandom)
                return Reply(200, answer, "message/ohttp-res")
        return Reply(400)


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize("next_id", [lambda _n: KEY_ID, lambda n: KEY_ID + n], ids=["one id", "other ids"])
async def test_repro_a_gateway_that_rotates_its_keys_cannot_tell_devices_apart(
    tmp_path: Path, holds: bool, next_id: Callable[[int], int]
) -> None:
    rotating = Rotating(next_id)
    place = Place(tmp_path)
    async with (
        FakeGateway(rotating) as gateway,
        running(place, gateway.url, holds=holds) as relay,
        HttpClient(connections=4) as way,
    ):
        url = f"http://127.0.0.1:{relay.port}/relay"
        devices = [RelayTransport(way, [url], os.urandom) for _ in range(5)]
        for _ in range(4):
            for device in devices:
                # Devices come at different seconds, as real ones do, and all within one slot.
                place.go_to(place.steering.limit + 1100)
                fetched = await device.fetch("/v1/experiments")
                assert fetched is not None
                assert fetched.content == b"file"
    assert rotating.sealed_to == [0] * 20


@pytest.mark.parametrize(("place_of", "holds", "asked"), [(Place, True, 1), (Place, False, 2), (RolePlace, False, 1)])
async def test_repro_a_gateway_has_a_second_try_after_a_restart_only_where_there_is_no_disk(
    tmp_path: Path, place_of: type[Place], holds: bool, asked: int
) -> None:
    rotating, place, keys = Rotating(lambda _n: KEY_ID), place_of(tmp_path), set()
    async with FakeGateway(rotating) as gateway:
        for _ in range(2):
            async with running(place, gateway.url, holds=holds) as relay:
                keys.add((await ask(relay.port, "GET", "/relay/keys")).body)
    assert len(keys) == len(rotating.given) == asked


async def test_everybody_has_the_key_of_the_slot_and_until_the_gateway_has_the_next_one_the_one_before(
    tmp_path: Path,
) -> None:
    first, second, third = key(), key(KEY_ID + 1), key(KEY_ID + 1)
    place = Place(tmp_path)
    async with behind(place, Reply(503)) as (gateway, relay):

        async def told(n: int = 1) -> Answered:
            return await ask(relay.port, "GET", "/relay/keys", source=f"127.0.0.{n}")

        assert (await told()).status == 503
        gateway.answer = lambda _seen: keys_reply(first)
        many = await asyncio.gather(*(told(n) for n in range(1, 9)))
        assert {(one.status, one.body) for one in many} == {(200, keys_reply(first).body)}
        assert {one.fields["content-type"] for one in many} == {"application/ohttp-keys"}
        assert len(gateway.at("/v1/keys")) == 2
        assert set(gateway.seen[0].fields) == {"host"}
        place.go_to(11 * PERIOD_MS)
        assert (await told()).body == keys_reply(first).body
        gateway.answer = lambda _seen: keys_reply(second)
        assert (await told()).body == keys_reply(second).body
        place.go_to(12 * PERIOD_MS - 1)
        gateway.answer = lambda _seen: keys_reply(third)
        assert (await told()).body == keys_reply(second).body


async def test_what_is_not_one_key_of_the_slot_is_not_handed_out(tmp_path: Path) -> None:
    async with behind(Place(tmp_path)) as (gateway, relay):
        faulty = (
            keys_reply(key(KEY_ID - 1)),
            keys_reply(key(KEY_ID + 1)),
            keys_reply(key(), key()),
            Reply(200, keys_reply(key()).body[:-1]),
            Reply(200),
        )
        replies = iter(faulty)
        gateway.answer = lambda _seen: next(replies)
        for _ in faulty:
            assert (await ask(relay.port, "GET", "/relay/keys")).status == 502
        page = (await ask(relay.port, "GET", "/metrics")).body
        assert b"secvm_relay_keys_refused_total 5.0" in page
