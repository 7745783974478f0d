"""Passage: a port in front of one party or several alike, which sees what goes by.

    with Passage(places=[("127.0.0.1", 8001), ("127.0.0.1", 8002)]) as passage:
        f"http://127.0.0.1:{passage.port}"

It is what an operator has as a load balancer, and no more: request by request, one of the places that have answered
their ``/health`` lately. A place that stops answering loses its connections, and whoever waited there is hung up on:
the request may have been done or not, and only the same request again will tell. Nothing that
changes something is tried twice here.

In bad ``weather`` it loses requests and answers, and is slow with the others.

``watch`` is shown each request with its answer, before the answer goes on. So what it has seen acknowledged is at least
what was told to devices. ``instead`` may answer in the party's place, for tests that need a liar.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from secvm.errors import UnreachableError
from secvm.runtime.http.client import ask_once
from secvm.runtime.service import end_all

Place = tuple[str, int]
_LOOK_EVERY_S = 0.15
_LOOK_PATIENCE_S = 3.0
_CONNECT_PATIENCE_S = 1.0
#: What a connection is told, and not the one behind it; and what aiohttp would add.
_OWN = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding"})
_UNSAID = ("Accept", "Accept-Encoding", "User-Agent")


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came by."""

    method: str
    path: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered."""

    status: int
    body: bytes = field(default=b"", repr=False)
    headers: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Weather:
    """What a passage does to messages: so many of them it loses, and others take up to so long."""

    lost_share: float = 0.0
    delay_s: float = 0.0


FAIR = Weather()
Watch = Callable[[Request, Answer], None]
Instead = Callable[[Request], Answer | None]


class Passage:
    """A thread with a loop of its own. Use it in a ``with``."""

    def __init__(
        self,
        places: Sequence[Place],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        watch: Watch | None = None,
        instead: Instead | None = None,
    ) -> None:
        self._places = list(places)
        self._host, self.port = host, port
        self._watch = watch
        self.instead = instead
        self.weather = FAIR
        # Who is asked is no secret, and no result depends on it.
        self._dice = random.Random(0)  # noqa: S311
        self._well: set[Place] = set()
        self._behind: dict[Place, aiohttp.ClientSession] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="passage", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self._host}:{self.port}"

    def start(self) -> None:
        """Listen from now on."""
        self._thread.start()
        self._ready.wait()
        if self._failed is not None:
            raise self._failed

    def close(self) -> None:
        """No more. Twice is once."""
        if self._thread.is_alive() and self._stop is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def well(self) -> int:
        """How many of the places answer."""
        return len(self._well)

    def all_well(self) -> bool:
        """Whether each of the places answers."""
        return self.well() == len(self._places)

    # ── in the thread ────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001  (told to whoever started this thread)
            self._failed = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        runner = web.ServerRunner(web.Server(self._conversation, access_log=None), shutdown_timeout=0.01)
        await runner.setup()
        await web.TCPSite(runner, self._host, self.port, backlog=1024).start()
        self.port = runner.addresses[0][1]
        looks = [loop.create_task(self._look_after(place)) for place in self._places]
        self._ready.set()
        try:
            await self._stop.wait()
        finally:
            await end_all(*looks)
            await runner.cleanup()
            for place in self._places:
                await self._hang_up_on(place)

    async def _look_after(self, place: Place) -> None:
        while True:
            if await self._answers(place):
                self._well.add(place)
            else:
                self._well.discard(place)
                await self._hang_up_on(place)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _hang_up_on(self, place: Place) -> None:
        session = self._behind.pop(place, None)
        if session is not None:
            await session.close()

    @staticmethod
    async def _answers(place: Place) -> bool:
        try:
            answer = await ask_once(f"{_url(place)}/health", answer_s=_LOOK_PATIENCE_S, most=2**20)
        except UnreachableError:
            return False
        return answer.status == 200

    async def _conversation(self, asked: web.BaseRequest) -> web.StreamResponse:
        request = Request(asked.method, asked.raw_path, await asked.content.read())
        answer = None
        if not await self._is_lost():
            answer = None if self.instead is None else self.instead(request)
            answer = answer or await self._pass_on(request, asked.headers)
        if answer is not None and self._watch is not None:
            self._watch(request, answer)
        if answer is None or await self._is_lost():
            # Whoever asked is hung up on.
            if asked.transport is not None:
                asked.transport.abort()
            return web.Response(status=500)
        return web.Response(status=answer.status, body=answer.body, headers=CIMultiDict(answer.headers))

    async def _is_lost(self) -> bool:
        """Whether a message is lost on its way; one that is not may be late."""
        weather = self.weather
        await asyncio.sleep(self._dice.random() * weather.delay_s)
        return self._dice.random() < weather.lost_share

    async def _pass_on(self, request: Request, headers: Mapping[str, str]) -> Answer | None:
        """The answer of one that is well; None where there is none."""
        wells = sorted(self._well)
        self._dice.shuffle(wells)
        for place in wells:
            session = self._behind.get(place)
            if session is None:
                session = self._behind[place] = aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(limit=0),
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_PATIENCE_S),
                    auto_decompress=False,
                    skip_auto_headers=_UNSAID,
                )
            asking = session.request(
                request.method,
                URL(_url(place) + request.path, encoded=True),
                data=request.body or None,
                headers=_passed_on(headers),
                allow_redirects=False,
            )
            try:
                async with asking as answer:
                    return Answer(answer.status, await answer.read(), _passed_on(answer.headers))
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
                continue  # nothing was sent yet: another one will do
            except (aiohttp.ClientError, OSError, TimeoutError):
                return None
        return None


def _url(place: Place) -> str:
    return f"http://{place[0]}:{place[1]}"


def _passed_on(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers.items() if name.lower() not in _OWN]
