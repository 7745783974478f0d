"""Serving a page over HTTP with aiohttp: one way for the operator's page, the person's page and a device's status.

Every answer carries ``guarding.HEADERS``, also where the library itself refuses what is not HTTP; none says which
version of what answers. Nothing that was asked is ever written to a log. Who does not finish a request in time is cut
off: ``request_s`` for its head, from the connection's beginning or the answer before, and as long for its body.
"""

from __future__ import annotations

import asyncio
import functools
import gzip
import http
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import orjson
from aiohttp import web

from secvm.errors import BadInputError
from secvm.pages.assets import Asset
from secvm.pages.guarding import HEADERS, RefusedRequestError, is_loopback_address

PROBLEM_MEDIA_TYPE, JSON_MEDIA_TYPE = "application/problem+json", "application/json"
#: For a request; as the other servers' (``runtime.http.messages.Limits``).
REQUEST_S = 15.0
#: How long answers may take to come to their end once all is over; aiohttp waits so long twice.
_GRACE_S = 1.0
#: How long the rest of a refused body is read, so that whoever sends it hears of the refusal.
_LINGERING_S = 2.0
_CONNECTIONS = 1000
_PIECE_BYTES = 2**16
#: Below, gzip saves no packet on the wire; from the second on it takes a while: in a thread.
_WORTH_BYTES, _LARGE_BYTES = 1400, 2**18
_FOR_EVER = "public, max-age=31536000, immutable"

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, repr=False)
class RunningPage:
    """A page that is being served. ``close`` it."""

    #: Where a browser finds it. It may hold a secret and is not printed.
    address: str
    port: int
    _runner: web.ServerRunner

    def __repr__(self) -> str:
        return "RunningPage(...)"

    async def close(self) -> None:
        """Nobody new; what is under way is answered."""
        await self._runner.cleanup()


def loopback(listen: str, *, refusal: str) -> tuple[str, int]:
    """Address and port of ``127.0.0.1:PORT`` or ``[::1]:PORT``; anything else is refused with this sentence."""
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not is_loopback_address(host) or not port.isdecimal() or int(port) > 65_535:
        raise BadInputError(refusal)
    return host, int(port)


def listen_on(host: str, port: int, *, complaint: str) -> socket.socket:
    """A port that browsers can come to; 0: any. ``complaint`` begins the sentence that says why there is none."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family, backlog=200)
    except OSError as error:
        why = "no such address" if error.strerror is None else os.strerror(error.errno or 0)
        raise BadInputError(
            f"{complaint}: {why}", next_step="Another port can be named with --listen, such as --listen 127.0.0.1:0."
        ) from None


async def serve(
    door: socket.socket,
    answer: Answer,
    *,
    request_s: float = REQUEST_S,
    leaving_cancels: bool = False,
    tell_fault: Callable[[Exception], None] = lambda _: None,
) -> RunningPage:
    """Serve ``answer`` at a listening socket.

    A ``RefusedRequestError`` is answered as a problem, any other fault with 500 after ``tell_fault``. With
    ``leaving_cancels`` who closes a connection cancels the answer that is under way.
    """

    async def answered(request: web.BaseRequest) -> web.StreamResponse:
        if len(server.connections) > _CONNECTIONS:
            return problem(503, "Too many are connected already.")
        try:
            return await answer(request)
        except RefusedRequestError as refused:
            return problem(refused.status, str(refused))
        except ConnectionError:
            raise
        except Exception as fault:  # noqa: BLE001  (told by its kind; its message may hold anything)
            tell_fault(fault)
            return problem(500, "Something went wrong in this program.")

    # Outside of the tree of loggers: the library would quote a line that it cannot read, and a secret with it.
    silent = logging.Logger("silent")  # noqa: LOG001
    silent.disabled = True
    server = web.Server(
        answered,
        request_factory=functools.partial(_PlainRequest, loop=asyncio.get_running_loop()),
        handler_cancellation=leaving_cancels,
        access_log=None,
        logger=silent,
        keepalive_timeout=request_s,
        lingering_time=min(_LINGERING_S, request_s),
        auto_decompress=False,
    )
    runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=_GRACE_S)
    await runner.setup()
    await web.SockSite(runner, door).start()
    host, port = door.getsockname()[:2]
    return RunningPage(f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/", port, runner)


class _PlainRequest(web.BaseRequest):
    """A request whose answer says what it must, and not what the library adds."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        response.headers.pop("server", None)
        for name, value in {**HEADERS, "cache-control": "no-store"}.items():
            response.headers.setdefault(name, value)


# ── what comes ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def body_of(request: web.BaseRequest, *, most: int, within_s: float = REQUEST_S) -> bytes:
    """The content of a request; 413 above ``most`` bytes, 408 where it does not come in time."""
    too_long = RefusedRequestError(413, "This is too long.")
    if (request.content_length or 0) > most:
        raise too_long
    pieces, size = [], 0
    try:
        async with asyncio.timeout(within_s):
            async for piece in request.content.iter_chunked(_PIECE_BYTES):
                size += len(piece)
                if size > most:
                    raise too_long
                pieces.append(piece)
    except TimeoutError:
        raise RefusedRequestError(408, "This took too long to come.") from None
    return b"".join(pieces)


# ── what goes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def problem(status: int, detail: str, next_step: str | None = None) -> web.Response:
    """A refusal (RFC 9457), with one sentence for whoever asked."""
    try:
        title = http.HTTPStatus(status).phrase
    except ValueError:
        title = "Refused"
    content = {"type": "about:blank", "title": title, "status": status, "detail": detail, "next": next_step}
    headers = {"allow": "GET, HEAD, POST"} if status == http.HTTPStatus.METHOD_NOT_ALLOWED else {}
    return web.Response(status=status, body=orjson.dumps(content), content_type=PROBLEM_MEDIA_TYPE, headers=headers)


async def as_json(request: web.BaseRequest, content: object) -> web.Response:
    """An answer in JSON, in which an infinite number is null."""
    data = orjson.dumps(content)
    headers = {"vary": "accept-encoding"}
    if len(data) >= _WORTH_BYTES and _takes_gzip(request):
        headers["content-encoding"] = "gzip"
        # Quick rather than small: it is made for one visitor.
        data = await asyncio.to_thread(gzip.compress, data, 1) if len(data) > _LARGE_BYTES else gzip.compress(data, 1)
    return web.Response(body=data, content_type=JSON_MEDIA_TYPE, headers=headers)


def as_file(request: web.BaseRequest, asset: Asset, *, status: int = 200) -> web.Response:
    """A file of the page. Under its digest it never changes; otherwise a browser asks whether it has.

    With another ``status`` it is shown in place of what was asked for, and is nothing to keep.
    """
    if status != http.HTTPStatus.OK:
        return web.Response(status=status, body=asset.content, headers={"content-type": asset.media_type})
    tag = f'"{asset.digest}"'
    lasting = request.query.get("v") == asset.digest
    headers = {"etag": tag, "cache-control": _FOR_EVER if lasting else "no-cache", "vary": "accept-encoding"}
    if tag in [known.strip().removeprefix("W/") for known in request.headers.get("if-none-match", "").split(",")]:
        return web.Response(status=304, headers=headers)
    content, coding = content_of(request, asset)
    return web.Response(body=content, headers={**headers, **coding, "content-type": asset.media_type})


def content_of(request: web.BaseRequest, asset: Asset) -> tuple[bytes, dict[str, str]]:
    """A file's bytes in the smallest form that this visitor takes, and the header that says which it is."""
    if _takes_gzip(request) and len(asset.gzipped) < len(asset.content):
        return asset.gzipped, {"content-encoding": "gzip"}
    return asset.content, {}


def _takes_gzip(request: web.BaseRequest) -> bool:
    codings = request.headers.get("accept-encoding", "").split(",")
    return any(coding.partition(";")[0].strip().lower() == "gzip" for coding in codings)
