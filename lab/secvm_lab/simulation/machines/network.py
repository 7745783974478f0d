"""A network in memory: requests go from one party's client to another's handler, or are lost, late, doubled, spoilt.

The clients are the real ones (devices' transport, the relay's way to the gateway, the cosigner); only the HTTP client
under them is ``Session``. The handlers are the real ones, without the server that reads from sockets.
**Links** are kinds of ways; a fate is put on a link, and the next message on it has it:

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
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp

from secvm.errors import UnreachableError
from secvm.runtime.http.client import HttpAnswer, HttpClient, SlowAnswerError
from secvm.runtime.http.server import HttpRequest, HttpResponse
from secvm_lab.simulation.machines.lives import LIFE, KilledError, Life, release
from secvm_lab.simulation.machines.loop import SimulatedClock

LINKS = ("package", "fetch", "deposit", "witness")
FATES = ("lose request", "lose answer", "double", "late", "reorder", "spoil request", "spoil answer")
#: Links whose bytes nobody can change unnoticed.
_GUARDED = ("deposit", "witness")
#: How long something is late, and how long the first of two waits for the second.
LATE_S = 7.0
_MOMENT_S = 0.002


class Party(Protocol):
    """Whoever answers requests."""

    name: str
    life: Life
    clock: SimulatedClock

    def handle(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        """Answer one request."""
        ...


#: Told of every answer that leaves a party, or that none does: who, what was asked, what its clock showed when it came,
#: the answer.
Watch = Callable[[Party, HttpRequest, int, HttpResponse | None], None]


class Network:
    """Between all parties."""

    def __init__(self, dice: random.Random, find: Callable[[str], Party | None]) -> None:
        """``find``: who answers to a name now; None: nobody."""
        self._dice, self._find = dice, find
        self._fates: dict[str, deque[str]] = {link: deque() for link in LINKS}
        #: The first of two that change places waits for this.
        self._held: dict[str, asyncio.Future[None]] = {}
        self.watchers: list[Watch] = []
        #: What happened, by fate.
        self.done: Counter[str] = Counter()

    def strike(self, link: str, fate: str) -> None:
        """The next message on this link fares like that."""
        self._fates[link].append(fate)

    def heal(self) -> None:
        """From now on everything arrives."""
        for fates in self._fates.values():
            fates.clear()
        for held in self._held.values():
            release(held)

    async def exchange(self, link: str, request: HttpRequest, host: str, timeout_s: float) -> HttpResponse:
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

    async def _carry(self, link: str, request: HttpRequest, host: str, fate: str) -> HttpResponse:
        held = self._held.pop(link, None)
        if held is not None:
            # Somebody waits to be overtaken.
            asyncio.get_running_loop().call_later(0.001, release, held)
        if link == "package":
            # Who is refused in the last millisecond of a window tries again at once, until it is over.
            await asyncio.sleep(_MOMENT_S)
        if fate == "lose request":
            raise aiohttp.ClientConnectionError
        if fate == "late":
            await asyncio.sleep(LATE_S)
        elif fate == "reorder":
            held = self._held[link] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(LATE_S, release, held)
            await held
        elif fate == "spoil request":
            request = HttpRequest(
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
            answer = HttpResponse(answer.status, self._spoilt(answer.body), answer.media_type, answer.headers)
        return answer

    def _spoilt(self, data: bytes) -> bytes:
        if not data:
            return data
        at = self._dice.randrange(len(data))
        return data[:at] + bytes([data[at] ^ (1 << self._dice.randrange(8))]) + data[at + 1 :]

    def deliver(self, request: HttpRequest, host: str) -> asyncio.Future[HttpResponse]:
        """Have it answered, in the name of whoever answers. A connection breaks when its server dies."""
        party = self._find(host)
        asked = _Asked(self, party, request)
        if party is None or party.life.dead:
            asked.answered(None)
        else:
            asked.begin(party)
        return asked.answer


def _never_mind(answer: object) -> None:
    """Of an answer that nobody waits for any more, nothing is left."""
    if asyncio.iscoroutine(answer):
        answer.close()


class _Asked:
    """A request at the door of somebody."""

    def __init__(self, network: Network, party: Party | None, request: HttpRequest) -> None:
        self.answer: asyncio.Future[HttpResponse] = asyncio.get_running_loop().create_future()
        self._network, self._party, self._request = network, party, request
        self._at = 0 if party is None else party.clock.now()

    def begin(self, party: Party) -> None:
        """Most are GETs, and nearly all of them are answered at once: no task for those."""
        later: Awaitable[HttpResponse] | None = None
        if self._request.method == "GET" and party.life.stalled is None:
            found = self._at_once(party)
            if found is None or isinstance(found, HttpResponse):
                self.answered(found)
                return
            later = found
        serving = party.life.spawn(self._serve(party, later))
        serving.add_done_callback(self._served)
        # Whoever died before it began has not waited for it.
        serving.add_done_callback(lambda _task: _never_mind(later))

    def _at_once(self, party: Party) -> HttpResponse | Awaitable[HttpResponse] | None:
        found: HttpResponse | Awaitable[HttpResponse] | None = None
        try:
            party.life.point()
            found = party.life.run(party.handle, self._request)
            party.life.point()
        except KilledError:
            _never_mind(found)
            return None
        except Exception:  # noqa: BLE001  (a handler that raises is a 500 to the outside)
            return HttpResponse(500)
        return found

    async def _serve(self, party: Party, later: Awaitable[HttpResponse] | None) -> HttpResponse:
        # Now, and not when it came: whoever stood still looks at its clock when it goes on.
        self._at = party.clock.now()
        answer = party.handle(self._request) if later is None else later
        return await answer if isinstance(answer, Awaitable) else answer

    def _served(self, task: asyncio.Task[HttpResponse]) -> None:
        if task.cancelled():
            self.answered(None)
        else:
            self.answered(HttpResponse(500) if task.exception() is not None else task.result())

    def answered(self, answer: HttpResponse | None) -> None:
        """What leaves; None: the connection breaks, or there never was one."""
        if self._party is not None:
            for watch in self._network.watchers:
                watch(self._party, self._request, self._at, answer)
        if self.answer.done():
            return
        if answer is not None:
            self.answer.set_result(answer)
            return
        self.answer.set_exception(aiohttp.ServerDisconnectedError())
        # Nobody may ask for it any more.
        self.answer.exception()


#: Without another word of it, a request is given up after so long.
TIMEOUT_S = 30.0


class Session(HttpClient):
    """Asks over the simulated network."""

    def __init__(self, network: Network, link: str, date: Callable[[], str | None] = lambda: None) -> None:
        """``date``: what servers say in their field of that name."""
        super().__init__(answer_s=TIMEOUT_S)
        self.network, self.link, self.date = network, link, date

    async def ask(
        self,
        url: str,
        *,
        most: int,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        answer_s: float | None = None,
    ) -> HttpAnswer:
        parts = urlsplit(url)
        lower = {name.lower(): value for name, value in (headers or {}).items()}
        request = HttpRequest(method, parts.path or "/", parts.query, lower, body or b"", "127.0.0.1")
        link = "fetch" if self.link == "package" and method == "GET" else self.link
        try:
            answer = await self.network.exchange(link, request, parts.hostname or "", answer_s or TIMEOUT_S)
        except aiohttp.ServerTimeoutError:
            raise SlowAnswerError from None
        except aiohttp.ClientError:
            raise UnreachableError from None
        told = {name.title(): value for name, value in answer.headers}
        told["Content-Type"] = answer.media_type
        date = self.date()
        if date is not None:
            told["Date"] = date
        return HttpAnswer(answer.status, answer.body[: most + 1], told)
