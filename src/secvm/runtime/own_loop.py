"""A coroutine in an event loop of its own, in a thread of its own, for work that may block.

What waits for a database over the network, and knows no other way than to block meanwhile, must not hold up those who
only want to be answered. ``in_own_loop`` runs it beside them and ends it with them: whoever is cancelled cancels it,
and goes on when it has ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any


async def in_own_loop(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]], ending: asyncio.Event) -> None:
    """Run ``main`` until it returns; its own event is set when ``ending`` is. What it raises is raised here."""
    outside = asyncio.get_running_loop()
    begun: asyncio.Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any], asyncio.Event]] = outside.create_future()
    ended: asyncio.Future[BaseException | None] = outside.create_future()

    async def inside() -> None:
        stop, task = asyncio.Event(), asyncio.current_task()
        assert task is not None
        outside.call_soon_threadsafe(begun.set_result, (asyncio.get_running_loop(), task, stop))
        await main(stop)

    def work() -> None:
        fault: BaseException | None = None
        try:
            asyncio.run(inside())
        except BaseException as error:  # noqa: BLE001  (raised outside, whatever it is)
            fault = error
        outside.call_soon_threadsafe(ended.set_result, fault)

    thread = threading.Thread(target=work, name="own-loop", daemon=True)
    thread.start()
    loop, task, stop = await asyncio.shield(begun)

    def tell(act: Callable[[], object]) -> None:
        # It may just have ended by itself.
        if not ended.done() and not loop.is_closed():
            loop.call_soon_threadsafe(act)

    passing = asyncio.ensure_future(ending.wait())
    passing.add_done_callback(lambda done: None if done.cancelled() else tell(stop.set))
    try:
        fault = await asyncio.shield(ended)
    except asyncio.CancelledError:
        tell(task.cancel)
        await asyncio.shield(ended)
        raise
    finally:
        passing.cancel()
    if fault is not None:
        raise fault
