"""Transports over real sockets: what leaves a device, what it takes for an answer, and what it does not read."""

import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from email.utils import formatdate

import pytest
from aiohttp import web

from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.oblivious import GatewayKey, GatewayKeys, encode_key_configurations
from secvm.crypto.tokens import ANSWER_MEDIA_TYPE as TOKEN_ANSWER
from secvm.crypto.tokens import REQUEST_MEDIA_TYPE as TOKEN_REQUEST
from secvm.errors import LocalProtocolError, RemoteProtocolError, UnreachableError
from secvm.participant.sending.transport import (
    Fetched,
    RelayTransport,
    SendReply,
    Transport,
    UnsafeDirectTransport,
)
from secvm.protocol.documents.experiment import Relay
from secvm.protocol.plain.sealed_requests import FetchRequest, fetch_answer, read_request
from secvm.runtime.http.client import HttpClient
from secvm_lab.rigs.histories.relayed_history import terms_of_relays
from secvm_lab.rigs.histories.relayed_rounds import ENTRY, STRANGER, relayed_document
from tests.there import there
from tests.unit.participant.world import real_document
from tests.unit.protocol.helpers import RELAY, document

SERVER_TIME = 1_767_225_601_000


class TinyRelay:
    """A relay and the gateway behind it, in one small server."""

    def __init__(self) -> None:
        self.key = GatewayKey(1, X25519PrivateKey(os.urandom(32)))
        self.older: list[GatewayKey] = []
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answers: list[web.Response] = []
        #: From where each came.
        self.ports: list[int] = []
        self.key_requests = 0
        self.url = ""
        self.date = formatdate(SERVER_TIME / 1000, usegmt=True)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests.append((request.method, request.path, dict(request.headers), body))
        self.ports.append(there(request.transport).get_extra_info("peername")[1])
        if request.path == "/r/keys":
            self.key_requests += 1
            data = encode_key_configurations([self.key.configuration])
            return web.Response(body=data, content_type="application/ohttp-keys")
        if request.path == "/r/fetch":
            return self.fetch(body)
        if request.path.startswith("/v1/experiment"):
            return web.Response(body=self.files.get(request.path, b""), headers={"Date": self.date})
        return self.answers.pop(0) if self.answers else web.Response(status=202)

    def fetch(self, body: bytes) -> web.Response:
        try:
            opened = GatewayKeys([self.key, *self.older]).open(body)
        except RemoteProtocolError:
            return web.Response(status=400, content_type="application/problem+json")
        asked = read_request(opened.request)
        assert isinstance(asked, FetchRequest)
        found = self.files.get(asked.path)
        answer = fetch_answer(404 if found is None else 200, found or b"", self.date)
        return web.Response(body=opened.seal_response(answer, os.urandom), content_type="message/ohttp-res")


@asynccontextmanager
async def serving(relay: TinyRelay) -> AsyncIterator[None]:
    """The relay listens, and knows its URL."""
    application = web.Application(client_max_size=2**24)
    application.router.add_route("*", "/{path:.*}", relay.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    relay.url = f"http://127.0.0.1:{runner.addresses[0][1]}/r"
    try:
        yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def over_sockets(*, direct: bool = False) -> AsyncIterator[tuple[TinyRelay, Transport, Relay]]:
    """A relay, a device's way to it, and the relay as experiments name it."""
    relay = TinyRelay()
    async with serving(relay):
        session = HttpClient(connections=4)
        transport: Transport = (
            UnsafeDirectTransport(session, relay.url.removesuffix("/r"))
            if direct
            else RelayTransport(session, [relay.url], os.urandom)
        )
        try:
            yield relay, transport, Relay(url=relay.url, key=RELAY.public)
        finally:
            await transport.close()


async def test_package_is_one_post_with_nothing_but_what_http_needs() -> None:
    async with over_sockets() as (relay, transport, way):
        # A cookie is not kept.
        relay.answers.append(web.Response(status=202, headers={"Set-Cookie": "who=you"}))
        for i in range(3):
            assert await transport.send(b"capsule %d" % i, way) == SendReply(b"")

    assert [(method, path, body) for method, path, _, body in relay.requests] == [
        ("POST", "/r", b"capsule %d" % i) for i in range(3)
    ]
    for _, _, headers, _ in relay.requests:
        assert set(headers) == {"Host", "Content-Type", "Content-Length"}
        assert headers["Content-Type"] == "message/ohttp-req"


async def test_repro_the_credential_goes_only_to_the_relays_of_the_settings() -> None:
    mine = TinyRelay()

    async with over_sockets() as (stranger, _transport, elsewhere), serving(mine):
        session = HttpClient(connections=1)
        transport = RelayTransport(session, [mine.url], os.urandom, credential="mine")
        for client in (transport, transport.for_client("my other")):
            await client.send(b"capsule", elsewhere)
            await client.ask_token(b"request", bytes(32), elsewhere)
            await client.send(b"capsule", Relay(url=mine.url, key=RELAY.public))
            await client.ask_token(b"request", bytes(32), Relay(url=mine.url, key=RELAY.public))
            await client.fetch("/v1/experiments")
        await session.close()

    assert [path for _, path, _, _ in stranger.requests] == ["/r", f"/r/tokens/{bytes(32).hex()}"] * 2
    assert not any("Secvm-Credential" in headers for _, _, headers, _ in stranger.requests)
    told = [headers.get("Secvm-Credential") for _, path, headers, _ in mine.requests if path != "/r/keys"]
    assert told == ["mine"] * 3 + ["my other"] * 3


async def test_a_submission_that_has_a_token_is_sent_without_the_credential() -> None:
    async with over_sockets() as (relay, transport, way):
        assert isinstance(transport, RelayTransport)
        mine = transport.for_client("mine")
        await mine.ask_token(b"blinded", b"l" * 32, way)
        await mine.submit(b"token and capsules", b"l" * 32, way, anonymous=True)
        await mine.submit(b"capsules", b"l" * 32, way)

    told = [(path.split("/")[2], headers.get("Secvm-Credential")) for _, path, headers, _ in relay.requests]
    assert told == [("tokens", "mine"), ("submit", None), ("submit", "mine")]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (web.Response(status=202), SendReply(b"")),
        (web.Response(body=b"sealed", content_type="message/ohttp-res"), SendReply(b"")),
        (web.Response(body=b"<html>welcome</html>", content_type="text/html"), SendReply()),
        (web.Response(status=503, headers={"Retry-After": "7"}), SendReply(retry_after_ms=7000)),
        (web.Response(status=429, headers={"Retry-After": "x"}), SendReply()),
        (web.Response(status=302, headers={"Location": "/r/keys"}), SendReply()),
        (web.Response(status=400), SendReply(final=True)),
        (web.Response(status=410), SendReply(final=True)),
        (web.Response(status=500), SendReply()),
    ],
    ids=lambda value: str(value.status) if isinstance(value, web.Response) else "",
)
async def test_answers_mean_acknowledged_later_or_never(answer: web.Response, expected: SendReply) -> None:
    async with over_sockets() as (relay, transport, way):
        relay.answers.append(answer)
        assert await transport.send(b"capsule", way) == expected

    # A redirect is not followed.
    assert len(relay.requests) == 1


async def test_relay_that_is_not_there_is_a_failure_and_no_error() -> None:
    transport = RelayTransport(HttpClient(connections=1), ["http://127.0.0.1:1/r"], os.urandom)
    way = Relay(url="http://127.0.0.1:1/r", key=RELAY.public)
    assert await transport.send(b"capsule", way) == SendReply()
    assert await transport.fetch("/v1/experiments") is None
    await transport.close()


async def test_fetch_is_sealed_and_brings_the_servers_time() -> None:
    async with over_sockets() as (relay, transport, _way):
        relay.files["/v1/experiment/x"] = b"content"
        assert await transport.fetch("/v1/experiment/x") == Fetched(b"content", SERVER_TIME)
        assert await transport.fetch("/v1/experiment/y") is None

    # A key that is kept would be a name.
    assert relay.key_requests == 2
    # So would be what was drawn for the sealing before.
    assert len({body[7:39] for _, path, _, body in relay.requests if path == "/r/fetch"}) == 2
    # Nobody on the way reads what is asked for.
    assert all(b"experiment" not in body and "experiment" not in path for _, path, _, body in relay.requests)


async def test_repro_fetches_are_sealed_to_the_key_of_now_or_to_the_one_that_the_log_names() -> None:
    logged = GatewayKey(3, X25519PrivateKey(os.urandom(32)))

    async with over_sockets() as (relay, transport, _way):
        relay.files["/v1/experiment/x"] = b"content"
        # A gateway that still knows its older keys: whoever keeps one is known by it.
        relay.older = [logged]
        for key_id in (11, 12, 14):
            relay.older.append(relay.key)
            relay.key = GatewayKey(key_id, X25519PrivateKey(os.urandom(32)))
            assert await transport.fetch("/v1/experiment/x") is not None
        keys = encode_key_configurations([logged.configuration])
        for _ in range(2):
            assert await transport.fetch("/v1/experiment/x", gateway_keys=keys) is not None
        assert await transport.fetch("/v1/experiment/x", gateway_keys=b"no keys") is None

    assert [body[0] for _, path, _, body in relay.requests if path == "/r/fetch"] == [11, 12, 14, 3, 3]
    # A relay sees the same requests, whichever key it is.
    assert [path for _, path, _, _ in relay.requests] == [*["/r/keys", "/r/fetch"] * 5, "/r/keys"]


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("count", [0, 8, 4_000, 4_090, 4_096, 8_150])
async def test_repro_a_file_of_exactly_what_may_be_read_is_read_whatever_its_answer_is_padded_to(
    count: int, direct: bool
) -> None:
    async with over_sockets(direct=direct) as (relay, transport, _way):
        relay.files["/v1/experiment/x"] = bytes(count)
        assert await transport.fetch("/v1/experiment/x", most=count) == Fetched(bytes(count), SERVER_TIME)
        # One byte more than may be read is not taken, also where it fits under the padding.
        relay.files["/v1/experiment/x"] = bytes(count + 1)
        assert await transport.fetch("/v1/experiment/x", most=count) is None


async def test_direct_way_is_refused_for_people() -> None:
    transport = UnsafeDirectTransport(HttpClient(connections=1), "http://127.0.0.1:1")
    with pytest.raises(LocalProtocolError, match="marked as a test"):
        transport.check(real_document())
    transport.check(document(test=True, relays=()))
    through = RelayTransport(HttpClient(connections=1), ["http://127.0.0.1:1"], os.urandom)
    through.check(real_document())
    with pytest.raises(LocalProtocolError, match="no relay"):
        through.check(document(test=True, relays=()))
    open_to_all = RelayTransport(HttpClient(connections=1), ["http://relay.example/r"], os.urandom)
    with pytest.raises(LocalProtocolError, match="begin with https"):
        open_to_all.check(real_document())
    open_to_all.check(document(test=True))
    await open_to_all.close()
    await transport.close()
    await through.close()


async def test_what_a_round_of_two_relays_sends_takes_a_connection_of_its_own_each() -> None:
    async with over_sockets() as (relay, transport, way):
        for _turn in range(3):
            await transport.relayed_terms(way)
            await transport.ask_token(b"blinded", bytes(32), way)
            await transport.submit(b"capsules", bytes(32), way)

    assert len(relay.ports) == len(set(relay.ports)) == 9


async def test_repro_every_fetch_takes_a_connection_of_its_own() -> None:
    async with over_sockets() as (relay, transport, way):
        relay.files["/v1/experiments"] = b"{}"
        for _ in range(3):
            assert await transport.send(b"capsule", way) == SendReply(b"")
            assert there(await transport.fetch("/v1/experiments")).content == b"{}"

    assert [path for _, path, _, _ in relay.requests] == ["/r", "/r/keys", "/r/fetch"] * 3
    packages, keys, fetches = (relay.ports[i::3] for i in range(3))
    assert keys == fetches
    assert len({*packages, *fetches}) == 1 + 3


async def test_fetch_takes_another_relay_than_the_one_before_where_there_are_several() -> None:
    session = HttpClient(connections=1)
    transport = RelayTransport(session, [f"http://relay{i}.example/r" for i in range(3)], os.urandom)
    found = Counter[int]()
    for _ in range(600):
        before = transport._took
        transport._took = transport._next_relay()
        assert transport._took != before
        found[(transport._took - before) % 3] += 1
    assert min(found.values()) > 220
    alone = RelayTransport(session, ["http://relay.example/r"], os.urandom)
    assert alone._next_relay() == 0
    await session.close()


@pytest.mark.parametrize("direct", [False, True])
async def test_a_token_is_asked_for_in_clear_and_the_answer_is_taken_or_not(direct: bool) -> None:
    issued = web.Response(body=b"tokens", content_type=TOKEN_ANSWER)
    answers = {
        issued: SendReply(b"tokens"),
        web.Response(body=b"tokens", content_type="text/html"): SendReply(),
        web.Response(body=bytes(10_000), content_type=TOKEN_ANSWER): SendReply(),
        web.Response(status=302, headers={"Location": "/elsewhere"}): SendReply(),
        web.Response(status=503): SendReply(),
        web.Response(status=421): SendReply(),
        web.Response(status=429): SendReply(final=True),
        web.Response(status=410): SendReply(final=True),
    }

    async with over_sockets(direct=direct) as (relay, transport, way):
        relay.answers = list(answers)
        assert [await transport.ask_token(b"request", bytes(32), way) for _ in answers] == list(answers.values())
        nowhere = Relay(url="http://127.0.0.1:1/r", key=RELAY.public)
        assert await transport.ask_token(b"request", bytes(32), nowhere) == SendReply(answered=False)

    assert {(method, path, body) for method, path, _, body in relay.requests} == {
        ("POST", f"/r/tokens/{bytes(32).hex()}", b"request")
    }
    assert {fields["Content-Type"] for _, _, fields, _ in relay.requests} == {TOKEN_REQUEST}
    assert not any("User-Agent" in fields or "Cookie" in fields for _, _, fields, _ in relay.requests)


# ── requests of a round with two relays ──────────────────────────────────────────────────────────────────────────────


async def test_a_request_goes_to_the_label_and_says_nothing_else() -> None:
    """And what is answered: a receipt, later, or never."""
    answers = {
        web.Response(body=b"receipt"): SendReply(b"receipt"),
        web.Response(body=bytes(10_000)): SendReply(),
        web.Response(status=307, headers={"Location": "/elsewhere"}): SendReply(),
        **{
            web.Response(status=status, headers={"Retry-After": "7"}): SendReply(
                retry_after_ms=7000, final=status < 420
            )
            for status in (401, 409, 410, 413, 421, 425, 429, 503)
        },
    }

    async with over_sockets() as (relay, transport, way):
        relay.answers = list(answers)
        assert [await transport.submit(b"capsules", b"l" * 32, way) for _ in answers] == list(answers.values())

    assert len(relay.requests) == len(answers)
    for method, path, headers, body in relay.requests:
        assert (method, path, body) == ("POST", f"/r/submit/{(b'l' * 32).hex()}", b"capsules")
        assert headers["Content-Type"] == "application/vnd.secvm.submission"
        assert set(headers) == {"Host", "Content-Type", "Content-Length"}


async def test_terms_are_taken_from_the_relays_key_alone() -> None:
    of = relayed_document().entry_relay
    terms = terms_of_relays(relayed_document())[of.url]

    async with over_sockets() as (relay, transport, way):
        entry = replace(of, url=way.url)
        relay.answers = [web.Response(body=terms.signed(signer)) for signer in (ENTRY, STRANGER)]
        relay.answers += [web.Response(status=404), web.Response(status=503)]
        assert [await transport.relayed_terms(entry) for _ in range(3)] == [terms, None, None]
        # It may answer in a moment, as one that nobody runs.
        for away in (entry, replace(of, url="http://127.0.0.1:1/r")):
            with pytest.raises(UnreachableError, match=r"entry relay .* does not answer"):
                await transport.relayed_terms(away)
