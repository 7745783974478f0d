"""Long work in a thread that nobody waits for when the process ends: nothing of it is worth more than an exit."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_background(work: Callable[[], T]) -> T:
    """What ``work`` returns or raises. Who stops waiting lets it run on, unheard."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, fault: BaseException | None) -> None:
        if done.cancelled():
            return
        if fault is None:
            done.set_result(result)  # type: ignore[arg-type]  # None is T where work returns None
        else:
            done.set_exception(fault)

    def run() -> None:
        result, fault = None, None
        try:
            result = work()
        except Exception as found:  # noqa: BLE001  (handed to whoever waits)
            fault = found
        # The loop may have ended meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, fault)

    threading.Thread(target=run, daemon=True, name="background").start()
    return await done
