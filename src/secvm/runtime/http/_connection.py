"""One HTTP connection: bytes → requests (``_parser``) → answers, in order.

Its rules:

 1. Answers keep the order of their requests, also those that refuse one.
 2. While answers are not read, or too many are owed, nothing is read and no request is handed over; those that came in
    the same piece are held back.
 3. After a refusal nothing more is understood. What still comes is read and thrown away for a moment: closing at once
    would make the other side's system throw away our answer.
 4. A large answer is written piece by piece, as it is read: however many read it slowly, it is there once.
 5. Nothing here waits: the server looks in once a second and ends what took too long.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from secvm.runtime.http._parser import Reading
from secvm.runtime.http.messages import HttpRequest, HttpResponse

if TYPE_CHECKING:
    from secvm.runtime.http.server import HttpServer

#: How long somebody who was refused may go on talking.
_LINGER_S = 5.0
#: Answers to pipelined requests are written together, up to about this much; content beyond it goes piece by piece.
_WRITE_TOGETHER = 2**16
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection(Reading, asyncio.Protocol):
    """One connection of a server."""

    __slots__ = (
        "__weakref__",
        "_begun",
        "_busy",
        "_fresh",
        "_gone",
        "_held",
        "_large",
        "_large_at",
        "_leaving",
        "_out",
        "_out_bytes",
        "_reading",
        "_refused",
        "_stuck_since",
        "_transport",
        "_used",
        "_waiting",
        "_writing",
    )

    def __init__(self, server: HttpServer) -> None:
        super().__init__(server)
        self._transport: asyncio.Transport
        #: Requests that may not be handed over yet, and refusals behind them. Both are made when they are needed: an
        #: empty queue takes more memory than all the rest.
        self._held: deque[HttpRequest | HttpResponse] | tuple[()] = ()
        #: Answers that are owed, and whether each is to a HEAD request.
        self._waiting: deque[tuple[asyncio.Future[HttpResponse] | HttpResponse, bool]] | tuple[()] = ()
        self._out: list[bytes] = []
        self._out_bytes = 0
        #: The content that is being written piece by piece, and how far it is; and since when.
        self._large: bytes | None = None
        self._large_at = 0
        self._begun = 0.0
        #: Inside a loop that writes together at its end.
        self._busy = False
        self._refused = self._leaving = self._gone = False
        #: It has brought no request yet.
        self._fresh = True
        #: It has brought one since the guard last asked.
        self._used = False
        self._reading = True
        self._writing = True
        #: Since when nothing can be written.
        self._stuck_since = 0.0

    # ── asyncio ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream's; uvloop's is no subclass of asyncio's
        self._since = self._server.time()
        peer = transport.get_extra_info("peername")
        self._peer = str(peer[0]) if peer else ""
        if not self._server.opened(self, self._peer):
            self._ending = self._gone = True
            transport.abort()  # type: ignore[attr-defined]  # as above

    def connection_lost(self, _error: Exception | None) -> None:
        self._ending = self._gone = True
        self._held = self._waiting = ()
        self._out.clear()
        self._unparsed = b""
        self._forget_body()
        self._drop_large()
        self._server.closed(self)

    def data_received(self, data: bytes) -> None:
        if self._ending:
            return
        self._busy = True
        try:
            self._read(data)
        finally:
            self._busy = False
        if self._out:
            self._flush()
        if not self._reading or self._waiting or self._held or self._unparsed or not self._can_write():
            self._steer()

    def eof_received(self) -> bool:
        """They have said all; answers that are owed can still be read by them."""
        if self._unparsed:
            # Requests among them that came whole are answered, too.
            self._parse_rest()
        self._ending = True
        self._receiving = self._in_head = False
        self._forget_body()
        return not self._leaving and bool(self._waiting or self._held or self._large is not None)

    def pause_writing(self) -> None:
        self._writing = False
        self._stuck_since = self._server.time()
        self._steer()

    def resume_writing(self) -> None:
        self._writing = True
        self._go_on()

    # ── what was read ────────────────────────────────────────────────────────────────────────────────────────────────

    def _has_room(self) -> bool:
        return not self._held and self._may_hand_over()

    def _can_write(self) -> bool:
        return self._writing and self._large is None

    def _requested(self, request: HttpRequest) -> None:
        server = self._server
        if server.draining or not self._parser.should_keep_alive() or server.closes_after(request.path):
            self._ending = True
        self._fresh = False
        self._used = True
        if self._has_room():
            self._handle(request)
        else:
            self._hold(request)

    def may_go(self) -> bool:
        used, self._used = self._used, False
        in_content = self._receiving and not self._in_head
        return not (used or in_content or self._waiting or self._held or self._large is not None)

    def _parse_rest(self) -> None:
        rest, self._unparsed = self._unparsed, b""
        self._busy = True
        self._parse(rest)
        self._busy = False
        self._flush()

    def _hold(self, message: HttpRequest | HttpResponse) -> None:
        if not isinstance(self._held, deque):
            self._held = deque()
        self._held.append(message)

    # ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _handle(self, request: HttpRequest) -> None:
        answer: asyncio.Future[HttpResponse] | HttpResponse
        try:
            given = self._server.handler(request)
            if isinstance(given, HttpResponse):
                answer = given
            elif asyncio.isfuture(given):
                answer = given
                answer.add_done_callback(self._answered)
            else:
                answer = asyncio.ensure_future(given)
                self._server.keep(answer)
                answer.add_done_callback(self._answered)
        except Exception:  # noqa: BLE001  (one request's fault is not the server's end; what it was stays unsaid)
            answer = HttpResponse(500)
        self._owe(answer, head_only=request.method == "HEAD")

    def _owe(self, answer: asyncio.Future[HttpResponse] | HttpResponse, *, head_only: bool) -> None:
        if isinstance(answer, HttpResponse) and not self._waiting and self._large is None:
            self._send(answer, head_only=head_only)
            return
        if not isinstance(self._waiting, deque):
            self._waiting = deque()
        self._waiting.append((answer, head_only))

    def _answered(self, future: asyncio.Future[HttpResponse]) -> None:
        if self._gone:
            # Asked, so that nobody complains that nobody asked.
            _ = future.cancelled() or future.exception()
            return
        self._go_on()

    def _send_ready(self) -> None:
        """The answers that are there, in their order."""
        while self._waiting and self._large is None:
            answer, head_only = self._waiting[0]
            if not isinstance(answer, HttpResponse):
                if not answer.done():
                    return
                answer = _result(answer)
            self._waiting.popleft()
            self._send(answer, head_only=head_only)

    def _go_on(self) -> None:
        """Send what is ready, and hand over what was held back, as far as that is possible now."""
        if self._busy or self._gone:
            return
        self._busy = True
        self._write_large()
        self._send_ready()
        while self._held and self._may_hand_over():
            message = self._held.popleft()
            if isinstance(message, HttpResponse):
                self._owe(message, head_only=False)
            else:
                self._handle(message)
        if self._unparsed and not self._ending and self._has_room():
            self._read(b"")
        self._busy = False
        self._continue()
        self._flush()
        self._steer()

    def _may_hand_over(self) -> bool:
        return not self._gone and self._can_write() and len(self._waiting) < self._server.limits.pipelined

    def _send(self, response: HttpResponse, *, head_only: bool) -> None:
        last = self._ending and not self._waiting and not self._held
        head, body = self._server.heads.answer(response, keep_alive=not last, head_only=head_only)
        if len(body) > _WRITE_TOGETHER:
            self._out.append(head)
            self._flush()
            self._begin_large(body)
        else:
            self._out.append(head + body)
            self._out_bytes += len(head) + len(body)
        if not self._receiving:
            self._since = self._server.time()
        if self._large is not None:
            return
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

    # ── (4) ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin_large(self, body: bytes) -> None:
        self._large, self._large_at, self._begun = body, 0, self._server.time()
        self._server.guard.hold(self, body)
        self._write_large()

    def _write_large(self) -> None:
        while self._large is not None and self._writing and not self._gone:
            at = self._large_at
            self._large_at = at + _WRITE_TOGETHER
            piece, last = self._large[at : self._large_at], self._large_at >= len(self._large)
            self._server.guard.moved(self)
            if last:
                self._drop_large()
            self._transport.write(piece)
            if last:
                self._after_large()

    def _after_large(self) -> None:
        if not self._receiving:
            self._since = self._server.time()
        if self._ending and not self._waiting and not self._held and not self._receiving:
            self._leave()

    def _drop_large(self) -> None:
        if self._large is not None:
            body, self._large = self._large, None
            self._server.guard.release(self, body)

    # ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _continue(self) -> None:
        """Ask for the content of a request whose sender waits to be asked; after the answers before it."""
        owes = self._waiting or self._held or self._large is not None
        if self._owes_continue and not owes and not self._ending:
            self._owes_continue = False
            self._out.append(_CONTINUE)

    def _refuse(self, status: int, sentence: str) -> None:
        plain = HttpResponse(status, (sentence + "\n").encode(), "text/plain")
        self._refuse_with(self._server.refusals.get(status, plain))

    def _refuse_with(self, response: HttpResponse) -> None:
        self._ending = self._refused = True
        self._receiving = self._in_head = self._owes_continue = False
        self._unparsed = b""
        self._forget_body()
        if self._held:
            self._hold(response)
        else:
            self._owe(response, head_only=False)

    # ── pace and end ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _steer(self) -> None:
        """Read, or do not read."""
        reading = self._leaving or (self._has_room() and not self._unparsed)
        if reading == self._reading or self._gone:
            return
        self._reading = reading
        if reading:
            # The pause was ours, and does not count against them.
            self._since = self._server.time()
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _leave(self) -> None:
        if self._leaving or self._gone:
            return
        self._ending = self._leaving = True
        self._since = self._server.time()
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
            self._unparsed = b""
            if not self._waiting and not self._held and self._large is None:
                self._leave()

    def look(self, now: float) -> None:
        """End what took too long."""
        limits = self._server.limits
        took = now - self._since
        if self._leaving:
            if took > (limits.idle_s if self._transport.get_write_buffer_size() else _LINGER_S):
                self.abort()
        elif not self._writing and now - self._stuck_since > limits.idle_s:
            self.abort()
        elif self._large is not None:
            if now - self._begun > limits.idle_s + self._large_at / limits.answer_bytes_per_s:
                self.abort()
        elif not self._writing:
            pass
        elif self._receiving:
            if self._reading and self._is_slow(now):
                self._refuse(408, "too slow")
                self._flush()
        elif not self._waiting and not self._held and took > self._patience_s():
            self._leave()

    def _patience_s(self) -> float:
        """How long it may be silent; who has said nothing at all has no longer than for a head."""
        limits = self._server.limits
        return min(limits.head_s, limits.idle_s) if self._fresh else limits.idle_s

    def abort(self) -> None:
        """Hang up."""
        self._ending = True
        if not self._gone:
            self._gone = True
            self._drop_large()
            self._transport.abort()


def _result(answer: asyncio.Future[HttpResponse]) -> HttpResponse:
    if answer.cancelled():
        return HttpResponse(503)
    if answer.exception() is not None:
        return HttpResponse(500)
    result: object = answer.result()
    return result if isinstance(result, HttpResponse) else HttpResponse(500)
