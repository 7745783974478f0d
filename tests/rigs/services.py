"""A service in this process, from its port to its draining."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

Run = Callable[[asyncio.Event, Callable[[int], None]], Coroutine[Any, Any, None]]


@asynccontextmanager
async def service_running(run: Run) -> AsyncIterator[tuple[int, asyncio.Event]]:
    """Its port, and what tells it to stop; when the block ends, it has drained."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    port: asyncio.Future[int] = loop.create_future()
    task = loop.create_task(run(stop, port.set_result))
    # Should it fail before it listens, then here and now.
    task.add_done_callback(lambda ended: None if port.done() else port.set_exception(ended.exception() or EOFError()))
    found = await port
    try:
        yield found, stop
    finally:
        stop.set()
        await task
