"""Clocks of tests: one that stands still until it is moved by hand, and one that waits for people.

All processes of a federation read one file (``runtime.clock.SteeredClock``), which ``PatientClock`` steers: time runs
quickly, and stops before an instant until what must come first has come. ``run_to`` lets time run up to an instant, and
returns when it is there *and* a condition holds. Just before a window closes time creeps: half of what is left goes by,
again and again. So a package whose sending failed and was put off to a later moment of the window still gets its
moment, and the window never closes on it.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable

from secvm.errors import LocalProtocolError
from secvm.runtime.clock import ClockSteering


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


#: Fast enough that nothing can be seen to happen in between.
LEAP = 1e6
#: While devices join: nothing new for so long, in seconds of the machine, and half of the time left goes by.
JOINING_QUIET_S = 1.0
_LOOK_EVERY_S = 0.1


class PatienceLostError(Exception):
    """What was waited for did not come."""


class PatientClock:
    """Steers the clock of a federation."""

    def __init__(
        self,
        steering: ClockSteering,
        *,
        rate: float,
        patience_s: float = 120.0,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``patience_s``: so long nothing may change, by the machine's clock, while something is waited for."""
        self._steering = steering
        self.rate = rate
        self._patience_s = patience_s
        self._plain_sleep = sleep
        #: Called again and again while this clock is waiting for something: the place to disturb whoever is waited for.
        self.meanwhile: Callable[[], None] | None = None
        self._monotonic = monotonic

    def now(self) -> int:
        """What everybody reads."""
        return self._steering.now()

    def _sleep(self, seconds: float) -> None:
        if self.meanwhile is not None:
            self.meanwhile()
        self._plain_sleep(seconds)

    def freeze(self) -> Callable[[], None]:
        """Stop time; what is returned lets it go on as before."""
        limit = self._steering.limit
        self._steering.steer(limit=self.now())
        return lambda: self._steering.steer(limit=limit)

    def slacken(self, rate: float, limit: int) -> Callable[[], None]:
        """Let time go slowly, and no further than this; what is returned lets it go on as before."""
        before = self._steering.limit
        self._steering.steer(limit=min(before, max(limit, self.now())), rate=rate)
        return lambda: self._steering.steer(limit=before, rate=self.rate)

    def leap_to(self, instant: int) -> None:
        """Go there at once: nothing is expected to happen on the way."""
        self._steering.steer(limit=instant, rate=LEAP)
        while self.now() < instant:
            self._sleep(0.001)
        self._steering.steer(rate=self.rate)

    def run_to(
        self,
        instant: int,
        *,
        until: Callable[[], bool],
        what: str,
        progress: Callable[[], object] | None = None,
        look: Callable[[int], None] | None = None,
    ) -> float:
        """Run to an instant and stand there until ``until()``; how long it stood, in seconds of the machine.

        Args:
            until: asked only once the instant is reached.
            what: what is waited for, for the error.
            progress: something that changes while there is hope; ``until`` alone decides without.
            look: called with the time at every look, on the way and while standing.
        """
        self._steering.steer(limit=instant, rate=self.rate)
        while self.now() < instant:
            if look is not None:
                look(self.now())
            self._sleep(min(_LOOK_EVERY_S, max(0.001, (instant - self.now()) / 1000 / self.rate)))
        arrived = self._monotonic()
        self._stand(until, what=what, progress=progress, look=look)
        return self._monotonic() - arrived

    def creep_to(
        self,
        instant: int,
        *,
        until: Callable[[], bool],
        what: str,
        progress: Callable[[], object],
        look: Callable[[int], None] | None = None,
        run_until: int | None = None,
        quiet_s: float = 0.0,
    ) -> float:
        """Run to an instant a little before ``instant`` (or to ``run_until``); then half of what is left goes by with
        every look. The instant itself is never reached; in the end its last moment is.

        ``quiet_s``: half goes by only after nothing has changed for so long. On a busy machine an asking may fail long
        after most of the time that is left would have gone by; its next attempt, a while later, still gets its moment.
        """
        last = instant - 1
        begins = instant - max(2, int(self.rate * 100)) if run_until is None else min(run_until, last)
        waited = self.run_to(max(self.now(), begins), until=lambda: True, what=what, look=look)
        begun = moved = self._monotonic()

        def creep(now: float, changed: float) -> None:
            nonlocal moved
            if self.now() < last and now - max(changed, moved) >= quiet_s:
                moved = now
                self._steering.steer(limit=min(last, self.now() + max(1, (instant - self.now()) // 2)), rate=self.rate)

        self._stand(until, what=what, progress=progress, look=look, meanwhile=creep)
        waited += self._monotonic() - begun
        self._steering.steer(limit=last, rate=LEAP)
        while self.now() < last:
            self._sleep(0.001)
        # Packages that were due in the last moment: none is left, or until() would not have held.
        return waited

    def _stand(
        self,
        until: Callable[[], bool],
        *,
        what: str,
        progress: Callable[[], object] | None,
        look: Callable[[int], None] | None,
        meanwhile: Callable[[float, float], None] = lambda _now, _changed: None,
    ) -> None:
        """Look again and again. ``meanwhile``: told, by the machine's clock, when it is and when something changed."""
        changed = self._monotonic()
        before = None if progress is None else progress()
        while not until():
            self._sleep(_LOOK_EVERY_S)
            if look is not None:
                look(self.now())
            now, after = self._monotonic(), None if progress is None else progress()
            if after != before:
                before, changed = after, now
            meanwhile(now, changed)
            if now - changed > self._patience_s:
                raise PatienceLostError(f"waited in vain for {what}")
