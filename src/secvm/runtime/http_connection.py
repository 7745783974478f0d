"""One HTTP connection: bytes → requests → answers, in order.

Its rules:

 1. Answers keep the order of their requests, also those that refuse one.
 2. While answers are not read, or too many are owed, nothing is read and no request is handed over; those that came in
    the same piece are held back.
 3. After a refusal nothing more is understood. What still comes is read and thrown away for a moment: closing at once
    would make the other side's system throw away our answer.
 4. A request whose end is not certain (two lengths, a length and chunks) is refused, never guessed.
 5. Nothing here waits: the server looks in once a second and ends what took too long.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

import httptools

from secvm.runtime.http_messages import BeforeBody, Handler, Heads, Limits, Request, Response

#: How long somebody who was refused may go on talking.
_LINGER_S = 5.0
#: Answers to pipelined requests are written together, up to about this much.
_WRITE_TOGETHER = 2**16
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
#: Spellings that nearly all requests use, so that they need not be made again for each.
_NAMES = {
    spelling.encode(): name
    for name in (
        "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "date", "expect",
        "host", "secvm-credential", "transfer-encoding", "user-agent",
    )
    for spelling in (name, name.title())
}  # fmt: skip
_METHODS = {name.encode(): name for name in ("GET", "HEAD", "POST")}


class Owner(Protocol):
    """What a connection knows of its server."""

    handler: Handler
    before_body: BeforeBody
    limits: Limits
    body_limits: Mapping[str, int]
    refusals: Mapping[int, Response]
    heads: Heads
    draining: bool
    #: Seconds, from anywhere.
    time: Callable[[], float]

    def opened(self, connection: Connection) -> bool:
        """Whether there is room for one more."""
        ...

    def closed(self, connection: Connection) -> None:
        """It is gone."""
        ...

    def keep(self, task: asyncio.Task[Response]) -> None:
        """Hold a handler's task until it is done: the loop alone would not."""
        ...


class _Stop(Exception):  # noqa: N818  (no error: it only ends the parser's work)
    """Nothing more is read from this connection."""


class Connection(asyncio.Protocol):
    """One connection of a server."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._peer = ""
        #: Requests that may not be handed over yet, and refusals behind them.
        self._held: deque[Request | Response] = deque()
        #: Answers that are owed, and whether each is to a HEAD request.
        self._waiting: deque[tuple[asyncio.Future[Response] | Response, bool]] = deque()
        self._out: list[bytes] = []
        self._out_bytes = 0
        #: Inside a loop that writes together at its end.
        self._busy = False
        #: No request is taken any more; when all answers are given, the connection ends.
        self._ending = False
        self._refused = self._leaving = self._gone = False
        self._reading = True
        self._writing = True
        #: When the present state began: a request, a pause, a farewell; and since when nothing can be written.
        self._since = self._stuck_since = 0.0
        self._receiving = self._in_head = self._owes_continue = False
        self._target = b""
        self._path = self._query = ""
        self._headers: dict[str, str] = {}
        self._body: bytes | bytearray = b""
        #: Of the head's finished parts; and of the pieces in which it came so far.
        self._head_bytes = self._head_pieces = 0
        self._head_limit = owner.limits.head_bytes
        self._body_limit = 0
        #: Whether the piece that is being read ended a request.
        self._completed = False

    # ── asyncio ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream's; uvloop's is no subclass of asyncio's
        self._since = self._owner.time()
        if not self._owner.opened(self):
            self._ending = self._gone = True
            transport.abort()  # type: ignore[attr-defined]  # as above
            return
        peer = transport.get_extra_info("peername")
        self._peer = str(peer[0]) if peer else ""

    def connection_lost(self, _error: Exception | None) -> None:
        self._ending = self._gone = True
        self._held.clear()
        self._waiting.clear()
        self._out.clear()
        self._owner.closed(self)

    def data_received(self, data: bytes) -> None:
        if self._ending:
            return
        self._busy = True
        self._completed = False
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self._ending:
                self._refuse(400, "this is no HTTP request")
        finally:
            self._busy = False
        if self._in_head and not self._completed:
            # All of this belongs to one head. The parser keeps an unfinished field to itself: uncounted, it could grow
            # for ever.
            self._head_pieces += len(data)
            if self._head_pieces > self._head_limit:
                self._refuse(431, "too many header fields")
        if self._out:
            self._flush()
        if not self._reading or self._held or len(self._waiting) >= self._owner.limits.pipelined:
            self._steer()

    def eof_received(self) -> bool:
        """They have said all; answers that are owed can still be read by them."""
        self._ending = True
        self._receiving = self._in_head = False
        return not self._leaving and bool(self._waiting or self._held)

    def pause_writing(self) -> None:
        self._writing = False
        self._stuck_since = self._owner.time()
        self._steer()

    def resume_writing(self) -> None:
        self._writing = True
        self._go_on()

    # ── httptools ────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        if self._ending:
            raise _Stop
        self._receiving = self._in_head = True
        self._since = self._owner.time()
        self._target = self._body = b""
        self._headers = {}
        self._head_bytes = self._head_pieces = 0

    def on_url(self, url: bytes) -> None:
        self._target = self._target + url if self._target else url
        self._head_bytes += len(url)
        if self._head_bytes > self._head_limit:
            self._too_long()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > self._head_limit:
            self._too_long()
        if not self._in_head:
            # A field after the chunks: whoever looked at the head has not seen it.
            return
        known = _NAMES.get(name) or name.decode("latin-1").lower()
        text = value.decode("latin-1").rstrip(" \t")
        headers = self._headers
        headers[known] = f"{headers[known]}, {text}" if known in headers else text

    def _too_long(self) -> None:
        self._refuse(431, "too many header fields")
        raise _Stop

    def on_headers_complete(self) -> None:
        self._in_head = False
        headers = self._headers
        length = headers.get("content-length")
        problem = self._problem(headers, length)
        if problem is None and not self._take_target():
            problem = (400, "this is no target")
        self._body_limit = self._owner.body_limits.get(self._path, self._owner.limits.body_bytes)
        if problem is None and length is not None and int(length) > self._body_limit:
            problem = (413, "too large")
        if problem is not None:
            self._refuse(*problem)
            raise _Stop
        refusal = self._owner.before_body(self._path, headers)
        if refusal is not None:
            self._refuse_with(refusal)
            raise _Stop
        if "expect" in headers:
            self._owes_continue = True
            self._continue()

    def _problem(self, headers: Mapping[str, str], length: str | None) -> tuple[int, str] | None:
        """What is wrong with a head, apart from its target. The parser refuses some of it, too, in some versions."""
        version = self._parser.get_http_version()
        if version not in {"1.1", "1.0"}:
            return 505, "only HTTP/1.1 here"
        if self._parser.should_upgrade():
            return 400, "no upgrades here"
        # (4) The end of the request must be certain.
        coding = headers.get("transfer-encoding")
        if coding is not None and (length is not None or version == "1.0" or coding.lower() != "chunked"):
            return 400, "the length is not clear"
        if length is not None and not (length.isascii() and length.isdigit() and len(length) < 20):
            return 400, "the length is not clear"
        host = headers.get("host")
        if (host is None and version == "1.1") or (host is not None and "," in host):
            return 400, "one host, please"
        if "expect" in headers and headers["expect"].lower() != "100-continue":
            return 417, "only 100-continue is expected here"
        return None

    def _take_target(self) -> bool:
        target = self._target.decode("latin-1")
        if not target.startswith("/"):
            scheme, found, rest = target.partition("://")
            if found and scheme.lower() in {"http", "https"}:
                end = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
                target = rest[end:] if rest[end : end + 1] == "/" else "/" + rest[end:]
            elif target != "*":
                return False
        self._path, _, self._query = target.partition("?")
        return "#" not in target

    def on_body(self, body: bytes) -> None:
        self._owes_continue = False
        if len(self._body) + len(body) > self._body_limit:
            self._refuse(413, "too large")
            raise _Stop
        if not self._body:
            self._body = body
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += body

    def on_message_complete(self) -> None:
        self._receiving = self._owes_continue = False
        self._completed = True
        self._since = self._owner.time()
        if self._owner.draining or not self._parser.should_keep_alive():
            self._ending = True
        method = self._parser.get_method()
        request = Request(
            _METHODS.get(method) or method.decode("latin-1"),
            self._path,
            self._query,
            self._headers,
            self._body if isinstance(self._body, bytes) else bytes(self._body),
            self._peer,
        )
        self._body = b""
        if self._held or not self._writing or len(self._waiting) >= self._owner.limits.pipelined:
            self._held.append(request)
        else:
            self._handle(request)

    # ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _handle(self, request: Request) -> None:
        answer: asyncio.Future[Response] | Response
        try:
            given = self._owner.handler(request)
            if isinstance(given, Response):
                answer = given
            elif asyncio.isfuture(given):
                answer = given
                answer.add_done_callback(self._answered)
            else:
                answer = asyncio.ensure_future(given)
                self._owner.keep(answer)
                answer.add_done_callback(self._answered)
        except Exception:  # noqa: BLE001  (one request's fault is not the server's end; what it was stays unsaid)
            answer = Response(500)
        self._owe(answer, head_only=request.method == "HEAD")

    def _owe(self, answer: asyncio.Future[Response] | Response, *, head_only: bool) -> None:
        if isinstance(answer, Response) and not self._waiting:
            self._send(answer, head_only=head_only)
        else:
            self._waiting.append((answer, head_only))

    def _answered(self, future: asyncio.Future[Response]) -> None:
        if self._gone:
            # Asked, so that nobody complains that nobody asked.
            _ = future.cancelled() or future.exception()
            return
        self._busy = True
        while self._waiting:
            answer, head_only = self._waiting[0]
            if not isinstance(answer, Response):
                if not answer.done():
                    break
                answer = _result(answer)
            self._waiting.popleft()
            self._send(answer, head_only=head_only)
        self._busy = False
        self._go_on()

    def _go_on(self) -> None:
        """Hand over what was held back, as far as that is possible now."""
        if self._busy or self._gone:
            return
        self._busy = True
        while self._held and self._writing and len(self._waiting) < self._owner.limits.pipelined:
            one = self._held.popleft()
            if isinstance(one, Response):
                self._owe(one, head_only=False)
            else:
                self._handle(one)
        self._busy = False
        self._continue()
        self._flush()
        self._steer()

    def _send(self, response: Response, *, head_only: bool) -> None:
        last = self._ending and not self._waiting and not self._held
        data = self._owner.heads.answer(response, keep_alive=not last, head_only=head_only)
        self._out.append(data)
        self._out_bytes += len(data)
        if not self._receiving:
            self._since = self._owner.time()
        if last:
            self._leave()
        elif not self._busy or self._out_bytes > _WRITE_TOGETHER:
            self._flush()

    def _flush(self) -> None:
        if self._out and not self._gone:
            data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
            self._out.clear()
            self._out_bytes = 0
            self._transport.write(data)

    def _continue(self) -> None:
        """Ask for the content of a request whose sender waits to be asked; after the answers before it."""
        if self._owes_continue and not self._waiting and not self._held and not self._ending:
            self._owes_continue = False
            self._out.append(_CONTINUE)

    def _refuse(self, status: int, sentence: str) -> None:
        plain = Response(status, (sentence + "\n").encode(), "text/plain")
        self._refuse_with(self._owner.refusals.get(status, plain))

    def _refuse_with(self, response: Response) -> None:
        self._ending = self._refused = True
        self._receiving = self._in_head = self._owes_continue = False
        if self._held:
            self._held.append(response)
        else:
            self._owe(response, head_only=False)

    # ── pace and end ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _steer(self) -> None:
        """Read, or do not read."""
        reading = self._leaving or (
            self._writing and not self._held and len(self._waiting) < self._owner.limits.pipelined
        )
        if reading == self._reading or self._gone:
            return
        self._reading = reading
        if reading:
            # The pause was ours, and does not count against them.
            self._since = self._owner.time()
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _leave(self) -> None:
        if self._leaving or self._gone:
            return
        self._ending = self._leaving = True
        self._since = self._owner.time()
        self._flush()
        if self._refused:
            # (3)
            self._transport.write_eof()
            self._steer()
        else:
            self._transport.close()

    def finish(self) -> None:
        """Take no further request; end now, or after the answers that are owed and the request that is under way."""
        if not self._receiving:
            self._ending = True
            if not self._waiting and not self._held:
                self._leave()

    def look(self, now: float) -> None:
        """End what took too long."""
        limits = self._owner.limits
        took = now - self._since
        if self._leaving:
            if took > (limits.idle_s if self._transport.get_write_buffer_size() else _LINGER_S):
                self.abort()
        elif not self._writing:
            if now - self._stuck_since > limits.idle_s:
                self.abort()
        elif self._receiving:
            if self._reading and took > limits.request_s + len(self._body) / limits.bytes_per_s:
                self._refuse(408, "too slow")
                self._flush()
        elif not self._waiting and not self._held and took > limits.idle_s:
            self._leave()

    def abort(self) -> None:
        """Hang up."""
        self._ending = True
        if not self._gone:
            self._transport.abort()


def _result(answer: asyncio.Future[Response]) -> Response:
    if answer.cancelled():
        return Response(503)
    if answer.exception() is not None:
        return Response(500)
    result: object = answer.result()
    return result if isinstance(result, Response) else Response(500)
