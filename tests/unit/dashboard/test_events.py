"""The hub: everybody is told, who was away is told later, who is too slow is let go."""

import asyncio

import pytest

from secvm.dashboard.events import HEARTBEAT, Hub, HubLimits, Listener, TooManyListenersError
from tests.unit.dashboard.office import events


def heard(listener: Listener) -> list[tuple[str, object]]:
    data = b""
    while not listener.queue.empty():
        data += listener.queue.get_nowait()
    return [(name, content) for _, name, content in events(data)]


async def test_everybody_hears_what_is_told_from_then_on() -> None:
    hub = Hub("1f")
    hub.tell("rounds", {"n": 0})
    first, second = hub.listen(), hub.listen()
    hub.tell("rounds", {"n": 1})
    hub.mention("now", b'{"n":2}')
    assert heard(first) == heard(second) == [("rounds", {"n": 1}), ("now", {"n": 2})]
    hub.leave(first)
    hub.tell("rounds", {"n": 3})
    assert (heard(first), hub.listeners) == ([], 1)


async def test_who_comes_again_is_told_what_it_missed_but_no_old_now() -> None:
    hub = Hub("1f")
    for number in range(1, 4):
        hub.tell("rounds", {"n": number})
        hub.mention("now", b"{}")
    assert heard(hub.listen("1f-1")) == [("rounds", {"n": 2}), ("rounds", {"n": 3})]
    assert heard(hub.listen("1f-3")) == []


@pytest.mark.parametrize("told", ["1f-0", "1f-9", "2a-3", "1f--1", "1f-1\n", "x", "1f-" + "9" * 40])
async def test_who_was_away_too_long_or_in_another_life_reads_all_again(told: str) -> None:
    hub = Hub("1f", HubLimits(kept=2))
    for number in range(1, 5):
        hub.tell("rounds", {"n": number})
    assert heard(hub.listen(told)) == [("reset", {})]


async def test_what_is_kept_has_a_limit_in_bytes() -> None:
    hub = Hub("1f", HubLimits(kept_bytes=1000))
    for number in range(100):
        hub.tell("rounds", {"n": number, "text": "a" * 300})
    assert heard(hub.listen("1f-10")) == [("reset", {})]
    assert len(heard(hub.listen("1f-98"))) == 2


async def test_a_listener_that_does_not_listen_is_let_go_and_nobody_waits_for_it() -> None:
    hub = Hub("1f", HubLimits(waiting=5))
    slow, quick = hub.listen(), hub.listen()

    async def stuck() -> None:
        await asyncio.Event().wait()

    slow.task = asyncio.create_task(stuck())
    quick.task = asyncio.create_task(stuck())
    for number in range(20):
        hub.tell("rounds", {"n": number})
        assert heard(quick)
    assert slow.gone.is_set()
    assert not quick.gone.is_set()
    assert slow.queue.qsize() <= 5
    await asyncio.gather(slow.task, return_exceptions=True)
    assert slow.task.cancelled()
    hub.close()
    assert quick.gone.is_set()
    # Woken, so that it can end its answer in good order.
    assert quick.queue.get_nowait() == b""
    quick.task.cancel()
    await asyncio.gather(quick.task, return_exceptions=True)
    with pytest.raises(TooManyListenersError):
        hub.listen()


async def test_there_is_room_for_so_many_listeners_and_no_more() -> None:
    hub = Hub("1f", HubLimits(listeners=2))
    first = hub.listen()
    hub.listen()
    with pytest.raises(TooManyListenersError):
        hub.listen()
    hub.leave(first)
    listener = hub.listen()
    hub.beat()
    listener.queue.get_nowait()
    assert listener.queue.get_nowait() == HEARTBEAT
