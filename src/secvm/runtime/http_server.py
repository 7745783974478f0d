"""A small HTTP/1.1 server: httptools reads, one handler answers, at once or later.

Made for very many very small requests: a handler that returns a ``Response`` costs no task, one that returns a future
is answered when the future is done, and answers keep the order of their requests (pipelining). A request is handed over
whole. Every limit has a number here; who breaks one is answered in one line, or with what ``refusals`` has for it, and
disconnected: what it still sends is read and dropped for a moment, because a connection closed over unread bytes would
take the answer with it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

import httptools

#: How long somebody who was refused may go on sending before the connection is cut.
_LINGER_S = 2.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server puts up with."""

    #: Of one request's content; a larger one is answered 413.
    body_bytes: int = 2**14
    #: Of the request line and all header fields together: 431.
    head_bytes: int = 2**13
    #: Open connections; more are closed at once.
    connections: int = 10_000
    #: From the first byte of a request to its last, and between two requests on one connection.
    request_s: float = 15.0
    idle_s: float = 75.0
    #: Requests of one connection that wait for their answers; beyond, the connection is not read from.
    pipelined: int = 64


@dataclass(slots=True)
class Request:
    """One request, whole."""

    method: str
    path: str
    query: str
    #: Names in lower case.
    headers: Mapping[str, str]
    body: bytes
    #: The address at the other end of the connection.
    peer: str


@dataclass(slots=True)
class Response:
    """One answer."""

    status: int
    body: bytes = b""
    media_type: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=())


Handler = Callable[[Request], Response | Awaitable[Response]]


class HttpServer:
    """Listens, hands every request to the handler, and stops in good order."""

    def __init__(
        self,
        handler: Handler,
        *,
        limits: Limits | None = None,
        body_limits: Mapping[str, int] | None = None,
        date: Callable[[], str] | None = None,
        refusals: Mapping[int, Response] | None = None,
    ) -> None:
        """``body_limits``: other limits for some paths. ``date``: what the Date field says, none without.
        ``refusals``: what to answer when the server itself refuses with that status (400, 413, 431).
        """
        self.handler = handler
        self.limits = limits or Limits()
        self.body_limits = dict(body_limits or {})
        self.date = date
        self.refusals = dict(refusals or {})
        self.connections: set[_Connection] = set()
        self.draining = False
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, also when 0 was asked for."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), host, port, backlog=4096)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def drain(self, *, patience_s: float = 10.0) -> None:
        """Take no new connections or requests, finish what is under way, close."""
        self.draining = True
        if self._server is not None:
            self._server.close()
        loop = asyncio.get_running_loop()
        end = loop.time() + patience_s
        for connection in list(self.connections):
            connection.close_when_idle()
        while self.connections and loop.time() < end:  # noqa: ASYNC110  (bounded, and once in a server's life)
            await asyncio.sleep(0.01)
        for connection in list(self.connections):
            connection.abort()

    def head(self, response: Response, *, keep_alive: bool) -> bytes:
        """Status line and header fields of an answer."""
        lines = [f"HTTP/1.1 {response.status} {_PHRASES.get(response.status, '')}"]
        if response.media_type:
            lines.append(f"content-type: {response.media_type}")
        lines.append(f"content-length: {len(response.body)}")
        if self.date is not None:
            lines.append(f"date: {self.date()}")
        lines += [f"{name}: {value}" for name, value in response.headers]
        if not keep_alive:
            lines.append("connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class _Connection(asyncio.Protocol):
    """One connection: bytes → requests → answers, in order."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._peer = ""
        self._waiting: deque[asyncio.Future[Response] | Response] = deque()
        self._keep: deque[bool] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False
        self._reset()

    def _reset(self) -> None:
        self._target = b""
        self._fields: list[tuple[str, str]] = []
        self._body: list[bytes] = []
        self._head_bytes = self._body_bytes = 0
        self._body_limit = self._server.limits.body_bytes

    # ── asyncio ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if len(self._server.connections) >= self._server.limits.connections or self._server.draining:
            transport.abort()
            return
        self._server.connections.add(self)
        peer = transport.get_extra_info("peername")
        self._peer = str(peer[0]) if peer else ""
        self._watch(self._server.limits.idle_s)

    def connection_lost(self, _error: Exception | None) -> None:
        self._server.connections.discard(self)
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        for one in self._waiting:
            if isinstance(one, asyncio.Future):
                one.cancel()
        self._waiting.clear()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(400, "no upgrades here")
        except httptools.HttpParserError:
            self._refuse(400, "this is no HTTP request")

    # ── httptools ────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        self._reset()
        self._watch(self._server.limits.request_s)

    def on_url(self, url: bytes) -> None:
        self._target += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name.decode("latin-1").lower(), value.decode("latin-1")))
        self._count_head(len(name) + len(value) + 4)

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._server.limits.head_bytes:
            self._refuse(431, "too many header fields")

    def on_headers_complete(self) -> None:
        path = self._target.split(b"?", 1)[0].decode("latin-1")
        self._body_limit = self._server.body_limits.get(path, self._server.limits.body_bytes)
        length = dict(self._fields).get("content-length", "")
        if length.isdigit() and int(length) > self._body_limit:
            self._refuse(413, "too large")

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > self._body_limit:
            self._refuse(413, "too large")
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._closing:
            return
        path, _, query = self._target.decode("latin-1").partition("?")
        request = Request(
            method=self._parser.get_method().decode("latin-1"),
            path=path,
            query=query,
            headers=dict(self._fields),
            body=self._body[0] if len(self._body) == 1 else b"".join(self._body),
            peer=self._peer,
        )
        keep = self._parser.should_keep_alive() and not self._server.draining
        try:
            answer = self._server.handler(request)
        except Exception:  # noqa: BLE001  (one request's fault is not the server's end; what it was stays unsaid)
            answer = Response(500)
        self._watch(self._server.limits.idle_s)
        if isinstance(answer, Response) and not self._waiting:
            self._write(answer, keep)
            return
        if not isinstance(answer, Response):
            answer = asyncio.ensure_future(answer)
            answer.add_done_callback(self._answered)
        self._waiting.append(answer)
        self._keep.append(keep)
        if len(self._waiting) > self._server.limits.pipelined and self._transport is not None:
            self._transport.pause_reading()

    # ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _answered(self, _future: asyncio.Future[Response]) -> None:
        while self._waiting and not self._closing:
            one = self._waiting[0]
            if isinstance(one, asyncio.Future):
                if not one.done():
                    break
                fault = one.cancelled() or one.exception() is not None
                one = Response(503 if one.cancelled() else 500) if fault else one.result()
            self._waiting.popleft()
            self._write(one, self._keep.popleft())
        if self._transport is not None and not self._closing and len(self._waiting) <= self._server.limits.pipelined:
            self._transport.resume_reading()

    def _write(self, response: Response, keep: bool) -> None:
        if self._transport is None or self._closing:
            return
        keep = keep and not self._server.draining
        self._transport.write(self._server.head(response, keep_alive=keep) + response.body)
        if not keep:
            self._closing = True
            self._transport.close()

    def _refuse(self, status: int, sentence: str) -> None:
        """Answer and hang up: what follows on this connection cannot be understood, or should not be read."""
        if self._closing or self._transport is None:
            return
        response = self._server.refusals.get(status) or Response(status, (sentence + "\n").encode(), "text/plain")
        self._closing = True
        self._transport.write(self._server.head(response, keep_alive=False) + response.body)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._watch(_LINGER_S)

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _watch(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._out_of_time)

    def _out_of_time(self) -> None:
        if self._waiting:
            self._watch(self._server.limits.idle_s)
        else:
            self.abort()

    def close_when_idle(self) -> None:
        """Close now, or after the answers that are still owed."""
        if not self._waiting:
            self._closing = True
            if self._transport is not None:
                self._transport.close()
        elif self._keep:
            self._keep[-1] = False

    def abort(self) -> None:
        """Hang up."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()
