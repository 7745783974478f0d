"""A shard's digests as a device fetches them: found where they are, absent where they are not, at every edge."""

import hashlib
from itertools import pairwise

import pytest

from secvm.errors import BadProofError, MalformedMessageError
from secvm.protocol.relays.batches import RUN, CapsuleTree
from secvm.protocol.relays.shards import (
    PREFIX_BYTES,
    ShardRun,
    absence_in,
    beside,
    index_bytes,
    read_index,
    read_run,
    shard_of,
    write_index,
)
from secvm_lab.rigs.histories.shard_tree import ShardTree


def digests(count: int) -> list[bytes]:
    return sorted(hashlib.sha256(b"%d" % i).digest() for i in range(count))


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
