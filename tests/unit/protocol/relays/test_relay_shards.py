"""Shards, sub-tallies, cells and junk: what everybody counts with the published seed."""

import hashlib
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadProofError, LocalProtocolError, MalformedMessageError
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.learning.package import Cohort, NullPackage, ParticipationPackage, TestPackage, TrainPackage
from secvm.protocol.relays.batches import capsule_root
from secvm.protocol.relays.counting import CapsuleReader, Cells
from secvm.protocol.relays.shards import (
    SHARD,
    ShardProof,
    read_sub_tally,
    shard_count,
    shard_entry,
    shard_size,
    shards_root,
    write_sub_tally,
)
from secvm_lab.rigs.histories.relayed_rounds import RelayedRound
from secvm_lab.rigs.histories.shard_tree import ShardTree

ROUND = RelayedRound()
LABEL = bytes(32)
SUB_TALLY = write_sub_tally({3: 1, 7: 2})


def digests(count: int) -> list[bytes]:
    return sorted(hashlib.sha256(b"%d" % i).digest() for i in range(count))


def built(count: int) -> tuple[ShardTree, list[list[bytes]]]:
    every = digests(count)
    shards = [every[at : at + SHARD] for at in range(0, count, SHARD)]
    tree = ShardTree(LABEL)
    for shard in shards:
        tree.append(shard, SUB_TALLY)
    return tree, shards


@pytest.mark.parametrize("count", [1, SHARD - 1, SHARD, SHARD + 1, 3 * SHARD + 5])
def test_every_shard_leads_to_both_roots(count: int) -> None:
    tree, shards = built(count)
    assert len(shards) == shard_count(count)
    assert tree.mix_root == capsule_root(digests(count))
    assert tree.root == shards_root(shard_entry(shard, SUB_TALLY) for shard in shards)
    for number, shard in enumerate(shards):
        assert len(shard) == shard_size(number, count)
        proof = ShardProof.from_bytes(tree.proof(number).data)
        assert proof == tree.proof(number)
        proof.check(shard, SUB_TALLY, capsules=count, shards=tree.root, mix_root=tree.mix_root)


def test_no_other_shard_leads_there() -> None:
    count = 2 * SHARD + 5
    tree, shards = built(count)
    proof = tree.proof(2)
    told = {"capsules": count, "shards": tree.root, "mix_root": tree.mix_root}
    bad = [
        (proof, [*shards[2][:-1], shards[2][-1][:31]], SUB_TALLY, told),
        (proof, shards[2], SUB_TALLY, {**told, "shards": bytes(32)}),
        (proof, shards[2], SUB_TALLY, {**told, "mix_root": bytes(32)}),
        (replace(proof, shard=1), shards[1], SUB_TALLY, told),
    ]
    for one, shard, sub_tally, roots in bad:
        with pytest.raises(BadProofError):
            one.check(shard, sub_tally, **roots)  # type: ignore[arg-type]  # numbers and roots side by side


def test_only_the_last_shard_is_short() -> None:
    tree, _ = built(5)
    for shard in (digests(1), [], digests(SHARD + 1)):
        with pytest.raises(LocalProtocolError):
            tree.append(shard, b"")


# ── sub-tallies ──────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.dictionaries(st.integers(0, 29), st.integers(0, 100), max_size=30))
def test_a_sub_tally_is_read_as_it_was_written(counts: dict[int, int]) -> None:
    data = write_sub_tally(counts)
    assert len(data) == 16 * sum(count > 0 for count in counts.values())
    assert read_sub_tally(data, cells=30, capsules=SHARD) == {cell: n for cell, n in sorted(counts.items()) if n}


def line(cell: int, count: int) -> bytes:
    return cell.to_bytes(8, "little") + count.to_bytes(8, "little")


@pytest.mark.parametrize(
    "data",
    [
        line(2**64 - 1, 1),
        line(1, 2) + line(2, 3),
        b"".join(line(cell, 1) for cell in range(5)),
    ],
)
def test_another_sub_tally_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        read_sub_tally(data, cells=30, capsules=4)


def test_what_is_no_cell_or_count_cannot_be_written() -> None:
    for counts in ({-1: 1}, {1: -1}):
        with pytest.raises(LocalProtocolError):
            write_sub_tally(counts)


# ── cells ────────────────────────────────────────────────────────────────────────────────────────────────────────────

EXPERIMENTS = [
    ROUND.document.experiment,
    Experiment(n_bins=3, labels=("a", "b", "c"), rule=Pegasos(), budget=5),
    Experiment(n_bins=3, labels=("a", "b", "c", "d"), rule=Pegasos(), multiclass="ovo", budget=5),
    Experiment(n_bins=4, labels=("y",), rule=Pegasos(), loss=Loss("epsilon-insensitive", Fraction(1)), budget=5),
]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=["two labels", "ovr", "ovo", "a number"])
def test_every_cell_has_one_package_and_back(experiment: Experiment) -> None:
    cells = Cells.of(experiment)
    assert [cells.cell_of(cells.package_of(cell)) for cell in range(cells.count)] == list(range(cells.count))
    assert cells.cell_of(NullPackage()) is None
    for beyond in (-1, cells.count):
        with pytest.raises(LocalProtocolError):
            cells.package_of(beyond)
    counts = np.arange(cells.count, dtype=np.int64)
    tally = cells.tally(counts)
    for cell in range(cells.count):
        match cells.package_of(cell):
            case TrainPackage(model=model, bin_index=bin_index, sign=sign):
                assert (tally.plus if sign == 1 else tally.minus)[model, bin_index] == cell
            case ParticipationPackage(cohort=Cohort.TRAIN, class_index=label):
                assert tally.participants[label] == cell
            case TestPackage(true_class=true, predicted_class=predicted):
                assert tally.cells[true, predicted] == cell
    with pytest.raises(LocalProtocolError):
        cells.tally(counts[1:])


def test_cells_of_cover_are_these_cells() -> None:
    cells, cover = Cells.of(ROUND.document.experiment), ROUND.document.relay_cover
    assert [noise.cells for noise in cover.kinds] == [cells.train, cells.participation, cells.test]


# ── junk ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

READER = CapsuleReader.of(ROUND.document, ROUND.manifest, ROUND.count_seed)


def test_who_counts_does_not_print_the_key() -> None:
    assert READER.key.secret_bytes().hex() not in repr(READER)
    assert repr(READER) == "CapsuleReader(round 1)"
