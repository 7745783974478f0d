"""Lives: a party's process from one start to its end, which may come at any point.

Everything that a process does passes **points**: each step of each of its tasks, and, by whoever stands around it, each
call of a store before and after, each commit, each request and each answer. At a point it may be killed, and then
nothing that it still does reaches anything: its tasks are cancelled, and whatever they try while they fall raises
again. It may be **stalled** too, as by SIGSTOP: its tasks stand still where they are, for as long as one likes, and go
on then as if nothing had been.

A task belongs to the life in whose context it was made; what it makes belongs to the same.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from secvm.errors import BadInputError, StoreError

T = TypeVar("T")
#: Whose turn it is; None: nobody's, the simulation's own.
LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar("LIFE", default=None)
#: A coroutine that is killed may wait for others while it falls; so often it is told again.
_PUSHES = 50


class KilledError(asyncio.CancelledError):
    """The end of a process. Nobody may catch it and go on."""


class Life:
    """One process, from its start to its end."""

    def __init__(self, name: str, *, on_death: Callable[[], None] | None = None) -> None:
        #: What it is called in reports: "node 1", say.
        self.name = name
        self.dead = False
        #: Set while it stands still: done when it goes on.
        self.stalled: asyncio.Future[None] | None = None
        #: It dies at the k-th point from now; 0: at none.
        self.left = 0
        self.points = 0
        #: What ended it by itself, where that was no kill.
        self.fault: BaseException | None = None
        self._on_death = on_death
        self._tasks: set[asyncio.Task[Any]] = set()
        self._context = contextvars.copy_context()
        self._context.run(LIFE.set, self)

    def __repr__(self) -> str:
        return f"Life({self.name!r})"

    def point(self) -> None:
        """Here it may die. Raises ``KilledError`` when it does, and ever after."""
        self.points += 1
        if self.left:
            self.left -= 1
            if self.left == 0:
                self.kill()
        if self.dead:
            raise KilledError

    def kill(self) -> None:
        """Now. Twice is once."""
        if self.dead:
            return
        self.dead = True
        self.go_on()
        for task in list(self._tasks):
            task.cancel()
        if self._on_death is not None:
            self._on_death()

    def stall(self) -> None:
        """Stand still."""
        if self.stalled is None and not self.dead:
            self.stalled = asyncio.get_running_loop().create_future()

    def go_on(self) -> None:
        """Stand still no more."""
        stalled, self.stalled = self.stalled, None
        if stalled is not None and not stalled.done():
            stalled.set_result(None)

    def run(self, call: Callable[..., T], *given: Any) -> T:
        """Do something in this life's name."""
        return self._context.copy().run(call, *given)

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of this life."""
        return self.run(asyncio.get_running_loop().create_task, coroutine)

    def main(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """A task without which the process is over: if it fails, all of it ends, as a program does."""

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None and not self.dead:
                self.fault = task.exception()
                self.kill()

        self.spawn(coroutine).add_done_callback(ended)

    def _adopt(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Process:
    """A party that may end and be started again: ``begin`` builds it from what it has on its disk."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.life = Life(name)
        self.life.dead = True
        #: Told when it has ended.
        self.on_end: Callable[[Process], None] | None = None

    def start(self) -> None:
        """Begin a new life; whoever lives goes on."""
        if not self.life.dead:
            return
        self.life = Life(self.name, on_death=self._ended)
        try:
            self.life.run(self.begin)
        except KilledError:
            pass
        except BadInputError as fault:
            # "The store cannot be opened": whoever runs it looks at the disk, and starts it again.
            self.life.fault = StoreError(str(fault))
            self.life.kill()
        except Exception as fault:  # noqa: BLE001  (a process that cannot start has ended)
            self.life.fault = fault
            self.life.kill()

    def begin(self) -> None:
        """Build everything anew."""
        raise NotImplementedError

    def end(self) -> None:
        """What is left of it when it has ended."""

    def _ended(self) -> None:
        self.end()
        if self.on_end is not None:
            self.on_end(self)


class _Mortal(Coroutine[Any, Any, T]):
    """A coroutine of a life: each of its steps is a point."""

    def __init__(self, inside: Coroutine[Any, Any, T], life: Life) -> None:
        self._inside, self._life = inside, life
        self._later: tuple[str, Any] | None = None

    def send(self, value: Any) -> Any:
        return self._step("send", value)

    def throw(self, kind: Any, value: Any = None, trace: Any = None) -> Any:  # noqa: ARG002  (as coroutines have it)
        return self._step("throw", kind if value is None else value)

    def close(self) -> None:
        self._inside.close()

    def __await__(self) -> Generator[Any, Any, T]:
        raise NotImplementedError

    def _step(self, how: str, value: Any) -> Any:
        life = self._life
        if life.stalled is not None and not life.dead:
            # What it was told is told when it goes on; a cancellation that comes meanwhile outdoes it.
            self._later = (how, value) if self._later is None or how == "throw" else self._later
            return _blocking(life.stalled)
        if self._later is not None and how == "send":
            how, value = self._later
        self._later = None
        if not life.dead:
            try:
                life.point()
            except KilledError:
                return self._fall()
            return self._inside.send(value) if how == "send" else self._inside.throw(value)
        return self._fall()

    def _fall(self) -> Any:
        """Cancelled wherever it waits, as often as it takes."""
        for _ in range(_PUSHES):
            try:
                self._inside.throw(KilledError())
            except (StopIteration, BaseException):  # noqa: BLE001  (whatever it died of)
                break
        raise KilledError


def release(waiting: asyncio.Future[None]) -> None:
    """Let whoever waits go on; twice is once."""
    if not waiting.done():
        waiting.set_result(None)


def _blocking(future: asyncio.Future[None]) -> asyncio.Future[None]:
    """What a coroutine yields to wait for a future that several wait for."""
    mine: asyncio.Future[None] = future.get_loop().create_future()
    future.add_done_callback(lambda _: release(mine))
    mine._asyncio_future_blocking = True  # noqa: SLF001  (what ``await`` itself does)
    return mine


def make_task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Any,
    context: contextvars.Context | None = None,
) -> asyncio.Task[Any]:
    """The loop's task factory."""
    life = LIFE.get() if context is None else context.get(LIFE)
    if life is None:
        return asyncio.Task(coroutine, loop=loop, context=context)
    task: asyncio.Task[Any] = asyncio.Task(_Mortal(coroutine, life), loop=loop, context=context)
    life._adopt(task)  # noqa: SLF001  (this is how a life gets its tasks)
    return task
