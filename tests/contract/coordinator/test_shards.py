"""An epoch counted in shards by several nodes comes to what one count comes to, byte for byte."""

import asyncio
import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.coordinator.counting.epoch_count import EpochCount, RoundToCount, ShardCounting, add_shards, count_epoch
from secvm.coordinator.store.memory import CLAIM_S, MemoryStore
from secvm.coordinator.store.port import CoordinatorStore
from secvm.coordinator.store.rules import SHARDS
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.errors import MalformedMessageError
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, TestPackage, TrainPackage
from secvm.protocol.codec import AddressedPackage, encode
from secvm.testing.clock import ManualClock
from tests.contract.coordinator.test_counting import ROUNDS, zeros
from tests.rigs.opened_blocks import put_opened
from tests.unit.coordinator.rounds import until

EPOCH = 7

packages: st.SearchStrategy[Package] = st.one_of(
    st.builds(TrainPackage, model=st.integers(0, 2), bin_index=st.integers(0, 6), sign=st.sampled_from([1, -1])),
    st.builds(TestPackage, true_class=st.integers(0, 3), predicted_class=st.integers(0, 3)),
    st.builds(ParticipationPackage, cohort=st.sampled_from(Cohort), class_index=st.integers(0, 3)),
    st.just(NullPackage()),
)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """A record; few capsules, so that they meet."""
    told = draw(st.sampled_from(ROUNDS))
    number = told.round_number + draw(st.sampled_from([0, 0, 0, 1]))
    name = draw(st.integers(0, 40))
    digest = hashlib.sha256(name.to_bytes(2, "big")).digest()
    return digest + encode(AddressedPackage(told.experiment_id, min(number, 2**20 - 1), draw(packages)))


def fill(store: CoordinatorStore, held: list[bytes], *, block: int) -> None:
    for at in range(0, len(held), block):
        assert put_opened(store, EPOCH, b"".join(held[at : at + block]))


@given(st.lists(records(), max_size=60), st.integers(1, 9), st.lists(st.integers(0, 2), min_size=SHARDS))
def test_any_nodes_in_any_order_come_to_the_count_of_one(held: list[bytes], block: int, turns: list[int]) -> None:
    store = MemoryStore()
    fill(store, held, block=block)
    whole = count_epoch(store.opened(EPOCH), ROUNDS, dice=zeros, using="reference")
    store.driving(store.lead("driver", 10) or 0).close_epoch(EPOCH)
    nodes = [ShardCounting(store if i == 0 else store.another_node(), zeros) for i in range(3)]
    for turn in turns[: SHARDS // 2]:
        nodes[turn].count_one(EPOCH, lambda: ROUNDS)
    found = asyncio.run(nodes[0].whole(EPOCH, ROUNDS))
    assert found == whole
    assert found.received == len(held)


def test_a_result_is_written_and_read_and_nothing_else_is_taken_for_one() -> None:
    counted = count_epoch([bytes([i]) * 32 + bytes(32) for i in range(2)], ROUNDS, dice=zeros, using="reference")
    data = counted.to_bytes(ROUNDS)
    read = EpochCount.from_bytes(data, ROUNDS)
    assert read == EpochCount.from_bytes(read.to_bytes(ROUNDS), ROUNDS)
    assert read == counted
    for other in (ROUNDS[:-1], list(reversed(ROUNDS)), []):
        with pytest.raises(MalformedMessageError):
            EpochCount.from_bytes(data, other)
    for wrong in (data[:-1], data[:-32], data + bytes(32), b"", b"{}\n", b"[]", data.partition(b"\n")[0]):
        with pytest.raises(MalformedMessageError):
            EpochCount.from_bytes(wrong, ROUNDS)


def test_what_was_counted_for_other_rounds_is_counted_again() -> None:
    store = MemoryStore()
    held = [hashlib.sha256(b"%d" % i).digest() + _train(ROUNDS[0]) for i in range(50)]
    fill(store, held, block=8)
    store.close_epoch(EPOCH)
    # A node that had not heard of all rounds.
    late = ShardCounting(store.another_node(), zeros)
    assert late.count_one(EPOCH, lambda: ROUNDS[1:2])
    found = asyncio.run(ShardCounting(store, zeros).whole(EPOCH, ROUNDS))
    assert found.kinds[0][0] == 50


def test_nothing_is_counted_of_an_epoch_that_is_open_or_sealed() -> None:
    store = MemoryStore()
    fill(store, [bytes(32) + _train(ROUNDS[0])], block=1)
    counting = ShardCounting(store, zeros)
    assert not counting.count_one(EPOCH, lambda: ROUNDS)
    store.append_sealed(EPOCH, [b"sealed"])
    store.close_epoch(EPOCH)
    assert not counting.count_one(EPOCH, lambda: ROUNDS)
    ((number, _),) = store.sealed(EPOCH, 9)
    store.replace_sealed(EPOCH, [number], b"")
    assert counting.count_one(EPOCH, lambda: ROUNDS)


def test_what_a_dead_node_had_claimed_is_counted_when_its_claim_ends() -> None:
    clock = ManualClock(0)
    store = MemoryStore(clock)
    fill(store, [hashlib.sha256(b"%d" % i).digest() + _train(ROUNDS[0]) for i in range(50)], block=50)
    store.close_epoch(EPOCH)
    assert store.another_node().claim_shard(EPOCH) is not None

    async def count() -> EpochCount:
        counting = ShardCounting(store, zeros, nap_s=0.0)
        task = asyncio.ensure_future(counting.whole(EPOCH, ROUNDS))
        await until(lambda: len(store.shards(EPOCH)) == SHARDS - 1)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not task.done()
        clock.advance(int(1000 * CLAIM_S))
        return await task

    assert asyncio.run(count()).kinds[0][0] == 50


def test_a_store_of_one_shard_is_counted_too(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "store")
    fill(store, [bytes([i]) * 32 + _train(ROUNDS[0]) for i in range(9)], block=4)
    store.close_epoch(EPOCH)
    found = asyncio.run(ShardCounting(store, zeros).whole(EPOCH, ROUNDS))
    assert (found.distinct, found.kinds[0][0]) == (9, 9)
    assert add_shards([found]) == found
    store.close()


def _train(told: RoundToCount) -> bytes:
    package = TrainPackage(model=0, bin_index=0, sign=1)
    return encode(AddressedPackage(told.experiment_id, told.round_number, package))
