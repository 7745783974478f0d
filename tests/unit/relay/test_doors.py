"""What all relays share: doors, limits, fetches, keys, what the gateway sees; and a relay that takes no packages."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from secvm.protocol.problems import PROBLEMS
from secvm.testing.gateway import FakeGateway, Reply
from tests.unit.relay.helpers import (
    CAPSULE_TYPE,
    TOKEN,
    Place,
    RolePlace,
    ask,
    behind,
    capsule,
    fetch,
    read_answer,
    running,
    send,
)

SEALED = Reply(200, b"a sealed answer", "message/ohttp-res")
#: What browsers and programs say about themselves, and what people put between us and them.
TELLTALE = {
    "origin": "moz-extension://7f2c7d3e-1111-2222-3333-444455556666",
    "accept-language": "gsw-CH",
    "cookie": "who=ann",
    "user-agent": "AnnsBrowser/1.0",
    "x-forwarded-for": "192.0.2.55",
    "forwarded": "for=192.0.2.55",
    "x-real-ip": "192.0.2.55",
    "via": "1.1 anns-router",
    "authorization": "Basic YW5uOnBhc3N3b3Jk",
    "secvm-credential": "anns-credential",
    "referer": "https://ann.example/",
    "accept": "application/x-anns-own",
    "accept-encoding": "br",
    "x-anything": "anns-anything",
}


async def test_the_gateway_sees_media_type_and_content_and_nothing_else(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with behind(place, SEALED) as (gateway, relay):
        told = await fetch(relay.port, capsule(1), headers=TELLTALE)
        assert (told.status, told.body) == (200, b"a sealed answer")
        assert told.fields["content-type"] == "message/ohttp-res"
        await fetch(relay.port, capsule(2), source="127.0.0.2")
        host = gateway.url.removeprefix("http://")
        for seen in gateway.seen:
            assert seen.fields == {
                "host": host,
                # The relay's own, the same for everybody.
                "authorization": f"Bearer {TOKEN}",
                "content-type": "message/ohttp-req",
                "content-length": "120",
            }
        # Two clients cannot be told apart: but for the capsule, their requests are the same bytes ...
        heads = [seen.head for seen in gateway.at("/v1/fetch")]
        assert (len(heads), len(set(heads))) == (2, 1)
        # ... on one connection.
        assert {seen.connection for seen in gateway.seen} == {0}


async def test_a_media_type_with_a_tail_is_handed_on_without_it(tmp_path: Path) -> None:
    async with behind(Place(tmp_path), SEALED) as (gateway, relay):
        told = await fetch(relay.port, capsule(1), headers={"content-type": "Message/OHTTP-Req; whose=anns"})
        assert told.status == 200
        assert gateway.seen[0].fields["content-type"] == "message/ohttp-req"


async def test_the_gateways_refusals_come_back_as_they_are(tmp_path: Path) -> None:
    problem = PROBLEMS["unknown-key"]
    reply = Reply(problem.status, problem.to_bytes(), "application/problem+json")
    async with behind(Place(tmp_path), reply) as (_gateway, relay):
        told = await fetch(relay.port, capsule(1))
        assert (told.status, told.body) == (400, problem.to_bytes())
        assert told.fields["content-type"] == "application/problem+json"


async def test_a_gateway_that_fails_is_502_and_one_that_is_slow_504(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with FakeGateway(lambda _seen: Reply(0, hang_up=True)) as gateway:
        async with running(place, gateway.url) as relay:
            assert (await fetch(relay.port, capsule(1))).status == 502
        async with running(place, gateway.url, limits={"answer_bytes": 10}) as relay:
            gateway.answer = lambda _seen: SEALED
            assert (await fetch(relay.port, capsule(1))).status == 502
        async with running(place, gateway.url, gateway={"timeout_s": 0.01}) as relay:
            gateway.open.clear()
            assert (await fetch(relay.port, capsule(1))).status == 504
    async with running(place, gateway.url) as relay:  # nobody listens there any more
        told = await fetch(relay.port, capsule(1))
        assert json.loads(told.body) == {"status": 502, "title": "Bad Gateway", "type": "about:blank"}


@pytest.mark.parametrize("place_of", [Place, RolePlace])
async def test_a_relay_that_holds_no_packages_says_so_and_hands_none_on(tmp_path: Path, place_of: type[Place]) -> None:
    place = place_of(tmp_path)
    async with behind(place, SEALED, holds=False) as (gateway, relay):
        told = await send(relay.port, capsule(1))
        assert (told.status, told.body) == (404, PROBLEMS["no-packages"].to_bytes())
        assert told.fields["content-type"] == "application/problem+json"
        assert not any(capsule(1) in seen.body for seen in gateway.seen)
        # Fetches are carried all the same.
        assert (await fetch(relay.port, capsule(1))).status == 200
        page = (await ask(relay.port, "GET", "/metrics")).body
        assert b'secvm_relay_refused_total{status="404"} 1.0' in page


async def test_clients_known_by_credential_share_an_address_and_strangers_are_refused(tmp_path: Path) -> None:
    clients, testing = {"known_by": "credential", "quota": 1, "fetches": 1}, {"any_credential": True}
    async with behind(Place(tmp_path), SEALED, clients=clients, testing=testing) as (gateway, relay):
        for number, name in enumerate(("ann", "ben")):
            credential = {"secvm-credential": name}
            assert (await send(relay.port, capsule(number), headers=credential)).status == 202
            assert (await send(relay.port, capsule(number + 10), headers=credential)).status == 429
        assert (await send(relay.port, capsule(20))).status == 401
        ann = {"secvm-credential": "ann"}
        assert [(await fetch(relay.port, capsule(21), headers=ann)).status for _ in range(2)] == [200, 429]
        assert gateway.at("/v1/fetch")
        assert not any(b"credential" in seen.head for seen in gateway.seen)


@pytest.mark.parametrize("holds", [True, False])
async def test_what_is_no_capsule_is_refused_with_its_problem_and_goes_nowhere(tmp_path: Path, holds: bool) -> None:
    place = Place(tmp_path)
    async with behind(place, holds=holds) as (gateway, relay):
        cases = [
            ("POST", "/relay", b"short", CAPSULE_TYPE, 400),
            ("POST", "/relay", b"", CAPSULE_TYPE, 400),
            ("POST", "/relay", bytes(5000), CAPSULE_TYPE, 413),
            ("POST", "/relay/fetch", bytes(10_000_000), CAPSULE_TYPE, 413),
            ("POST", "/relay", bytes(10_000_000), CAPSULE_TYPE, 413),
            ("POST", "/relay", capsule(1), {"content-type": "text/plain"}, 415),
            ("POST", "/relay", capsule(1), {}, 415),
            ("GET", "/relay", b"", {}, 405),
            ("POST", "/relay/keys", capsule(1), CAPSULE_TYPE, 405),
            ("POST", "/relay/other", capsule(1), CAPSULE_TYPE, 404),
            ("POST", "/v1/batch", capsule(1), CAPSULE_TYPE, 404),
        ]
        for method, path, body, headers, status in cases:
            told = await ask(relay.port, method, path, body, headers)
            assert (told.status, told.fields["content-type"]) == (status, "application/problem+json")
            if status == 413:
                assert told.body == PROBLEMS["too-large"].to_bytes()
            if status == 400:
                assert told.body == PROBLEMS["garbage"].to_bytes()
        assert gateway.seen == []


async def test_more_requests_than_the_gateway_is_asked_at_a_time_are_told_to_come_later(tmp_path: Path) -> None:
    async with behind(Place(tmp_path), SEALED, limits={"forwards": 2, "retry_after_s": 9}) as (gateway, relay):
        gateway.open.clear()
        under_way = [
            asyncio.ensure_future(fetch(relay.port, capsule(number), source=f"127.0.0.{number + 1}"))
            for number in range(2)
        ]
        await gateway.wait_for("/v1/fetch", 2)
        told = await fetch(relay.port, capsule(3), source="127.0.0.3")
        assert (told.status, told.fields["retry-after"]) == (503, "9")
        assert told.body == PROBLEMS["try-later"].to_bytes()
        gateway.open.set()
        assert [one.status for one in await asyncio.gather(*under_way)] == [200, 200]
        assert (await fetch(relay.port, capsule(3))).status == 200


async def test_repro_one_client_leaves_ways_to_the_gateway_for_others(tmp_path: Path) -> None:
    async with behind(Place(tmp_path), SEALED, limits={"forwards": 8}) as (gateway, relay):
        gateway.open.clear()
        greedy = [asyncio.ensure_future(fetch(relay.port, capsule(number))) for number in range(4)]
        await gateway.wait_for("/v1/fetch", 4)
        assert (await fetch(relay.port, capsule(4))).status == 503
        honest = asyncio.ensure_future(fetch(relay.port, capsule(5), source="127.0.0.2"))
        await gateway.wait_for("/v1/fetch", 5)
        gateway.open.set()
        assert {one.status for one in await asyncio.gather(*greedy, honest)} == {200}
        # What is done counts no more.
        assert (await fetch(relay.port, capsule(4))).status == 200


async def test_who_hangs_up_gives_his_place_back(tmp_path: Path) -> None:
    async with behind(Place(tmp_path), SEALED, limits={"forwards": 1}) as (gateway, relay):
        gateway.open.clear()
        impatient = asyncio.ensure_future(fetch(relay.port, capsule(1)))
        await gateway.wait_for("/v1/fetch")
        impatient.cancel()
        gateway.open.set()
        while (await fetch(relay.port, capsule(2))).status != 200:
            pass


async def test_repro_health_and_metrics_are_not_answered_under_a_strangers_name(tmp_path: Path) -> None:
    async with behind(Place(tmp_path), SEALED) as (_gateway, relay):
        for path, status in (("/health", 421), ("/metrics", 421), ("/relay/keys", 502)):  # this gateway has no key
            assert (await ask(relay.port, "GET", path, headers={"host": "evil.example"})).status == status


async def test_health_and_metrics_tell_sums(tmp_path: Path) -> None:
    async with behind(Place(tmp_path), SEALED) as (_gateway, relay):
        # Nothing rests on what it would promise.
        assert (await ask(relay.port, "GET", "/relay/terms")).status == 404
        health = await ask(relay.port, "GET", "/health")
        assert (health.status, health.body) == (200, b'{"ok":true,"role":"plain"}')
        await send(relay.port, capsule(1), headers=TELLTALE)
        await send(relay.port, b"short")
        page = (await ask(relay.port, "GET", "/metrics")).body
        assert b'secvm_relay_refused_total{status="400"} 1.0' in page
        assert b'secvm_relay_requests_total{door="capsule"} 1.0' in page
        assert b"127.0.0" not in page


async def test_stop_answers_what_is_under_way(tmp_path: Path) -> None:
    async with behind(Place(tmp_path), SEALED) as (gateway, relay):
        gateway.open.clear()
        under_way = asyncio.ensure_future(fetch(relay.port, capsule(1)))
        await gateway.wait_for("/v1/fetch")
        relay.stop.set()
        asyncio.get_running_loop().call_soon(gateway.open.set)
        assert (await under_way).status == 200


async def test_a_connection_ends_with_its_fetch_and_not_with_the_key_before_it(tmp_path: Path) -> None:
    """A browser cannot ask for a connection of its own, and would keep this one for its next fetch."""
    async with behind(Place(tmp_path), SEALED) as (_gateway, relay):
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(b"GET /relay/keys HTTP/1.1\r\nhost: a\r\n\r\n")
        assert "connection" not in (await read_answer(reader)).fields
        content = capsule(1)
        fields = f"host: a\r\ncontent-type: message/ohttp-req\r\ncontent-length: {len(content)}\r\n\r\n"
        writer.write(f"POST /relay/fetch HTTP/1.1\r\n{fields}".encode() + content)
        assert (await read_answer(reader)).fields["connection"] == "close"
        assert await reader.read() == b""
        writer.close()
