"""A server on a real socket, and a client that sends exactly the bytes it is told to."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import uvloop

from secvm.runtime.http.server import Handler, HttpRequest, HttpResponse, HttpServer


def run(main: Coroutine[Any, Any, None]) -> None:
    """To the end, but not for ever: a test that waits for what never comes has failed."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(main, 30))


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110  (no sleep: the loop's next turn)
        await asyncio.sleep(0)


def echo(request: HttpRequest) -> HttpResponse:
    """Says what it was asked."""
    said = f"{request.method} {request.path} {request.query} ".encode() + request.body
    return HttpResponse(200, said, "text/plain")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Talk:
    """One connection, from the client's side."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, *, head_only: bool = False) -> Answer:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split(" ")[1])
        fields = [line.partition(": ")[::2] for line in head[1:] if line]
        headers = dict(fields)
        assert len(headers) == len(fields), "a field twice"
        empty = head_only or status in {100, 204, 304}
        body = b"" if empty else await self.reader.readexactly(int(headers["content-length"]))
        return Answer(status, headers, body)

    def vanish(self) -> None:
        """Not an orderly end: the connection is reset."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()

    async def ended(self) -> bool:
        """Wait for the end; whether nothing came before it."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True


@dataclass
class Place:
    """A server that listens."""

    server: HttpServer
    port: int
    #: What its connections take for the time.
    now: float = 0.0

    @asynccontextmanager
    async def talk(self) -> AsyncIterator[Talk]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield Talk(reader, writer)
        finally:
            writer.transport.abort()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.server.sweep(self.now)


@asynccontextmanager
async def serving(handler: Handler = echo, **options: Any) -> AsyncIterator[Place]:
    server = HttpServer(handler, **options)
    place = Place(server, await server.start("127.0.0.1", 0))
    server.time = lambda: place.now
    try:
        yield place
    finally:
        await server.drain(patience_s=0)


def get(path: str = "/", *fields: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: a", *fields, "", ""]).encode("latin-1")


def post(body: bytes, path: str = "/", *fields: str) -> bytes:
    return get(path, f"content-length: {len(body)}", *fields, method="POST") + body


def chunked(parts: list[bytes], path: str = "/", trailer: bytes = b"") -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts if part)
    return get(path, "transfer-encoding: chunked", method="POST") + body + b"0\r\n" + trailer + b"\r\n"


async def small(port: int, address: str = "127.0.0.1") -> Talk:
    """A client with little room for what it does not read, from this address of loopback."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.setblocking(False)
    one.bind((address, 0))
    await asyncio.get_running_loop().sock_connect(one, ("127.0.0.1", port))
    return Talk(*await asyncio.open_connection(sock=one, limit=1024))
