"""HttpClient: one question to a web server, with limits, for whoever may block: the command line, an audit, a thread.

1. Nothing is followed. A redirect is an answer like any other, so that neither a question nor a key goes elsewhere.
2. The whole answer has one deadline, its head and the lengths of its chunks included. The time limit of a socket alone
   would begin anew with every byte that trickles in.
3. No more is read than the caller allows.
4. A proxy of the environment is for the world outside: this machine is asked directly.
"""

from __future__ import annotations

import functools
import http.client
import io
import socket
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from secvm.errors import UnreachableError
from secvm.runtime.clock import Clock
from secvm.runtime.http_messages import is_loopback

_PIECE_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a server answered, whatever its status."""

    status: int
    #: Up to one byte more than the caller allows: a longer answer is cut there, and told by that byte.
    content: bytes = field(repr=False)


class HttpClient:
    """Asks one thing after the other, each over a connection of its own."""

    def __init__(self, clock: Clock, *, answer_s: float) -> None:
        """``answer_s``: for one answer, all of it."""
        self._answer_s = answer_s
        self._opener = urllib.request.build_opener(_EveryStatus, _ProxyOutside, _InTime(clock))

    def ask(
        self,
        url: str,
        *,
        most: int,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> HttpAnswer:
        """The answer of the server at ``url``, which begins with http:// or https://; at most ``most`` bytes of it.

        Raises
        ------
        UnreachableError
            There is no answer, no whole one, or none in time; the message says which in a few words.
        """
        # The caller has looked at the scheme.
        request = urllib.request.Request(url, data=body, headers=dict(headers or {}), method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=self._answer_s) as answer:
                return HttpAnswer(answer.status, _read(answer, most))
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                raise UnreachableError(f"it answers too slowly, not within {self._answer_s:g} s") from None
            raise UnreachableError(getattr(reason, "strerror", None) or "no answer") from None


def _read(answer: http.client.HTTPResponse, most: int) -> bytes:
    pieces: list[bytes] = []
    length = 0
    while length <= most and (piece := answer.read1(min(_PIECE_BYTES, most + 1 - length))):
        length += len(piece)
        pieces.append(piece)
    data = b"".join(pieces)
    promised = answer.headers.get("content-length", "")
    if length <= most and promised.isdecimal() and int(promised) != length:
        raise http.client.IncompleteRead(data)
    return data


class _EveryStatus(urllib.request.HTTPErrorProcessor):
    """Hands on every answer as it is; what urllib does otherwise, following redirects above all, begins here."""

    def http_response(self, request: urllib.request.Request, response: Any) -> Any:  # noqa: ARG002  (urllib's interface)
        return response

    https_response = http_response


class _ProxyOutside(urllib.request.ProxyHandler):
    """Uses proxies of the environment for other machines alone."""

    def proxy_open(self, req: urllib.request.Request, proxy: str, type: str) -> Any:  # noqa: A002  (urllib's interface)
        host = urllib.parse.urlsplit(req.full_url).hostname
        return None if is_loopback(host or "") else super().proxy_open(req, proxy, type)


class _InTime(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens connections whose answers have a deadline: the request's time limit, counted from here."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self._open(http.client.HTTPConnection, req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self._open(http.client.HTTPSConnection, req)

    def _open(
        self, kind: type[http.client.HTTPConnection], request: urllib.request.Request
    ) -> http.client.HTTPResponse:
        assert request.timeout is not None
        until = self._clock.now() + int(1000 * request.timeout)

        def left_s() -> float:
            left = (until - self._clock.now()) / 1000
            if left <= 0:
                raise TimeoutError
            return left

        def connect(host: str, **more: Any) -> http.client.HTTPConnection:
            connection = kind(host, **more)
            connection.response_class = functools.partial(_Response, left_s=left_s)  # type: ignore[assignment]
            return connection

        return self.do_open(connect, request)


class _Response(http.client.HTTPResponse):
    """An answer that is read through ``_Hurried``, from the first byte of its head."""

    def __init__(self, sock: socket.socket, *more: Any, left_s: Callable[[], float], **named: Any) -> None:
        super().__init__(sock, *more, **named)
        self.fp = io.BufferedReader(_Hurried(self.fp.detach(), sock, left_s))


class _Hurried(io.RawIOBase):
    """The bytes of a socket; every read has what is left of the time."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, left_s: Callable[[], float]) -> None:
        self._raw, self._socket, self._left_s = raw, sock, left_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(self._left_s())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()
