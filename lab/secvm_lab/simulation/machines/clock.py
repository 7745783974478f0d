"""Clocks of a simulation: each party has one, they all go by the loop's time, and each may be wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from secvm_lab.simulation.machines.lives import release


class SimulatedClock:
    """A ``Clock`` that shows the loop's time, and may be set wrong while it goes."""

    def __init__(self, start: int) -> None:
        """``start``: what it shows when the loop's time is 0."""
        self._start = start
        #: How far it is ahead of the truth.
        self.ahead_ms = 0
        #: Told when it is set.
        self.on_jump: Callable[[], None] | None = None
        self._sleepers: set[asyncio.Future[None]] = set()

    def true_now(self) -> int:
        """What a clock shows that nobody has set."""
        # Appointments are fractions of seconds: what is due at a millisecond must not be a hair before it.
        return self._start + int(asyncio.get_running_loop().time() * 1000 + 1e-3)

    def now(self) -> int:
        return self.true_now() + self.ahead_ms

    def jump(self, ms: int) -> None:
        """Somebody sets it, forward or back; whoever sleeps looks at it again."""
        self.ahead_ms += ms
        for sleeper in list(self._sleepers):
            release(sleeper)
        if self.on_jump is not None:
            self.on_jump()

    async def sleep_until(self, at: int) -> None:
        loop = asyncio.get_running_loop()
        if at <= self.now():
            await asyncio.sleep(0)
        while (left := at - self.now()) > 0:
            sleeper: asyncio.Future[None] = loop.create_future()
            self._sleepers.add(sleeper)
            timer = loop.call_later(left / 1000, release, sleeper)
            try:
                await sleeper
            finally:
                timer.cancel()
                self._sleepers.discard(sleeper)
