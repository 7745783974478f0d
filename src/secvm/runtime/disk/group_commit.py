"""Group commit: what arrives within a moment is made durable together, and then answered together.

A durable commit costs about a millisecond whatever is in it, so one commit for a hundred requests makes each a hundred
times as cheap. The rules:

 1. The first item of a group starts a tick; when it is over, or the group is large, the group is committed.
 2. One group is committed at a time. What arrives meanwhile makes the next group, which starts as soon as the one
    before has ended and its own tick is over.
 3. An item's future is done only after its commit. If the commit fails, every future of the group says so.
 4. Who gives up waiting changes nothing: the item is committed all the same.

The commit runs in a thread of its own, so that the event loop goes on collecting. Ticks are the machine's time, not a
``Clock``'s: they are about disks and networks, and go on while a steered clock stands still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from secvm.errors import LocalProtocolError

T = TypeVar("T")
R = TypeVar("R")


class GroupCommit(Generic[T, R]):
    """Collects items, commits them in groups, resolves their futures. For one event loop."""

    def __init__(
        self,
        commit: Callable[[list[T]], list[R]],
        tick_ms: float = 2.0,
        *,
        largest: int = 1000,
        waiting: int = 20_000,
        failed: Callable[[Exception], R],
        settled: Callable[[list[T], bool], None] | None = None,
    ) -> None:
        """Nothing runs before the first item.

        Parameters
        ----------
        commit
            Makes the items durable, all or none, and says what to answer to each, in their order.
        tick_ms
            How long the first item of a group waits for others.
        largest
            A group of so many does not wait.
        waiting
            So many items may wait, those under way included; beyond, the group is ``full``.
        failed
            Asked for the answer to each item of a group whose commit raised.
        settled
            Told of every group in the event loop, just before its futures are: the items, and whether they are durable.
        """
        self._commit = commit
        self._tick_s = tick_ms / 1000
        self._largest = largest
        self._limit = waiting
        self._failed = failed
        self._settled = settled
        self._items: list[T] = []
        self._futures: list[asyncio.Future[R]] = []
        self._under_way = 0
        self._added = self._answered = 0
        self._timer: asyncio.TimerHandle | None = None
        self._worker: asyncio.Task[None] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._due = False

    @property
    def waiting(self) -> int:
        """Items without an answer."""
        return len(self._items) + self._under_way

    @property
    def full(self) -> bool:
        """Whether the next item should be refused: its sender shall come again later."""
        return self.waiting >= self._limit

    def add(self, item: T) -> asyncio.Future[R]:
        """One item for the next group; the future is done when it is durable. Whoever adds looks at ``full`` first."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._items.append(item)
        self._futures.append(future)
        self._added += 1
        if len(self._items) >= self._largest:
            self._go()
        elif self._timer is None and not self._due:
            self._timer = loop.call_later(self._tick_s, self._go)
        return future

    async def flush(self) -> None:
        """Return when everything added before this call has its answer; others may go on adding."""
        last = self._added
        while self._answered < last:
            if self._items:
                self._go()
            if self._worker is not None:
                await asyncio.shield(self._worker)

    async def close(self) -> None:
        """Flush, and let the thread go."""
        await self.flush()
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    def _go(self) -> None:
        """The group that is being collected is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due = True
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        """Commit group after group, until none is due."""
        while self._due and self._items:
            items, futures = self._items[: self._largest], self._futures[: self._largest]
            del self._items[: self._largest], self._futures[: self._largest]
            # What is left over is more than a group: it has waited long enough.
            self._due = bool(self._items)
            self._under_way = len(items)
            try:
                answers = await self._run(items)
            except Exception as error:  # noqa: BLE001  (whatever it was: nothing is durable, and each must be told)
                self._end(items, futures, [self._failed(error) for _ in items], durable=False)
            else:
                self._end(items, futures, answers, durable=True)
            finally:
                self._answered += self._under_way
                self._under_way = 0
        self._due = False

    async def _run(self, items: list[T]) -> list[R]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        answers = await asyncio.get_running_loop().run_in_executor(self._thread, self._commit, items)
        if len(answers) != len(items):
            raise LocalProtocolError("a commit has one answer for each item")
        return answers

    def _end(self, items: list[T], futures: list[asyncio.Future[R]], answers: list[R], *, durable: bool) -> None:
        if self._settled is not None:
            self._settled(items, durable)
        for future, answer in zip(futures, answers, strict=True):
            if not future.done():
                future.set_result(answer)
