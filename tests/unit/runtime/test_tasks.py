"""Work in a loop of its own: it ends when it is told, when it is cancelled, and with its fault told outside."""

import asyncio
import threading

import pytest

from secvm.errors import StoreError
from secvm.runtime.service import any_of, end_all, in_own_loop


async def test_it_runs_in_another_thread_and_ends_when_it_is_told() -> None:
    threads: list[threading.Thread] = []
    ending = asyncio.Event()

    async def main(stop: asyncio.Event) -> None:
        threads.append(threading.current_thread())
        await stop.wait()

    task = asyncio.ensure_future(in_own_loop(main, ending))
    ending.set()
    await task
    assert threads != [threading.current_thread()]


async def test_whoever_cancels_goes_on_when_it_has_ended() -> None:
    begun, blocked, ended = threading.Event(), threading.Event(), threading.Event()

    async def main(stop: asyncio.Event) -> None:
        begun.set()
        try:
            blocked.wait()
            await stop.wait()
        finally:
            ended.set()

    task = asyncio.ensure_future(in_own_loop(main, asyncio.Event()))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    # It blocks, as a driver does that waits for its database: it is not left behind.
    assert not task.done()
    blocked.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


def test_its_fault_is_raised_outside() -> None:
    async def fail(_stop: asyncio.Event) -> None:
        raise StoreError("away")

    with pytest.raises(StoreError, match="away"):
        asyncio.run(in_own_loop(fail, asyncio.Event()))


async def test_the_first_to_be_done_ends_the_others() -> None:
    event = asyncio.Event()
    event.set()
    waiting = asyncio.ensure_future(asyncio.Event().wait())
    await any_of(waiting, event.wait())
    assert waiting.cancelled()
    failed = asyncio.ensure_future(in_own_loop(_fail, asyncio.Event()))
    await any_of(failed)
    await end_all(failed, waiting)
    assert isinstance(failed.exception(), StoreError)


async def _fail(_stop: asyncio.Event) -> None:
    raise StoreError("away")
