"""A network in memory: requests go from one party's client to another's handler, or are lost, late, doubled, spoilt.

The clients are the real ones (devices' transport, the relay's way to the gateway, the cosigner); only the session under
them is ``Session``. The handlers are the real ones; only the server that reads bytes from sockets is missing. **Links**
are kinds of ways; a fate is put on a link, and the next message on it has it:

    package   a device sends a capsule, to the relay or straight to the coordinator
    fetch     a device asks for a public file
    deposit   the relay hands something on to the coordinator
    witness   the coordinator asks a witness

Between servers a spoilt message is a lost one, because TLS is assumed there: nothing in a deposit says that its
capsules are those that the relay has signed for. Between devices and servers bytes are really changed.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

import aiohttp

from secvm.runtime.http_server import Request, Response
from secvm.testing.simulation.clock import SimulatedClock
from secvm.testing.simulation.lives import LIFE, KilledError, Life

LINKS = ("package", "fetch", "deposit", "witness")
FATES = ("lose request", "lose answer", "double", "late", "reorder", "spoil request", "spoil answer")
#: Links whose bytes nobody can change unnoticed.
_GUARDED = ("deposit", "witness")
#: How long something is late, and how long the first of two waits for the second.
LATE_S = 7.0
_MOMENT_S = 0.002
#: Without another word of it, a request is given up after so long.
TIMEOUT_S = 30.0


class Party(Protocol):
    """Whoever answers requests."""

    name: str
    life: Life
    clock: SimulatedClock

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answer one request."""
        ...


#: Told of every answer that leaves a party, or that none does: who, what was asked, what its clock showed when it came,
#: the answer.
Watch = Callable[[Party, Request, int, Response | None], None]


class Network:
    """Between all parties."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._hosts: dict[str, Callable[[], Party | None]] = {}
        self._fates: dict[str, deque[str]] = {link: deque() for link in LINKS}
        #: The first of two that change places waits for this.
        self._held: dict[str, asyncio.Future[None]] = {}
        self.watchers: list[Watch] = []
        #: What happened, by fate.
        self.done: Counter[str] = Counter()

    def host(self, name: str, find: Callable[[], Party | None]) -> None:
        """Who answers to this name now; None: nobody."""
        self._hosts[name] = find

    def strike(self, link: str, fate: str) -> None:
        """The next message on this link fares like that."""
        self._fates[link].append(fate)

    def heal(self) -> None:
        """From now on everything arrives."""
        for fates in self._fates.values():
            fates.clear()
        for held in self._held.values():
            _release(held)

    async def exchange(self, link: str, request: Request, host: str, timeout_s: float) -> Response:
        """One request and its answer. Raises what aiohttp raises."""
        client = LIFE.get()
        if client is not None:
            client.point()
        fates = self._fates[link]
        fate = fates.popleft() if fates else ""
        if fate.startswith("spoil") and link in _GUARDED:
            fate = "lose request" if fate == "spoil request" else "lose answer"
        if fate:
            self.done[fate] += 1
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._carry(link, request, host, fate)
        except TimeoutError:
            raise aiohttp.ServerTimeoutError from None
        except aiohttp.ClientError:
            # It takes a moment to learn that nobody is there; who tries again at once would try for ever.
            await asyncio.sleep(_MOMENT_S)
            raise
        if client is not None:
            client.point()
        return answer

    async def _carry(self, link: str, request: Request, host: str, fate: str) -> Response:
        held = self._held.pop(link, None)
        if held is not None:
            # Somebody waits to be overtaken.
            asyncio.get_running_loop().call_later(0.001, _release, held)
        if link == "package":
            # Who is refused in the last millisecond of a window tries again at once, until it is over.
            await asyncio.sleep(_MOMENT_S)
        if fate == "lose request":
            raise aiohttp.ClientConnectionError
        if fate == "late":
            await asyncio.sleep(LATE_S)
        elif fate == "reorder":
            held = self._held[link] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(LATE_S, _release, held)
            await held
        elif fate == "spoil request":
            request = Request(
                request.method, request.path, request.query, request.headers, self._spoilt(request.body), request.peer
            )
        answering = self.deliver(request, host)
        if fate == "double":
            # Both are on their way; whose answer comes back is nobody's business.
            asyncio.get_running_loop().call_later(LATE_S, self.deliver, request, host)
        answer = await answering
        if fate == "lose answer":
            raise aiohttp.ClientConnectionError
        if fate == "spoil answer":
            answer = Response(answer.status, self._spoilt(answer.body), answer.media_type, answer.headers)
        return answer

    def _spoilt(self, data: bytes) -> bytes:
        if not data:
            return data
        at = self._dice.randrange(len(data))
        return data[:at] + bytes([data[at] ^ (1 << self._dice.randrange(8))]) + data[at + 1 :]

    def deliver(self, request: Request, host: str) -> asyncio.Future[Response]:
        """Have it answered, in the name of whoever answers. A connection breaks when its server dies."""
        answering: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        party = self._hosts[host]()
        if party is None or party.life.dead:
            answering.set_exception(aiohttp.ClientConnectionError())
            answering.exception()
            return answering
        found: Party = party
        at = found.clock.now()

        def answered(answer: Response | None) -> None:
            for watch in self.watchers:
                watch(found, request, at, answer)
            if answering.done():
                return
            if answer is None:
                answering.set_exception(aiohttp.ServerDisconnectedError())
                # Nobody may ask for it any more.
                answering.exception()
            else:
                answering.set_result(answer)

        async def serve(later: Awaitable[Response] | None) -> Response:
            answer = found.handle(request) if later is None else later
            return await answer if isinstance(answer, Awaitable) else answer

        def served(task: asyncio.Task[Response]) -> None:
            if task.cancelled():
                answered(None)
            else:
                # A handler that raises is a 500 to the outside.
                answered(Response(500) if task.exception() is not None else task.result())

        later: Awaitable[Response] | None = None
        if request.method == "GET" and found.life.stalled is None:
            # Most requests, and nearly all of them are answered at once: no task for that.
            try:
                found.life.point()
                answer = found.life.run(found.handle, request)
                found.life.point()
            except KilledError:
                answered(None)
                return answering
            except Exception:  # noqa: BLE001  (as above)
                answered(Response(500))
                return answering
            if isinstance(answer, Response):
                answered(answer)
                return answering
            later = answer
        found.life.spawn(serve(later)).add_done_callback(served)
        return answering


def _release(held: asyncio.Future[None]) -> None:
    if not held.done():
        held.set_result(None)


# ── what a client sees ───────────────────────────────────────────────────────────────────────────────────────────────


class _Content:
    """The content of an answer, to be read in pieces."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def read(self, most: int) -> bytes:
        taken, self._data = self._data[:most], self._data[most:]
        return taken

    async def iter_any(self) -> Any:
        if self._data:
            yield self._data

    async def iter_chunked(self, _size: int) -> Any:
        if self._data:
            yield self._data


class _Answer:
    """As much of aiohttp's response as our clients look at."""

    def __init__(self, answer: Response, date: str | None) -> None:
        self.status = answer.status
        self.content_type = answer.media_type.partition(";")[0] or "application/octet-stream"
        self.content_length = len(answer.body)
        self.content = _Content(answer.body)
        self.headers = {name.title(): value for name, value in answer.headers}
        self.headers["content-type"] = answer.media_type
        if date is not None:
            self.headers["Date"] = date


@dataclass
class _Exchange:
    """A request that is made when its block is entered."""

    session: Session
    request: Request
    host: str
    timeout_s: float

    async def __aenter__(self) -> _Answer:
        session = self.session
        link = "fetch" if session.link == "package" and self.request.method == "GET" else session.link
        answer = await session.network.exchange(link, self.request, self.host, self.timeout_s)
        return _Answer(answer, session.date())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Session:
    """What aiohttp's session is to our clients: all that they use of it."""

    def __init__(self, network: Network, link: str, date: Callable[[], str | None] = lambda: None) -> None:
        """``date``: what servers say in their field of that name."""
        self.network, self.link, self.date = network, link, date

    def post(self, url: object, *, data: bytes, headers: dict[str, str], **_unused: object) -> _Exchange:
        return self.request("POST", url, data=data, headers=headers)

    def get(self, url: object, **_unused: object) -> _Exchange:
        return self.request("GET", url, data=None, headers={})

    def request(
        self,
        method: str,
        url: object,
        *,
        data: bytes | None,
        headers: dict[str, str],
        timeout: aiohttp.ClientTimeout | None = None,
        **_unused: object,
    ) -> _Exchange:
        parts = urlsplit(str(url))
        lower = {name.lower(): value for name, value in headers.items()}
        request = Request(method, parts.path or "/", parts.query, lower, data or b"", "127.0.0.1")
        timeout_s = TIMEOUT_S if timeout is None or timeout.total is None else timeout.total
        return _Exchange(self, request, parts.hostname or "", timeout_s)

    async def close(self) -> None:
        """Nothing to let go of."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


__all__ = ["FATES", "LINKS", "Network", "Party", "Session", "Watch"]
