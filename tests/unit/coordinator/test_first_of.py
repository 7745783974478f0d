"""``first_of``: whoever is cancelled while it ends the others stays cancelled."""

import asyncio

import pytest

from secvm.coordinator.log.cosigning import first_of


async def test_repro_a_cancellation_that_comes_while_others_are_ended_is_not_swallowed() -> None:
    # A node that lost its lead drove its old term for ever: beacons were waited for in a loop around this, and the
    # cancellation came in the very turn in which that loop was woken.
    ending, go_on = asyncio.Event(), asyncio.Event()

    async def slow_to_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await go_on.wait()

    async def in_a_loop() -> None:
        while True:
            await first_of(slow_to_end(), asyncio.sleep(0))

    task = asyncio.create_task(in_a_loop())
    await ending.wait()
    task.cancel()
    go_on.set()
    for _ in range(50):
        await asyncio.sleep(0)
    ended = task.done()
    task.cancel()
    assert ended


async def test_the_failure_of_one_is_ours() -> None:
    async def fail() -> None:
        raise ValueError("this one")

    never = asyncio.ensure_future(asyncio.Event().wait())
    with pytest.raises(ValueError, match="this one"):
        await first_of(never, fail())
    assert never.cancelled()
