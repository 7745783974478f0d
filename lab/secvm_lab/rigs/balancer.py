"""Balancer: one port of loopback before several, as a proxy before the nodes of a coordinator.

Connections go to the ports in turn, to the next one where nobody takes them. Where somebody takes a connection and then
says nothing, as a stopped process does, the connection is ended and that port is left alone for a while; whoever asked
asks again. Bytes are not looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence

from secvm.runtime.tasks import stop_listening
from secvm.testing.federation_settings import COORDINATOR
from secvm_lab.rigs.conversations import Conversations

#: How long somebody who was asked may say nothing, and how long one that did is left alone.
SILENCE_S, ALONE_S = 3.0, 3.0
_CONNECT_S = 1.0
_PIECE = 2**16


class Balancer:
    """Runs in a thread of its own between ``start`` and ``close``."""

    def __init__(self, port: int, targets: Sequence[int], *, silence_s: float = SILENCE_S) -> None:
        self.port = port
        self._targets = list(targets)
        self._silence_s = silence_s
        self._turn = 0
        #: Until when a port is left alone, by the loop's time.
        self._alone: dict[int, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    @classmethod
    def before_nodes(cls, name: str, places: Sequence[tuple[str, int]], port: int) -> Balancer | None:
        """As ``Federation`` takes it for ``doors``: before the coordinator, and before nobody else."""
        return cls(port, [target for _, target in places]) if name == COORDINATOR else None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen from now on."""
        listening = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(listening)), daemon=True)
        self._thread.start()
        listening.wait()

    def close(self) -> None:
        """No more. Twice is once."""
        if self._thread is not None and self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._thread = None

    async def _serve(self, listening: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        conversations = Conversations()

        def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            conversations.begin(self._carry(reader, writer), writer)

        server = await asyncio.start_server(taken, "127.0.0.1", self.port)
        listening.set()
        await self._stop.wait()
        await stop_listening(server)
        await conversations.end()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            found = await self._connect()
            if found is None:
                return
            target, there_reads, there_writes = found
            talk = _Talk()
            try:
                ways = [
                    asyncio.ensure_future(talk.pass_on(reader, there_writes, asks=True)),
                    asyncio.ensure_future(talk.pass_on(there_reads, writer, asks=False)),
                    asyncio.ensure_future(talk.silence(self._silence_s)),
                ]
                done, left = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in left:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
                if ways[2] in done:
                    self._alone[target] = asyncio.get_running_loop().time() + ALONE_S
            except asyncio.CancelledError:
                # The end of all: nobody waits for what is not flushed yet.
                there_writes.transport.abort()
                raise
            finally:
                there_writes.close()
        finally:
            writer.close()

    async def _connect(self) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter] | None:
        now = asyncio.get_running_loop().time()
        self._turn += 1
        turn = self._turn % len(self._targets)
        ordered = self._targets[turn:] + self._targets[:turn]
        ordered.sort(key=lambda target: self._alone.get(target, 0.0) > now)
        for target in ordered:
            with contextlib.suppress(OSError, TimeoutError):
                opening = asyncio.open_connection("127.0.0.1", target)
                return target, *await asyncio.wait_for(opening, _CONNECT_S)
        return None


class _Talk:
    """One connection, and when which side spoke last."""

    def __init__(self) -> None:
        self._asked = self._answered = 0.0

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, asks: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_PIECE):
                now = asyncio.get_running_loop().time()
                if asks:
                    self._asked = now
                else:
                    self._answered = now
                writer.write(data)
                await writer.drain()

    async def silence(self, longest_s: float) -> None:
        """Return when somebody was asked and has said nothing for so long."""
        while True:
            await asyncio.sleep(longest_s / 4)
            now = asyncio.get_running_loop().time()
            if self._asked > self._answered and now - self._asked > longest_s:
                return
