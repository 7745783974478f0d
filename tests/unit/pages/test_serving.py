"""Serving pages: every answer says what it must, a fault says nothing, and what is not HTTP is refused likewise."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from secvm.errors import BadInputError
from secvm.pages import serving
from secvm.pages.guarding import HEADERS, RefusedRequestError
from secvm.pages.serving import Answer, RunningPage, body_of, listen_on, loopback, serve

WHOLE = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


async def said(served: RunningPage, *pieces: bytes) -> tuple[int, dict[str, str], bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    try:
        for piece in pieces:
            writer.write(piece)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    first, *lines = head.decode().split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split(" ")[1]), fields, body


@contextlib.asynccontextmanager
async def page(answer: Answer, faults: list[Exception] | None = None) -> AsyncIterator[RunningPage]:
    door = listen_on("127.0.0.1", 0, complaint="no")
    served = await serve(door, answer, tell_fault=([] if faults is None else faults).append)
    try:
        yield served
    finally:
        await served.close()


async def fine(_request: web.BaseRequest) -> web.Response:
    return web.Response(text="fine")


@pytest.mark.parametrize("request_bytes", [WHOLE, b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nhost: a\r\nhost\r\n\r\n"])
async def test_every_answer_carries_the_headers_and_no_version_also_to_what_is_no_http(request_bytes: bytes) -> None:
    async with page(fine) as served:
        status, fields, _ = await said(served, request_bytes)
        assert status in (200, 400)
        assert {name: fields.get(name) for name in HEADERS} == HEADERS
        assert fields["cache-control"] == "no-store"
        assert "server" not in fields


async def test_a_refusal_is_a_problem_and_a_fault_says_nothing_of_itself() -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path == "/refused":
            raise RefusedRequestError(405, "Not so.")
        raise ValueError("a secret")

    faults: list[Exception] = []

    async with page(answer, faults) as served:
        status, fields, body = await said(served, WHOLE.replace(b"/ ", b"/refused ", 1))
        assert (status, fields["allow"]) == (405, "GET, HEAD, POST")
        assert b'"detail":"Not so."' in body
        status, fields, body = await said(served, WHOLE)
        assert (status, fields["content-type"], b"secret" in body) == (500, "application/problem+json", False)
    assert [type(fault) for fault in faults] == [ValueError]


async def test_no_more_connections_are_answered_than_there_are_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_CONNECTIONS", 1)

    async with page(fine) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(WHOLE.replace(b"connection: close\r\n", b""))
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert (await said(served, WHOLE))[0] == 503
        writer.close()


async def test_a_body_has_a_limit_of_bytes_and_of_time_and_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_LINGERING_S", 0.05)

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(body=await body_of(request, most=10, within_s=0.05))

    def post(*fields: bytes) -> bytes:
        return (
            b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n" + b"".join(one + b"\r\n" for one in fields) + b"\r\n"
        )

    async with page(answer) as served:
        assert (await said(served, post(b"content-length: 11"), b"x" * 11))[0] == 413
        chunked = post(b"transfer-encoding: chunked")
        assert (await said(served, chunked, b"b\r\n" + b"x" * 11 + b"\r\n0\r\n\r\n"))[0] == 413
        assert (await said(served, post(b"content-length: 10"), b"x"))[0] == 408
        packed = post(b"content-length: 4", b"content-encoding: gzip")
        assert (await said(served, packed, b"\x1f\x8bab"))[2] == b"\x1f\x8bab"


def test_an_address_of_this_machine_is_asked_for_and_a_taken_port_is_one_sentence() -> None:
    assert loopback("[::1]:80", refusal="no") == ("::1", 80)
    for listen in ("0.0.0.0:1", "localhost:1", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"):
        with pytest.raises(BadInputError, match="nowhere else"):
            loopback(listen, refusal="nowhere else")
    with listen_on("127.0.0.1", 0, complaint="no") as door, pytest.raises(BadInputError, match="cannot: Address"):
        listen_on("127.0.0.1", door.getsockname()[1], complaint="cannot")
