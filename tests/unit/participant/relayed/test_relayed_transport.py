"""Requests to the entry relay and both relays' terms over HTTP: statuses, media types, limits, nothing else said."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from secvm.errors import UnreachableError
from secvm.participant.sending.transport import RelayTransport, SendReply
from secvm.protocol.documents.experiment import Relay
from secvm.runtime.http.client import HttpClient
from secvm.testing.processes import free_port
from secvm_lab.rigs.histories.relayed_rounds import ENTRY, STRANGER, RelayedRound, relayed_document
from tests.rigs.relayed_history import terms_of_relays

ROUND = RelayedRound()
BODY = bytes(128 * ROUND.document.budget)


def against(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> tuple[SendReply, list[web.Request]]:
    """What becomes of a request, and what the relay saw."""
    seen: list[web.Request] = []

    async def noted(request: web.Request) -> web.StreamResponse:
        await request.read()
        seen.append(request)
        return await handler(request)

    async def run() -> SendReply:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", noted)
        async with TestServer(app) as server, HttpClient(connections=4) as session:
            url = f"http://127.0.0.1:{server.port}/relay"
            way = RelayTransport(session, [url], os.urandom, credential="me")
            relay = Relay(url=url, key=ENTRY.public, role="entry", operator="Entry e.V.")
            return await way.submit(BODY, ROUND.label, relay)

    return asyncio.run(run()), seen


async def _answer(status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> web.StreamResponse:
    return web.Response(status=status, body=body, headers=headers)


def test_a_request_goes_to_the_label_and_says_nothing_else() -> None:
    receipt = ROUND.receipt.signed(ENTRY)
    found, (request,) = against(lambda _request: _answer(200, receipt))
    assert found == SendReply(receipt)
    assert (request.method, request.path) == ("POST", f"/relay/submit/{ROUND.label.hex()}")
    assert request.headers["Content-Type"] == "application/vnd.secvm.submission"
    assert set(request.headers) <= {"Host", "Content-Type", "Content-Length", "Secvm-Credential"}


@pytest.mark.parametrize(
    ("status", "final"),
    [(409, True), (410, True), (413, True), (401, True), (421, False), (425, False), (429, False), (503, False)],
)
def test_statuses_that_will_not_change_are_final(status: int, final: bool) -> None:
    found, _ = against(lambda _request: _answer(status, headers={"Retry-After": "7"}))
    assert found == SendReply(retry_after_ms=7000, final=final)


def test_redirects_long_answers_and_nobody_are_no_receipts() -> None:
    assert against(lambda _request: _answer(307, headers={"Location": "/elsewhere"}))[0].content is None
    assert against(lambda _request: _answer(200, bytes(10_000)))[0] == SendReply()


def test_terms_are_taken_from_the_relays_key_alone() -> None:
    document = relayed_document()

    async def run(signer: object, status: int = 200) -> object:
        terms = terms_of_relays(document)[document.entry_relay.url]

        async def handler(_request: web.Request) -> web.StreamResponse:
            return web.Response(status=status, body=terms.signed(signer))  # type: ignore[arg-type]

        app = web.Application()
        app.router.add_get("/terms", handler)
        async with TestServer(app) as server, HttpClient(connections=4) as session:
            url = f"http://127.0.0.1:{server.port}/"
            way = RelayTransport(session, [url], os.urandom)
            return await way.relayed_terms(replace(document.entry_relay, url=url))

    assert asyncio.run(run(ENTRY)) == terms_of_relays(document)[document.entry_relay.url]
    assert asyncio.run(run(STRANGER)) is None
    assert asyncio.run(run(ENTRY, 404)) is None
    # It may answer in a moment.
    with pytest.raises(UnreachableError, match="does not answer"):
        asyncio.run(run(ENTRY, 503))


def test_terms_of_a_relay_that_nobody_runs_are_not_there_yet() -> None:
    relay = replace(relayed_document().entry_relay, url=f"http://127.0.0.1:{free_port()}/")

    async def run() -> None:
        async with HttpClient(connections=4) as session:
            await RelayTransport(session, [relay.url], os.urandom).relayed_terms(relay)

    with pytest.raises(UnreachableError, match="entry relay"):
        asyncio.run(run())
