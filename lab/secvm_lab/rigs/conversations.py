"""Conversations: the tasks of a test's server, one for each connection, ended together with their connections."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Conversations:
    """What is begun here is over after ``end``, and no connection of it stays open."""

    def __init__(self) -> None:
        self._writers: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def begin(self, talk: Coroutine[Any, Any, None], writer: asyncio.StreamWriter) -> None:
        """Carry a connection that was accepted just now; ``talk`` closes it when all is said."""
        task = asyncio.get_running_loop().create_task(talk)
        self._writers[task] = writer
        task.add_done_callback(self._writers.pop)

    async def end(self) -> None:
        """End all of them now.

        A task that is cancelled before its first step closes nothing by itself, and what is being written would keep a
        connection open until it is flushed, which may be after the end of the loop.
        """
        left = dict(self._writers)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for writer in left.values():
            writer.transport.abort()
        await asyncio.sleep(0)
