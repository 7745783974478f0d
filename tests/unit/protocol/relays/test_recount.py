"""A published shard is counted again: what is true passes, and every single change of its three files is noticed."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secvm.errors import BadProofError, LocalProtocolError, MalformedMessageError
from secvm.learning.package import TrainPackage
from secvm.protocol.relays.batches import capsule_digest, run_root
from secvm.protocol.relays.recount import MAX_SUB_TALLY_BYTES, Counted, Recount, ShardTally, WrongCountError
from secvm.protocol.relays.shards import ShardRun, read_run, read_sub_tally, write_sub_tally
from secvm_lab.rigs.histories.sealed_round import SealedRound
from secvm_lab.rigs.histories.shard_tree import ShardTree
from tests.effort import scaled

ROUND = SealedRound(covered=True, told=((TrainPackage(model=0, bin_index=3, sign=1),),))
Shard = tuple[ShardRun, bytes, ShardTally]


@cache
def recount() -> Recount:
    return Recount.of(ROUND.document, ROUND.manifest, ROUND.opening)


@cache
def shard() -> Shard:
    """The only one of the round, as it is served."""
    proof = ROUND.shards.proof(0)
    run = ShardRun(0, len(ROUND.mixed), proof.mix_path, tuple(ROUND.mixed))
    tally = ShardTally(proof.path, ROUND.sub_tallies[0])
    return (
        read_run(run.to_bytes(), shard=0, capsules=len(ROUND.mixed)),
        ROUND.public()["capsules/1/0"],
        ShardTally.from_bytes(tally.to_bytes()),
    )


def test_honest_shard_is_what_it_says() -> None:
    found = recount().check(*shard())
    assert found.sub_tally == ROUND.sub_tallies[0]
    counts = read_sub_tally(found.sub_tally, cells=30, capsules=found.capsules)
    assert found.capsules == len(ROUND.mixed) == sum(counts.values()) + found.junk + found.nulls
    assert recount().shards == 1


def swapped(one: Shard) -> Shard:
    run, capsules, tally = one
    return run, capsules[80:160] + capsules[:80] + capsules[160:], tally


def permuted(one: Shard) -> Shard:
    run, capsules, tally = swapped(one)
    first, second, *rest = run.digests
    return replace(run, digests=(second, first, *rest)), capsules, tally


def invented(one: Shard) -> Shard:
    run, capsules, tally = one
    made = sorted([*(capsules[at : at + 80] for at in range(80, len(capsules), 80)), bytes(80)], key=capsule_digest)
    return replace(run, digests=tuple(map(capsule_digest, made))), b"".join(made), tally


def other_counts(one: Shard) -> Shard:
    run, capsules, tally = one
    return run, capsules, replace(tally, sub_tally=write_sub_tally({0: 1}))


NOT_ITS_FILES: list[Callable[[Shard], Shard]] = [
    swapped,
    permuted,
    invented,
    other_counts,
    lambda one: (one[0], one[1][:-80], one[2]),
    lambda one: (one[0], one[1] + bytes(80), one[2]),
    lambda one: (one[0], one[1][:-1], one[2]),
    lambda one: (one[0], one[1] + b"\0", one[2]),
    lambda one: (replace(one[0], digests=one[0].digests[:-1]), one[1][:-80], one[2]),
    lambda one: (replace(one[0], capsules=one[0].capsules - 1), one[1], one[2]),
    lambda one: (replace(one[0], shard=1), one[1], one[2]),
    lambda one: (replace(one[0], path=(bytes(32),)), one[1], one[2]),
    lambda one: (one[0], one[1], replace(one[2], path=(bytes(32),))),
]


@pytest.mark.parametrize("change", NOT_ITS_FILES)
def test_files_that_are_not_the_shards_accuse_nobody(change: Callable[[Shard], Shard]) -> None:
    with pytest.raises(BadProofError) as refused:
        recount().check(*change(shard()))
    assert not isinstance(refused.value, WrongCountError)


@settings(max_examples=scaled(20, 500))
@given(st.integers(0, 10**9), st.sampled_from([1, -1, 2, 5]))
def test_sub_tally_that_the_opening_is_bound_to_and_that_is_false_is_a_wrong_count(where: int, more: int) -> None:
    run, capsules, tally = shard()
    counts = read_sub_tally(tally.sub_tally, cells=30, capsules=run.capsules)
    cell = where % 30
    false = write_sub_tally({**counts, cell: max(0, counts.get(cell, 0) + more)})
    tree = ShardTree(ROUND.label)
    tree.append(run.digests, false)
    bound = Recount.of(ROUND.document, ROUND.manifest, replace(ROUND.opening, shards=tree.root))
    if false == tally.sub_tally:
        bound.check(run, capsules, tally)
        return
    with pytest.raises(WrongCountError):
        bound.check(run, capsules, ShardTally(tree.proof(0).path, false))


def test_seed_of_another_round_finds_nothing_but_junk() -> None:
    other = Recount.of(ROUND.document, ROUND.manifest, replace(ROUND.opening, count_seed=bytes(32)))
    assert other.count(shard()[1]) == Counted(len(ROUND.mixed), len(ROUND.mixed), 0, b"")


def test_tally_file_has_its_limits() -> None:
    assert ShardTally.from_bytes(b"\0" + bytes(MAX_SUB_TALLY_BYTES)).sub_tally == bytes(MAX_SUB_TALLY_BYTES)
    with pytest.raises(MalformedMessageError):
        ShardTally.from_bytes(b"\0" + bytes(MAX_SUB_TALLY_BYTES + 1))
    with pytest.raises(LocalProtocolError):
        ShardTally((bytes(32),) * 65, b"").to_bytes()


def test_unopened_round_has_nothing_to_count() -> None:
    unopened = replace(ROUND.opening, mix_reveal=None, count_seed=None, tally=None, shards=None)
    with pytest.raises(LocalProtocolError, match="unopened"):
        Recount.of(ROUND.document, ROUND.manifest, unopened)


def test_recount_does_not_print_its_key() -> None:
    assert ROUND.count_seed.hex() not in repr(recount())
    assert run_root(shard()[0].digests) == ROUND.mix_count.root
