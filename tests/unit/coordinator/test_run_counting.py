"""Batches of many pieces and shards, which several nodes count: pieces and shards are made small for it."""

import asyncio
from bisect import bisect_right

import pytest

from secvm.coordinator.relayed.run_counting import RunCounting
from secvm.coordinator.store.memory import MemoryStore
from secvm.crypto.merkle import Tree, leaf_hash
from secvm.protocol.relays.batches import Place, capsule_digest, run_root
from secvm.protocol.relays.opening import Opening, is_opened
from tests.unit.coordinator.two_relays import Federation, begun, make_small

SHARD, PIECE = 16, 64


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch, shard=SHARD, piece=PIECE)


def whole(federation: Federation) -> None:
    """Driven until the mixing relay has handed on, and no further."""

    async def main() -> None:
        await federation.driver.step()
        times = federation.round()[1].manifest.instants
        for at in (times.opens_at, times.closes_at, times.accept_until, times.mix_by):
            federation.clock.advance(at - federation.clock.now())
            if at < times.mix_by:
                await federation.driver.step()
        federation.hand_on()

    asyncio.run(main())


def test_every_shard_of_many_pieces_leads_to_the_mixing_relays_root() -> None:
    federation = begun(MemoryStore())
    asyncio.run(federation.go())
    one = federation.round()[1]
    said, of = federation.relays.said[one.manifest.label], federation.relays.document
    assert is_opened(of.read(Opening, federation.public("opening/1")), one.manifest, of)
    digests = [capsule_digest(capsule) for capsule in said.batch]
    prefixes = federation.public("shards/1")
    firsts = [prefixes[at : at + 8] for at in range(0, len(prefixes), 8)]
    assert firsts == [digest[:8] for digest in digests[::SHARD]]
    seen = []
    for number in range(len(firsts)):
        data = federation.public(f"shard/1/{number}")
        upper = tuple(data[1 + 32 * i : 33 + 32 * i] for i in range(data[0]))
        listed = [data[at : at + 32] for at in range(1 + 32 * data[0], len(data), 32)]
        # As a device finds its canary and shows its place.
        assert bisect_right(firsts, listed[-1][:8]) - 1 == number
        within = Tree(leaf_hash(digest) for digest in listed)
        assert within.root() == run_root(listed)
        for index in (0, len(listed) - 1):
            place = Place(number * SHARD + index, listed[index], (*within.inclusion_proof(index), *upper))
            place.check(size=said.mix_count.capsules, root=said.mix_count.root)
        seen += listed
    assert seen == digests
    kinds = ("shard", "capsules", "tally")
    wrong = [f"{kind}/{rest}" for kind in kinds for rest in (f"1/{len(firsts)}", "1/00", "1/x", "2/0", "1")]
    for missing in ("shards/2", "shards/1/0", *wrong):
        assert federation.publisher.public(f"/v1/experiment/{of.digest}/{missing}") is None


def test_nodes_count_runs_side_by_side_and_come_to_the_same() -> None:
    alone, store = begun(MemoryStore()), MemoryStore()
    asyncio.run(alone.go())
    together = begun(store)
    whole(together)
    other = RunCounting(store.another_node())
    book, one = together.round()
    runs = other.runs(book, one)
    assert runs > 3
    counted = sum(other.count_one(book, one) for _ in range(2))
    assert (counted, len(store.counted_runs(*one.place))) == (2, 2)
    asyncio.run(together.go())
    assert together.public("opening/1") == alone.public("opening/1")


def test_result_that_cannot_be_read_is_worked_out_again() -> None:
    alone, store = begun(MemoryStore()), MemoryStore()
    asyncio.run(alone.go())
    together = begun(store)
    whole(together)
    store.keep_run(*together.round()[1].place, 0, b"half of a result")
    asyncio.run(together.go())
    assert together.public("opening/1") == alone.public("opening/1")
