"""Group commit: together, in order, and never an answer before the commit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.runtime.disk.group_commit import GroupCommit


def _nothing(_error: Exception) -> int:
    return -1


#: A tick that never ends by itself: only size or a flush ends the group.
NEVER_MS = 1e9


def test_what_arrives_together_is_committed_together_and_each_has_its_answer() -> None:
    groups: list[list[int]] = []

    def commit(items: list[int]) -> list[int]:
        groups.append(items)
        return [item * item for item in items]

    async def main() -> list[int]:
        group = GroupCommit(commit, 1.0, failed=_nothing)
        answers = await asyncio.gather(*(group.add(item) for item in range(50)))
        await group.close()
        return answers

    assert asyncio.run(main()) == [item * item for item in range(50)]
    assert groups == [list(range(50))]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 7))
def test_every_item_is_committed_once_in_order_whatever_the_size_of_groups(sizes: list[int], largest: int) -> None:
    committed: list[int] = []

    def commit(items: list[int]) -> list[int]:
        assert 1 <= len(items) <= largest
        committed.extend(items)
        return items

    async def main() -> None:
        group = GroupCommit(commit, NEVER_MS, largest=largest, failed=_nothing)
        futures = []
        for at, pause in enumerate(sizes):
            futures.append(group.add(at))
            for _ in range(pause):
                await asyncio.sleep(0)
        await group.close()
        assert [future.result() for future in futures] == list(range(len(sizes)))

    asyncio.run(main())
    assert committed == list(range(len(sizes)))


async def test_a_large_group_does_not_wait_for_its_tick() -> None:
    def commit(items: list[int]) -> list[int]:
        return items

    group = GroupCommit(commit, NEVER_MS, largest=3, failed=_nothing)
    assert await asyncio.gather(*(group.add(item) for item in range(3))) == [0, 1, 2]


async def test_what_arrives_during_a_commit_makes_the_next_group() -> None:
    groups: list[list[int]] = []
    first_runs, first_may_end = threading.Event(), threading.Event()

    def commit(items: list[int]) -> list[int]:
        groups.append(items)
        if len(groups) == 1:
            first_runs.set()
            assert first_may_end.wait(30)
        return items

    group = GroupCommit(commit, 0.1, failed=_nothing)
    first = group.add(0)
    await asyncio.to_thread(first_runs.wait, 30)
    rest = [group.add(item) for item in (1, 2, 3)]
    assert not first.done()
    assert group.waiting == 4
    first_may_end.set()
    await group.close()
    assert [one.result() for one in (first, *rest)] == [0, 1, 2, 3]
    assert groups == [[0], [1, 2, 3]]


def _failing(_items: list[int]) -> list[int]:
    raise OSError("the disk is full")


def _too_few(_items: list[int]) -> list[int]:
    return []


@pytest.mark.parametrize("commit", [_failing, _too_few])
async def test_a_commit_that_fails_is_told_to_everyone_and_the_next_may_succeed(
    commit: Callable[[list[int]], list[int]],
) -> None:
    settled: list[tuple[list[int], bool]] = []
    broken = True

    def sometimes(items: list[int]) -> list[int]:
        return commit(items) if broken else items

    refused = iter([-2, -1])
    group = GroupCommit(
        sometimes,
        NEVER_MS,
        failed=lambda _error: next(refused),
        settled=lambda items, durable: settled.append((items, durable)),
    )
    futures = [group.add(1), group.add(2)]
    await group.flush()
    assert [future.result() for future in futures] == [-2, -1], "each was asked for"
    broken = False
    future = group.add(3)
    await group.close()
    assert future.result() == 3
    assert settled == [([1, 2], False), ([3], True)]


async def test_who_gives_up_waiting_changes_nothing() -> None:
    committed: list[int] = []

    def commit(items: list[int]) -> list[int]:
        committed.extend(items)
        return items

    group = GroupCommit(commit, NEVER_MS, failed=_nothing)
    first, second = group.add(1), group.add(2)
    first.cancel()
    await group.close()
    assert second.result() == 2
    assert committed == [1, 2]


async def test_it_is_full_at_its_limit_and_not_after_a_flush() -> None:
    def commit(items: list[int]) -> list[int]:
        return items

    group = GroupCommit(commit, NEVER_MS, waiting=2, failed=_nothing)
    fullness = []
    for item in range(2):
        group.add(item)
        fullness.append(group.full)
    await group.flush()
    assert [*fullness, group.full] == [False, True, False]
