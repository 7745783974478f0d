"""Hub: changes, told to everybody who listens (server-sent events), each listener with a bounded queue of its own.

1. Every event that must not be missed has a number, and the newest of them are kept: who was away for a moment names
   the last number it has, and is told what came since. Who was away too long is told ``reset``: read all of it again.
2. ``now`` is worth nothing once the next one is there: it is sent and not kept.
3. Who takes too long to listen is let go, and comes again with its number. Nobody waits for anybody.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import orjson

_ID = re.compile(r"([0-9a-f]{1,16})-([0-9]{1,15})")
#: What a browser is told to wait before it comes again, in milliseconds.
RETRY_MS = 2000
HEARTBEAT = b":\n\n"


class TooManyListenersError(Exception):
    """No more than so many listen at once."""


@dataclass(frozen=True, slots=True)
class HubLimits:
    """How much the hub holds."""

    listeners: int = 100
    #: Events that one listener may be behind, and their bytes. Many come at once where there are many experiments.
    waiting: int = 2000
    waiting_bytes: int = 2**22
    #: Events that are kept for those who come again, and their bytes.
    kept: int = 1000
    kept_bytes: int = 2**23


@dataclass(eq=False, slots=True)
class Listener:
    """Somebody who listens."""

    queue: asyncio.Queue[bytes]
    #: Bytes in the queue.
    waiting_bytes: int = 0
    #: Whoever writes to them; cancelled when they are let go.
    task: asyncio.Task[Any] | None = None
    #: Set when there will be no more: they were too slow, or the hub is closed.
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, frame: bytes) -> None:
        """One more that is to be written; nothing in it: look whether all is over."""
        self.waiting_bytes += len(frame)
        self.queue.put_nowait(frame)

    async def next(self) -> bytes:
        """What is to be written next."""
        frame = await self.queue.get()
        self.waiting_bytes -= len(frame)
        return frame


class Hub:
    """For one event loop."""

    def __init__(self, life: str, limits: HubLimits | None = None) -> None:
        """``life`` in hexadecimal, another one each time: numbers of another life mean nothing here."""
        self._life = life
        self._limits = limits or HubLimits()
        self._number = 0
        self._kept: deque[tuple[int, bytes]] = deque()
        self._kept_bytes = 0
        self._listeners: set[Listener] = set()
        self._closed = False

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    def tell(self, event: str, content: object) -> None:
        """Tell everybody, and keep it for those who come again."""
        self._number += 1
        frame = self.frame(event, orjson.dumps(content))
        self._kept.append((self._number, frame))
        self._kept_bytes += len(frame)
        while len(self._kept) > self._limits.kept or (self._kept_bytes > self._limits.kept_bytes and self._kept):
            self._kept_bytes -= len(self._kept.popleft()[1])
        self._send(frame)

    def mention(self, event: str, data: bytes) -> None:
        """Tell everybody who is there, in JSON that is made already; it is not kept."""
        self._send(self.frame(event, data))

    def beat(self) -> None:
        """A sign of life: proxies close connections on which nothing happens."""
        self._send(HEARTBEAT)

    def listen(self, last_id: str | None = None) -> Listener:
        """Listen from now on, or from after the event of this number."""
        if self._closed or len(self._listeners) >= self._limits.listeners:
            raise TooManyListenersError
        listener = Listener(asyncio.Queue())
        for frame in (b"retry: %d\n\n" % RETRY_MS, *(self._since(last_id) if last_id else ())):
            listener.put(frame)
        self._listeners.add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        """They have gone. Twice is once."""
        self._listeners.discard(listener)
        listener.gone.set()

    def close(self) -> None:
        """No more events, no more listeners."""
        self._closed = True
        for listener in tuple(self._listeners):
            self.leave(listener)
            # Wakes whoever writes to them; who is stuck in writing is ended with the process.
            listener.put(b"")

    def _since(self, last_id: str) -> list[bytes]:
        match = _ID.fullmatch(last_id)
        number = int(match[2]) if match is not None and match[1] == self._life else None
        oldest = self._kept[0][0] if self._kept else self._number + 1
        if number is None or not oldest - 1 <= number <= self._number:
            return [self.frame("reset", b"{}")]
        return [frame for event, frame in self._kept if event > number]

    def frame(self, event: str, data: bytes) -> bytes:
        """An event as it is sent, under the newest number."""
        return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (self._life.encode(), self._number, event.encode(), data)

    def _send(self, frame: bytes) -> None:
        for listener in tuple(self._listeners):
            # Before its first event is written nobody can be slow.
            late = listener.queue.qsize() >= self._limits.waiting or listener.waiting_bytes > self._limits.waiting_bytes
            if late and listener.task is not None:
                self._let_go(listener)
            else:
                listener.put(frame)

    def _let_go(self, listener: Listener) -> None:
        self.leave(listener)
        if listener.task is not None:
            listener.task.cancel()
