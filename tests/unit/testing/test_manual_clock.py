"""The clock of tests: it moves when it is told to."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import LocalProtocolError
from secvm.testing.clock import ManualClock


@given(times=st.lists(st.integers(0, 50), max_size=20), steps=st.lists(st.integers(0, 20), max_size=8))
def test_sleepers_wake_in_order_and_never_early(times: list[int], steps: list[int]) -> None:
    clock = ManualClock(0)
    woken: list[tuple[int, int]] = []

    async def sleeper(number: int, at: int) -> None:
        await clock.sleep_until(at)
        assert clock.now() >= at
        woken.append((at, number))

    async def main() -> None:
        tasks = [asyncio.create_task(sleeper(number, at)) for number, at in enumerate(times)]
        for step in [0, *steps]:
            clock.advance(step)
            for _ in range(3):
                await asyncio.sleep(0)
            assert sorted(woken) == woken
            assert len(woken) == sum(at <= clock.now() for at in times)
            assert clock.next_waking() == min((at for at in times if at > clock.now()), default=None)
        clock.advance(100)
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert woken == sorted((at, number) for number, at in enumerate(times))


async def test_a_sleeper_that_was_cancelled_is_not_woken() -> None:
    clock = ManualClock(5)
    task = asyncio.create_task(clock.sleep_until(10))
    await asyncio.sleep(0)
    assert clock.next_waking() == 10
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert clock.next_waking() is None
    clock.advance(10)
    assert task.cancelled()


def test_time_does_not_go_back() -> None:
    clock = ManualClock(5)
    with pytest.raises(LocalProtocolError):
        clock.advance(-1)
    assert clock.now() == 5
