"""FakeGateway: what a relay's gateway sees, byte for byte.

It listens on 127.0.0.1, keeps every request as it came from the wire, with the number of its connection, and answers
what the test wants. It opens nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from aiohttp import web


@dataclass(frozen=True, slots=True)
class GatewayRequest:
    """One request."""

    #: Request line and header fields, with the blank line at their end.
    head: bytes
    body: bytes
    #: Which connection it came on, counted from 0.
    connection: int

    @property
    def path(self) -> str:
        """What was asked for."""
        return self.head.split(b" ", 2)[1].decode("latin-1")

    @property
    def fields(self) -> dict[str, str]:
        """Header fields, names in lower case."""
        lines = self.head.decode("latin-1").split("\r\n")[1:-2]
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


@dataclass(frozen=True, slots=True)
class Reply:
    """What the gateway answers; ``hang_up``: nothing."""

    status: int
    body: bytes = b""
    media_type: str = ""
    hang_up: bool = False


class FakeGateway:
    """To be used as ``async with``; ``url`` is where it listens."""

    def __init__(self, answer: Callable[[GatewayRequest], Reply] | None = None) -> None:
        """``answer`` may be changed at any time; without one, everything is answered 202."""
        self.answer = answer or (lambda _request: Reply(202))
        self.seen: list[GatewayRequest] = []
        self.url = ""
        #: Set: go on. Cleared: requests are read, and answered only when it is set again.
        self.open = asyncio.Event()
        self.open.set()
        self._arrived = asyncio.Condition()
        self._connections: dict[asyncio.BaseTransport, int] = {}
        self._runner = web.ServerRunner(web.Server(self._serve), shutdown_timeout=0.01)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def at(self, path: str) -> list[GatewayRequest]:
        """What came to this path so far."""
        return [request for request in self.seen if request.path == path]

    async def wait_for(self, path: str, count: int = 1) -> list[GatewayRequest]:
        """Return when so many requests have come to this path."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.at(path)) >= count)
        return self.at(path)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        connection = self._connections.setdefault(transport, len(self._connections))
        lines = [f"{request.method} {request.raw_path} HTTP/1.1".encode("latin-1")]
        lines += [name + b": " + value for name, value in request.raw_headers]
        head = b"\r\n".join([*lines, b"", b""])
        self.seen.append(GatewayRequest(head, await request.content.read(), connection))
        async with self._arrived:
            self._arrived.notify_all()
        await self.open.wait()
        reply = self.answer(self.seen[-1])
        if reply.hang_up:
            transport.abort()
        headers = {"content-type": reply.media_type} if reply.media_type else None
        return web.Response(status=reply.status or 500, body=reply.body, headers=headers)
