"""Shards, sub-tallies, cells and junk: what everybody counts with the published seed."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secvm.errors import BadProofError, LocalProtocolError, MalformedMessageError
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.learning.package import Cohort, NullPackage, ParticipationPackage, TestPackage, TrainPackage
from secvm.protocol.relays.batches import RUN, CapsuleTree, capsule_root
from secvm.protocol.relays.counting import CapsuleReader, Cells
from secvm.protocol.relays.shards import (
    PREFIX_BYTES,
    SHARD,
    ShardProof,
    ShardRun,
    absence_in,
    beside,
    index_bytes,
    read_index,
    read_run,
    read_sub_tally,
    shard_count,
    shard_entry,
    shard_of,
    shard_size,
    shards_root,
    write_index,
    write_sub_tally,
)
from secvm_lab.rigs.histories.relayed_rounds import RelayedRound
from secvm_lab.rigs.histories.shard_tree import ShardTree
from tests.unit.protocol.helpers import digests

ROUND = RelayedRound()
LABEL = bytes(32)
SUB_TALLY = write_sub_tally({3: 1, 7: 2})


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


# ── a shard's digests as a device fetches them ───────────────────────────────────────────────────────────────────────


class Round:
    """So many digests, published."""

    def __init__(self, listed: list[bytes]) -> None:
        self.digests = listed
        tree = ShardTree(bytes(32))
        for at in range(0, len(listed), RUN):
            tree.append(listed[at : at + RUN], b"")
        self.root, self.capsules = tree.mix_root, len(listed)
        self.index = write_index(listed[::RUN])
        self.files = [
            ShardRun(k, self.capsules, tree.proof(k).mix_path, tuple(listed[k * RUN : (k + 1) * RUN])).to_bytes()
            for k in range(-(-len(listed) // RUN))
        ]

        self._runs: dict[int, ShardRun] = {}

    def run(self, shard: int) -> ShardRun:
        if shard not in self._runs:
            run = read_run(self.files[shard], shard=shard, capsules=self.capsules)
            run.check(self.root)
            self._runs[shard] = run
        return self._runs[shard]

    def look(self, digest: bytes) -> bool:
        """As a device does it; whether it is there. Absence is shown by a proof that holds."""
        prefixes = read_index(self.index, capsules=self.capsules)
        run = self.run(shard_of(prefixes, digest))
        if run.find(digest) is not None:
            return True
        also = beside(run, digest)
        runs = [run] if also is None else [run, self.run(also)]
        if any(one.find(digest) is not None for one in runs):
            return True
        absence = absence_in(digest, runs)
        assert absence is not None
        absence.check(digest, size=self.capsules, root=self.root)
        return False


SMALL, LARGE = Round(digests(700)), Round(digests(2 * RUN + 5))


@pytest.mark.parametrize("told", [SMALL, LARGE])
def test_what_is_there_is_found(told: Round) -> None:
    some = [told.digests[at] for at in range(0, told.capsules, 97)]
    edges = [told.digests[at] for at in range(0, told.capsules, RUN)] + told.digests[RUN - 1 :: RUN]
    assert all(told.look(digest) for digest in [*some, *edges, told.digests[-1]])


@pytest.mark.parametrize("told", [SMALL, LARGE])
def test_what_is_not_there_is_shown_to_be_absent_at_edges_too(told: Round) -> None:
    between = [_after(told.digests[at]) for at in range(0, told.capsules, 2001)]
    edges = [_after(told.digests[at]) for at in range(RUN - 1, told.capsules, RUN)]
    first, last = bytes(32), b"\xff" * 32
    assert not any(told.look(digest) for digest in [*between, *edges, first, last, _after(told.digests[-1])])


def _after(digest: bytes) -> bytes:
    return (int.from_bytes(digest, "big") + 1).to_bytes(32, "big")


def test_digests_that_begin_like_the_first_of_the_next_shard_are_found() -> None:
    # Eight bytes decide where to look, and here they are the same on both sides of an edge.
    listed = digests(RUN - 3)
    same = b"\xf0" * PREFIX_BYTES
    listed = sorted([*(one for one in listed if one < same), *(same + bytes([i]) * 24 for i in range(250))])
    listed += sorted(b"\xff" * 8 + i.to_bytes(24, "big") for i in range(2 * RUN - len(listed)))
    told = Round(listed)
    assert all(told.look(digest) for digest in listed[:: RUN // 64])
    assert all(told.look(digest) for digest in listed[RUN - 5 : RUN + 5])
    absent = [_after(digest) for digest in listed[RUN - 2 : RUN + 2] if _after(digest) not in set(listed)]
    assert not any(told.look(digest) for digest in absent)


def test_a_changed_run_is_not_under_the_root() -> None:
    run = LARGE.run(1)
    left_out = ShardRun(1, LARGE.capsules, run.path, (*run.digests[1:], b"\xff" * 32))
    with pytest.raises(BadProofError):
        left_out.check(LARGE.root)
    with pytest.raises(BadProofError):
        ShardRun(0, LARGE.capsules, run.path, run.digests).check(LARGE.root)
    with pytest.raises(BadProofError):
        SMALL.run(0).check(LARGE.root)


def test_absence_needs_neighbours() -> None:
    edge = _after(LARGE.digests[RUN - 1])
    assert beside(LARGE.run(0), edge) == 1
    assert absence_in(edge, [LARGE.run(0)]) is None
    assert absence_in(edge, [LARGE.run(1)]) is None
    assert absence_in(edge, [LARGE.run(1), LARGE.run(0)]) is not None
    assert absence_in(LARGE.digests[5], [LARGE.run(0)]) is None
    assert absence_in(edge, []) is None
    assert absence_in(_after(LARGE.digests[3]), [LARGE.run(0), LARGE.run(2)]) is not None


def test_places_of_a_run_are_those_of_the_whole_tree() -> None:
    whole = CapsuleTree(b"".join(LARGE.digests))
    for index in (0, 1, RUN - 1, RUN, 2 * RUN, LARGE.capsules - 1):
        assert LARGE.run(index // RUN).place(index % RUN) == whole.place(index)


def test_index_has_eight_bytes_a_shard() -> None:
    assert (index_bytes(1), index_bytes(RUN), index_bytes(RUN + 1)) == (8, 8, 16)
    prefixes = read_index(LARGE.index, capsules=LARGE.capsules)
    assert all(first < second for first, second in pairwise(prefixes))
    for index in (LARGE.index[8:] + LARGE.index[:8], LARGE.index[1:]):
        with pytest.raises(MalformedMessageError):
            read_index(index, capsules=LARGE.capsules)


def test_what_is_no_run_is_refused() -> None:
    run, twice = SMALL.files[0], SMALL.files[0][:-64] + SMALL.files[0][-32:] * 2
    for data, shard in ((b"", 0), (b"\1", 0), (run[:-1], 0), (run, 1), (twice, 0)):
        with pytest.raises(MalformedMessageError):
            read_run(data, shard=shard, capsules=SMALL.capsules)
