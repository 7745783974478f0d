"""What several nodes need of a store: one driver at a time, stale ones that can do nothing, claims, and shards."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.coordinator.store import rules
from secvm.coordinator.store.memory import MemoryStore
from secvm.coordinator.store.port import CoordinatorStore, Standing, StoredKey
from secvm.coordinator.store.rules import SHARDS
from secvm.errors import LocalProtocolError, StaleDriverError
from secvm.protocol.round_state import RoundState
from secvm.testing.clock import ManualClock
from tests.contract.stores.kinds import Kind, Pair, announced, block, driven, experiment
from tests.rigs.opened_blocks import put_opened


@pytest.fixture
def store(kind: Kind, tmp_path: Path) -> Iterator[CoordinatorStore]:
    made = kind.make(tmp_path)
    yield made
    made.close()


def term_of(store: CoordinatorStore, holder: str = "a") -> int:
    term = store.lead(holder, 60)
    assert term is not None
    return term


# ── who drives ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_leads_and_keeps_its_term(store: CoordinatorStore) -> None:
    term = term_of(store)
    assert store.lead("b", 60) is None
    assert store.lead("a", 60) == term


def test_whoever_takes_over_gets_a_later_term(store: CoordinatorStore) -> None:
    before = term_of(store)
    store.resign(before)
    # Also the same name, after it resigned.
    first = term_of(store)
    store.resign(first)
    second = term_of(store, "b")
    assert second > first > before
    # Resigning twice, or late, does nothing to the one who leads now.
    store.resign(first)
    assert store.lead("a", 60) is None
    assert store.lead("b", 60) == second


def test_terms_grow_over_reopening(kind: Kind, tmp_path: Path) -> None:
    store = kind.make(tmp_path)
    first = term_of(store)
    store.resign(first)
    store = kind.reopen(store, tmp_path)
    assert term_of(store, "b") > first
    store.close()


@pytest.mark.parametrize(("holder", "lease_s"), [("", 1.0), ("a", 0.0), ("a", -1.0), ("a", 1e9)])
def test_lease_without_a_name_or_an_end_is_refused(store: CoordinatorStore, holder: str, lease_s: float) -> None:
    with pytest.raises(LocalProtocolError):
        store.lead(holder, lease_s)
    assert store.lead("b", 60) is not None


FENCED: dict[str, Callable[[CoordinatorStore], object]] = {
    "add_experiment": lambda s: s.add_experiment(experiment("f"), {"f": b"blob"}),
    "set_standing": lambda s: s.set_standing("e", Standing.STOPPED),
    "announce": lambda s: s.announce(announced(2), {"w": b"blob"}),
    "set_state": lambda s: s.set_state("e", 1, RoundState.PUBLISHED),
    "conclude": lambda s: s.conclude("e", 1, tally="t", next_state="s", blobs={"t": b"tally"}),
    "keep_blobs": lambda s: s.keep_blobs({"b": b"bytes"}),
    "add_key": lambda s: s.add_key(StoredKey(2, 2, b"q" * 32)),
    "add_fetch_key": lambda s: s.add_fetch_key(StoredKey(2, 2, b"q" * 32)),
    "forget_fetch_key": lambda s: s.forget_fetch_key(1),
    "close_epoch": lambda s: s.close_epoch(1),
    "scrub": lambda s: s.scrub(1),
    "append_entries": lambda s: s.append_entries(0, [b"line\n"]),
    "keep_note": lambda s: s.keep_note("log", size=1, root=b"r", note=b"n"),
    "keep_beacon": lambda s: s.keep_beacon("e", 0, b"record"),
    "begin_batch": lambda s: s.begin_batch("e", 2, b"s" * 32),
    "forget_batch": lambda s: s.forget_batch("e", 1),
}


def blob_or_nothing(store: CoordinatorStore, name: str) -> bytes | None:
    try:
        return store.blob(name)
    except KeyError:
        return None


def everything(store: CoordinatorStore) -> object:
    return (
        store.experiments(), store.rounds("e"), store.keys(), store.notes(), store.entries(), store.beacons("e"),
        store.sealed(1, 9), list(store.opened(1)), store.shards(1), store.claim_shard(1), blob_or_nothing(store, "b"),
        store.batches(), store.fetch_keys(),
    )  # fmt: skip


def drive_to_closing(store: CoordinatorStore) -> None:
    """An experiment whose first round is closing, in an open epoch that has a key and a block."""
    store.add_experiment(experiment(), {})
    store.announce(announced(1), {})
    store.set_state("e", 1, RoundState.OPEN)
    store.set_state("e", 1, RoundState.CLOSING)
    store.add_key(StoredKey(1, 1, b"p" * 32))
    store.add_fetch_key(StoredKey(1, 1, b"f" * 32))
    put_opened(store, 1, block(1))
    store.begin_batch("e", 1, b"s" * 32)


@pytest.mark.parametrize("method", FENCED)
def test_stale_driver_can_do_nothing(store: CoordinatorStore, method: str) -> None:
    term = term_of(store)
    stale = store.driving(term)
    drive_to_closing(stale)
    if method == "set_state":
        stale.conclude("e", 1, tally="t", next_state="s", blobs={})
    store.resign(term)
    before = everything(store)
    with pytest.raises(StaleDriverError):
        FENCED[method](stale)
    # Somebody else takes over, who can.
    drives = store.driving(term_of(store, "b"))
    with pytest.raises(StaleDriverError):
        FENCED[method](stale)
    assert everything(store) == before
    FENCED[method](drives)
    assert everything(store) != before


def test_stale_driver_is_a_node_like_others_for_what_nodes_do(store: CoordinatorStore) -> None:
    term = term_of(store)
    stale = store.driving(term)
    stale.add_experiment(experiment(), {})
    store.resign(term)
    assert stale.append_sealed(7, [b"a"])
    assert [data for _, data in stale.sealed(7, 9)] == [b"a"]
    assert stale.experiments() == [experiment()]


def test_term_that_nobody_was_given_drives_nothing(store: CoordinatorStore) -> None:
    with pytest.raises(StaleDriverError):
        store.driving(1).close_epoch(7)
    term = term_of(store)
    with pytest.raises(StaleDriverError):
        store.driving(term + 1).close_epoch(7)
    assert store.append_sealed(7, [b"a"])


def test_lease_in_memory_runs_by_the_clock_that_is_given() -> None:
    clock = ManualClock(0)
    store = MemoryStore(clock)
    assert store.lead("a", 10) == 1
    clock.advance(9_999)
    assert store.lead("b", 10) is None
    assert store.lead("a", 10) == 1
    clock.advance(10_000)
    # Nobody came: its changes still count, and it may go on.
    store.driving(1).close_epoch(7)
    assert store.lead("a", 10) == 1
    clock.advance(10_000)
    assert store.lead("b", 10) == 2
    with pytest.raises(StaleDriverError):
        store.driving(1).close_epoch(8)
    assert store.lead("a", 10) is None


# ── groups that nodes share out ──────────────────────────────────────────────────────────────────────────────────────


def test_claim_that_ran_out_is_good_as_long_as_nobody_else_came() -> None:
    clock = ManualClock(0)
    one = MemoryStore(clock)
    one.append_sealed(7, [b"a"])
    ((number, _),) = one.sealed(7, 9)
    clock.advance(10**9)
    one.replace_sealed(7, [number], block(1))
    assert not one.left_sealed(7)


# ── shards ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def records(count: int) -> bytes:
    return b"".join(hashlib.sha256(b"%d" % i).digest() + b"%32d" % i for i in range(count))


def split(data: bytes) -> list[bytes]:
    return [data[at : at + 64] for at in range(0, len(data), 64)]


def test_shards_together_are_everything_and_each_has_its_digests(store: CoordinatorStore) -> None:
    blocks = [records(200), block(0, 255, 16, 15), b""]
    for data in blocks:
        put_opened(store, 7, data)
    found = []
    for shard in range(store.n_shards):
        mine = [record for data in store.opened(7, shard) for record in split(data)]
        assert store.n_shards == 1 or {rules.shard_of(record) for record in mine} <= {shard}
        found.extend(mine)
    assert sorted(found) == sorted(record for data in blocks for record in split(data))
    assert sorted(record for data in store.opened(7) for record in split(data)) == sorted(found)
    assert list(store.opened(8, 0)) == []


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=40))
def test_shards_follow_each_other_in_the_order_of_digests(digests: list[bytes]) -> None:
    data = b"".join(digest + bytes(32) for digest in digests)
    ordered, ends = rules.by_shard(data)
    assert (len(ends), ends[-1]) == (SHARDS, len(data))
    starts = [0, *ends]
    parts = [ordered[starts[i] : ends[i]] for i in range(SHARDS)]
    assert parts == [rules.of_shard(data, i) for i in range(SHARDS)]
    assert [record for part in parts for record in sorted(split(part))] == sorted(split(data))


def test_shards_are_claimed_counted_and_kept(store: CoordinatorStore) -> None:
    store.append_sealed(7, [b"a"])
    ((number, _),) = store.sealed(7, 9)
    assert store.claim_shard(7) is None
    store.driving(term_of(store)).close_epoch(7)
    assert store.claim_shard(7) is None
    with pytest.raises(LocalProtocolError):
        store.keep_shard(7, 0, b"too early")
    store.replace_sealed(7, [number], records(50))
    claimed = []
    while (shard := store.claim_shard(7)) is not None:
        assert store.claim_shard(7) == shard
        claimed.append(shard)
        for result in (b"result %d" % shard, b"of another"):
            store.keep_shard(7, shard, result)
    assert sorted(claimed) == list(range(store.n_shards))
    assert store.shards(7) == {shard: b"result %d" % shard for shard in range(store.n_shards)}
    assert store.counted_shards(7) == set(range(store.n_shards))
    assert (store.shards(8), store.counted_shards(8)) == ({}, set())


def test_shard_that_is_none_is_refused(store: CoordinatorStore) -> None:
    store.driving(term_of(store)).close_epoch(7)
    for shard in (-1, store.n_shards):
        with pytest.raises(LocalProtocolError):
            store.keep_shard(7, shard, b"result")
    assert store.shards(7) == {}


def test_results_of_shards_outlive_the_process_and_are_scrubbed(kind: Kind, tmp_path: Path) -> None:
    store = kind.make(tmp_path)
    term = term_of(store)
    store.driving(term).close_epoch(7)
    store.keep_shard(7, 0, b"result")
    store.resign(term)
    store = kind.reopen(store, tmp_path)
    assert store.shards(7) == {0: b"result"}
    store.driving(term_of(store)).scrub(7)
    assert store.shards(7) == {}
    store.keep_shard(7, 0, b"late")
    assert (store.shards(7), store.counted_shards(7), store.claim_shard(7)) == ({}, set(), None)
    store.close()


# ── what nodes share out ─────────────────────────────────────────────────────────────────────────────────────────────


def test_groups_are_given_to_one_node_until_its_claim_runs_out(pair: Pair) -> None:
    one, other = pair.one, pair.other
    one.append_sealed(7, [b"a", b"b", b"c"])
    claimed = one.sealed(7, 2)
    assert [data for _, data in claimed] == [b"a", b"b"]
    assert [data for _, data in other.sealed(7, 9)] == [b"c"]
    assert one.sealed(7, 2) == claimed
    assert other.left_sealed(7)
    pair.until(lambda: len(other.sealed(7, 9)) == 3)
    # Whose claim ran out comes too late, and changes nothing; the other one's block stands.
    numbers = [number for number, _ in claimed]
    one.replace_sealed(7, numbers, block(1, 2))
    assert list(one.opened(7)) == []
    other.replace_sealed(7, [number for number, _ in other.sealed(7, 9)], block(1, 2, 3))
    one.replace_sealed(7, numbers, block(1, 2))
    assert (list(one.opened(7)), one.left_sealed(7)) == ([block(1, 2, 3)], False)


def test_shards_and_runs_are_given_to_one_node_until_its_claim_runs_out(pair: Pair) -> None:
    one, other, place = pair.one, pair.other, ("e", 1)
    driver = driven(one)
    driver.close_epoch(7)
    driver.add_experiment(experiment(), {})
    driver.begin_batch(*place, b"s" * 32)
    assert driver.finish_batch(*place, 0)
    assert (one.claim_shard(7), other.claim_shard(7), one.claim_shard(7)) == (0, 1, 0)
    assert (one.claim_run(*place, 2), other.claim_run(*place, 2), other.claim_run(*place, 1)) == (0, 1, None)
    for shard in range(1, SHARDS):
        other.keep_shard(7, shard, b"r")
    pair.until(lambda: other.claim_shard(7) == 0)
    pair.until(lambda: other.claim_run(*place, 1) == 0)


def test_node_that_ends_lets_go_of_what_it_claimed(pair: Pair) -> None:
    ends, stays, place = pair.other, pair.one, ("e", 1)
    driver = driven(stays)
    driver.close_epoch(8)
    driver.add_experiment(experiment(), {})
    driver.begin_batch(*place, b"s" * 32)
    assert driver.finish_batch(*place, 0)
    stays.append_sealed(7, [b"a"])
    assert (len(ends.sealed(7, 9)), stays.sealed(7, 9)) == (1, [])
    assert (ends.claim_shard(8), ends.claim_run(*place, 1), stays.claim_run(*place, 1)) == (0, 0, None)
    ends.close()
    assert len(stays.sealed(7, 9)) == 1
    assert (stays.claim_shard(8), stays.claim_run(*place, 1)) == (0, 0)
