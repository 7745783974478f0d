"""Passage: a port in front of one party or several alike, which sees what goes by.

    with Passage(places=[("127.0.0.1", 8001), ("127.0.0.1", 8002)]) as passage:
        f"http://127.0.0.1:{passage.port}"

It is what an operator has as a load balancer, and no more: request by request, one of the places that have answered
their ``/health`` lately. A place that stops answering loses its connections, and whoever waited there is hung up on:
the request may have been done or not, and only the same request again will tell. Nothing is tried twice here.

In bad ``weather`` it loses requests and answers, and is slow with the others.

``watch`` is shown each request with its answer, before the answer goes on. So what it has seen acknowledged is at least
what was told to devices. ``instead`` may answer in the party's place, for tests that need a liar.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

import httptools

from secvm.runtime.service import end_all, stop_listening
from secvm_lab.rigs.conversations import Conversations

Place = tuple[str, int]
_CHUNK = 2**16
_LOOK_EVERY_S = 0.15
_LOOK_PATIENCE_S = 3.0
_CONNECT_PATIENCE_S = 1.0


@dataclass(slots=True)
class Request:
    """A request as it came by."""

    method: str = ""
    path: str = ""
    body: bytes = field(default=b"", repr=False)
    raw: bytes = field(default=b"", repr=False)


@dataclass(slots=True)
class Answer:
    """What was answered."""

    status: int
    raw: bytes = field(default=b"", repr=False)
    keep_alive: bool = True


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
        dice: random.Random | None = None,
    ) -> None:
        self._places = list(places)
        self._host, self.port = host, port
        self._watch = watch
        self.instead = instead
        self.weather = FAIR
        # Who is asked is no secret, and no result depends on it.
        self._dice = dice or random.Random(0)  # noqa: S311
        self._well: set[Place] = set()
        self._open: dict[Place, set[asyncio.StreamWriter]] = {place: set() for place in self._places}
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
        conversations = Conversations()

        def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            conversations.begin(self._conversation(reader, writer), writer)

        server = await asyncio.start_server(taken, self._host, self.port, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        looks = [loop.create_task(self._look_after(place)) for place in self._places]
        self._ready.set()
        try:
            await self._stop.wait()
        finally:
            await stop_listening(server)
            await end_all(*looks)
            await conversations.end()

    async def _look_after(self, place: Place) -> None:
        while True:
            if await self._answers(place):
                self._well.add(place)
            else:
                self._well.discard(place)
                for writer in self._open[place]:
                    writer.transport.abort()
            await asyncio.sleep(_LOOK_EVERY_S)

    @staticmethod
    async def _answers(place: Place) -> bool:
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(_LOOK_PATIENCE_S):
                reader, writer = await asyncio.open_connection(*place)
                writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                return (await reader.readline()).startswith(b"HTTP/1.1 200")
        except (OSError, TimeoutError, ValueError):
            return False
        finally:
            if writer is not None:
                writer.transport.abort()

    async def _conversation(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind: dict[Place, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}
        try:
            with contextlib.suppress(OSError, httptools.HttpParserError):
                while (request := await _read_request(reader)) is not None:
                    if await self._is_lost():
                        return
                    answer = None if self.instead is None else self.instead(request)
                    if answer is None:
                        answer = await self._pass_on(request, behind)
                    if answer is None:
                        return
                    if self._watch is not None:
                        self._watch(request, answer)
                    if await self._is_lost():
                        return
                    writer.write(answer.raw)
                    await writer.drain()
                    if not answer.keep_alive:
                        return
        finally:
            writer.transport.abort()
            for place, (_, other) in behind.items():
                other.transport.abort()
                self._open[place].discard(other)

    async def _is_lost(self) -> bool:
        """Whether a message is lost on its way; one that is not may be late."""
        weather = self.weather
        await asyncio.sleep(self._dice.random() * weather.delay_s)
        return self._dice.random() < weather.lost_share

    async def _pass_on(
        self, request: Request, behind: dict[Place, tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    ) -> Answer | None:
        """The answer of one that is well; None where there is none, and whoever asked is hung up on."""
        wells = sorted(self._well)
        self._dice.shuffle(wells)
        for place in wells:
            found = behind.get(place)
            if found is None or found[1].transport.is_closing():
                try:
                    async with asyncio.timeout(_CONNECT_PATIENCE_S):
                        found = await asyncio.open_connection(*place)
                except (OSError, TimeoutError):
                    continue  # nothing was sent yet: another one will do
                behind[place] = found
                self._open[place].add(found[1])
            reader, writer = found
            try:
                writer.write(request.raw)
                await writer.drain()
                answer = await _read_answer(reader)
            except (OSError, httptools.HttpParserError):
                answer = None
            if answer is None or not answer.keep_alive:
                writer.transport.abort()
                self._open[place].discard(writer)
                del behind[place]
            return answer
        return None


class _Message:
    """What httptools calls back."""

    path: bytes
    body: list[bytes]

    def __init__(self) -> None:
        self.path, self.body = b"", []
        self.done = self.keep_alive = False
        self.parser: httptools.HttpRequestParser | httptools.HttpResponseParser | None = None

    def on_url(self, url: bytes) -> None:
        self.path += url

    def on_body(self, body: bytes) -> None:
        self.body.append(body)

    def on_message_complete(self) -> None:
        assert self.parser is not None
        # Asked now: afterwards the parser has forgotten.
        self.done, self.keep_alive = True, self.parser.should_keep_alive()


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    message = _Message()
    message.parser = parser = httptools.HttpRequestParser(message)
    raw = await _read_message(reader, parser, message)
    if raw is None:
        return None
    return Request(parser.get_method().decode(), message.path.decode(), b"".join(message.body), raw)


async def _read_answer(reader: asyncio.StreamReader) -> Answer | None:
    message = _Message()
    message.parser = parser = httptools.HttpResponseParser(message)
    raw = await _read_message(reader, parser, message)
    return None if raw is None else Answer(parser.get_status_code(), raw, message.keep_alive)


async def _read_message(
    reader: asyncio.StreamReader, parser: httptools.HttpRequestParser | httptools.HttpResponseParser, message: _Message
) -> bytes | None:
    """One whole message, as it came; None where it ended before. Nobody here sends the next before the answer."""
    parts: list[bytes] = []
    while not message.done:
        part = await reader.read(_CHUNK)
        if not part:
            return None
        parts.append(part)
        parser.feed_data(part)
    return b"".join(parts)
