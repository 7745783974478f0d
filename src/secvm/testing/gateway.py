"""FakeGateway: what a relay's gateway sees, byte for byte.

It listens on 127.0.0.1, keeps every request as it came from the wire, with the number of its connection, and answers
what the test wants. It opens nothing and understands no more of HTTP than where a request ends.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from secvm.runtime.waits import stop_listening
from secvm.testing.conversations import Conversations


@dataclass(frozen=True, slots=True)
class Seen:
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

    def __init__(self, answer: Callable[[Seen], Reply] | None = None) -> None:
        """``answer`` may be changed at any time; without one, everything is answered 202."""
        self.answer = answer or (lambda _seen: Reply(202))
        self.seen: list[Seen] = []
        self.url = ""
        #: Set: go on. Cleared: requests are read, and answered only when it is set again.
        self.open = asyncio.Event()
        self.open.set()
        self._arrived = asyncio.Condition()
        self._connections = 0
        self._server: asyncio.Server | None = None
        self._conversations = Conversations()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        await stop_listening(self._server)
        await self._conversations.end()

    def at(self, path: str) -> list[Seen]:
        """What came to this path so far."""
        return [seen for seen in self.seen if seen.path == path]

    async def wait_for(self, path: str, count: int = 1) -> list[Seen]:
        """Return when so many requests have come to this path."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.at(path)) >= count)
        return self.at(path)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._conversations.begin(self._serve(reader, writer, self._connections), writer)
        self._connections += 1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> None:
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = int(Seen(head, b"", connection).fields.get("content-length", "0"))
                    seen = Seen(head, await reader.readexactly(length), connection)
                    reply = await self._reply(seen)
                    if reply.hang_up:
                        return
                    media_type = f"content-type: {reply.media_type}\r\n" if reply.media_type else ""
                    first = f"HTTP/1.1 {reply.status} -\r\n{media_type}content-length: {len(reply.body)}\r\n\r\n"
                    writer.write(first.encode("latin-1") + reply.body)
                    await writer.drain()
        finally:
            writer.close()

    async def _reply(self, seen: Seen) -> Reply:
        self.seen.append(seen)
        async with self._arrived:
            self._arrived.notify_all()
        await self.open.wait()
        return self.answer(seen)
