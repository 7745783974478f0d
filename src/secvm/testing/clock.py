"""A clock that stands still until it is moved by hand."""

from __future__ import annotations

import asyncio
import heapq

from secvm.errors import LocalProtocolError


class ManualClock:
    """The time that a test says it is: a ``Clock`` for one event loop.

    ``advance`` wakes those whose time has come, the earliest first, those of one instant in the order in which they lay
    down. They run when the loop gets its turn, and then read the time at which the clock was left.
    """

    def __init__(self, now: int) -> None:
        self._now = now
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._slept = 0

    def now(self) -> int:
        return self._now

    def advance(self, ms: int) -> None:
        """Move on by so many milliseconds, 0 too.

        Raises
        ------
        LocalProtocolError
            When it would go back.
        """
        if ms < 0:
            raise LocalProtocolError("a clock does not go back")
        self._now += ms
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, sleeper = heapq.heappop(self._sleepers)
            if not sleeper.done():
                sleeper.set_result(None)

    async def sleep_until(self, at: int) -> None:
        if at <= self._now:
            # Others get their turn, as they do with a clock that goes by itself.
            await asyncio.sleep(0)
            return
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._slept += 1
        heapq.heappush(self._sleepers, (at, self._slept, sleeper))
        await sleeper

    def next_waking(self) -> int | None:
        """When the first sleeper wants to be woken; none without sleepers. A test can go from one to the next."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None
