"""An event loop whose time is made up, and the clocks that go by it: each party has one, and each may be wrong.

Time passes when everybody waits, and not before. Whoever sleeps for an hour is woken at once if nobody has anything to
do until then. What the programs hand to threads runs here too, in a turn of its own. So everything that happens follows
from what was asked for, in one order: the same list of operations comes to the same end, whenever and wherever it is
played.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from secvm_lab.simulation.machines.lives import LIFE, make_task, release


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


R = TypeVar("R")
#: So many turns without a millisecond in between are a circle.
_MOST_TURNS = 20_000


class _Waiting(selectors.SelectSelector):
    """Waits for nobody outside: time jumps to the next appointment."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        #: Called where somebody runs in circles, or nobody will ever do anything.
        self.on_end: Callable[[], object] = lambda: None
        self._turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout:
            self.now += timeout
            self._turns = 0
        self._turns += 1
        if timeout is None or self._turns > _MOST_TURNS:
            self._turns = 0
            self.on_end()
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """For one simulation: virtual time, no threads, tasks that belong to a life (``lives``)."""

    def __init__(self) -> None:
        self._waiting = _Waiting()
        super().__init__(self._waiting)
        self.set_task_factory(make_task)

    def play(self, main: Coroutine[Any, Any, R]) -> R:
        """Run this to its end. It is cancelled where time stands still for ever."""
        task = self.create_task(main)
        self._waiting.on_end = task.cancel
        return self.run_until_complete(task)

    def time(self) -> float:
        return self._waiting.now

    def _write_to_self(self) -> None:
        """Nobody sleeps in a system call, so nobody must be woken."""

    # What asyncio says of executors and their futures is wider than what anybody here asks for.
    def run_in_executor(self, executor: Any, func: Callable[..., R], *args: Any) -> asyncio.Future[R]:  # type: ignore[override]  # noqa: ARG002
        """What a thread would do, in one of the next turns, if whoever asked still lives then."""
        future: asyncio.Future[R] = self.create_future()

        def run() -> None:
            life = LIFE.get()
            if life is not None and life.dead:
                future.cancel()
                return
            if life is not None and life.stalled is not None:
                life.stalled.add_done_callback(lambda _: run())
                return
            try:
                found = func(*args)
            except asyncio.CancelledError:
                future.cancel()
            except Exception as error:  # noqa: BLE001  (whoever waits is told)
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(found)

        self.call_soon(run)
        return future
