"""The public files by which a canary is looked for: where each shard begins, and one shard's digests (§32).

    index of the shards     for each shard the first 8 bytes of its first digest, side by side
    run of a shard          1 byte: number of hashes ‖ the path of the run to the mixing relay's root ‖ its digests

Prefixes are for finding alone. What shows anything is the run: an aligned run of leaves is a subtree of the mixing
relay's tree, and because digests ascend, two neighbours with a digest between them show that this one is not there.
Where a digest would stand at the very edge of a run, its neighbour is in the run beside it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from secvm.crypto import merkle
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.relays.batches.capsule_tree import Absence, Place, run_root
from secvm.protocol.relays.batches.label import DIGEST_BYTES
from secvm.protocol.relays.counting.shards import SHARD, shard_count, shard_size

PREFIX_BYTES = 8
#: A count of hashes, a path, and the digests of a full shard.
MAX_RUN_BYTES = 1 + merkle.MAX_PROOF_HASHES * merkle.HASH_BYTES + SHARD * DIGEST_BYTES


def index_bytes(capsules: int) -> int:
    """How long the index of so many capsules is."""
    return PREFIX_BYTES * shard_count(capsules)


def write_index(firsts: Sequence[bytes]) -> bytes:
    """The index, from the first digest of each shard."""
    return b"".join(first[:PREFIX_BYTES] for first in firsts)


def read_index(data: bytes, *, capsules: int) -> tuple[bytes, ...]:
    """The prefixes of the shards of so many capsules. Raises ``MalformedMessageError``."""
    if len(data) != index_bytes(capsules):
        raise MalformedMessageError(
            f"the index of {capsules} capsules has {index_bytes(capsules)} bytes; this one has {len(data)}"
        )
    prefixes = tuple(data[at : at + PREFIX_BYTES] for at in range(0, len(data), PREFIX_BYTES))
    # Not strictly: digests that begin alike are not forbidden.
    if any(first > second for first, second in pairwise(prefixes)):
        raise MalformedMessageError("the shards of an index do not ascend")
    return prefixes


def shard_of(prefixes: Sequence[bytes], digest: bytes) -> int:
    """The shard in which a digest stands, or would stand."""
    return max(0, bisect_right(prefixes, digest[:PREFIX_BYTES]) - 1)


@dataclass(frozen=True, slots=True)
class ShardRun:
    """The digests of one shard, and the way from them to the mixing relay's root. **Checked by** ``check``."""

    shard: int
    #: n₂: capsules of the whole round.
    capsules: int
    path: tuple[bytes, ...]
    digests: tuple[bytes, ...]

    def to_bytes(self) -> bytes:
        """As it is served."""
        if len(self.path) > merkle.MAX_PROOF_HASHES:
            raise LocalProtocolError(f"a path of {len(self.path)} hashes; the longest has {merkle.MAX_PROOF_HASHES}")
        return bytes([len(self.path)]) + b"".join(self.path) + b"".join(self.digests)

    def check(self, root: bytes) -> None:
        """That this is the shard of that number under the mixing relay's root. Raises ``BadProofError``."""
        size = shard_count(self.capsules)
        merkle.check_inclusion(run_root(self.digests), index=self.shard, size=size, proof=self.path, root=root)

    def find(self, digest: bytes) -> int | None:
        """The index of a digest within the run; None: it is not there."""
        at = bisect_left(self.digests, digest)
        return at if at < len(self.digests) and self.digests[at] == digest else None

    def place(self, index: int) -> Place:
        """Where the digest of this index within the run stands in the whole tree."""
        within = merkle.Tree(merkle.leaf_hash(digest) for digest in self.digests).inclusion_proof(index)
        return Place(self.shard * SHARD + index, self.digests[index], (*within, *self.path))


def read_run(data: bytes, *, shard: int, capsules: int) -> ShardRun:
    """The run of this shard, of a round of so many capsules; nothing is checked against a root.

    Raises
    ------
    MalformedMessageError
        Anything that ``to_bytes`` does not write for this shard.
    """
    count = data[0] if data else merkle.MAX_PROOF_HASHES + 1
    size = shard_size(shard, capsules)
    first = 1 + count * merkle.HASH_BYTES
    if count > merkle.MAX_PROOF_HASHES or size == 0 or len(data) != first + size * DIGEST_BYTES:
        raise MalformedMessageError(f"{len(data)} bytes are no run of the {size} digests of shard {shard}")
    path = tuple(data[at : at + merkle.HASH_BYTES] for at in range(1, first, merkle.HASH_BYTES))
    digests = tuple(data[at : at + DIGEST_BYTES] for at in range(first, len(data), DIGEST_BYTES))
    if any(one >= other for one, other in pairwise(digests)):
        raise MalformedMessageError("a run's digests ascend, none twice")
    return ShardRun(shard, capsules, path, digests)


def beside(run: ShardRun, digest: bytes) -> int | None:
    """Which other shard is needed to show that a digest which is not in this one is nowhere; None: this one is enough.

    It is the next one where the digest lies beyond this run's last, the one before where it lies before its first.
    """
    if digest < run.digests[0] and run.shard > 0:
        return run.shard - 1
    if digest > run.digests[-1] and run.shard + 1 < shard_count(run.capsules):
        return run.shard + 1
    return None


def absence_in(digest: bytes, runs: Sequence[ShardRun]) -> Absence | None:
    """That a digest is not in the tree, from runs of it that were checked; None: they do not show it."""
    ordered = sorted(runs, key=lambda run: run.shard)
    listed = [(run, index) for run in ordered for index in range(len(run.digests))]
    at = bisect_left(listed, digest, key=lambda one: one[0].digests[one[1]])
    if at < len(listed) and listed[at][0].digests[listed[at][1]] == digest:
        return None
    left = None if at == 0 else listed[at - 1][0].place(listed[at - 1][1])
    right = None if at == len(listed) else listed[at][0].place(listed[at][1])
    first = 0 if left is None else left.index + 1
    follows = first == (ordered[0].capsules if right is None else right.index) if ordered else False
    return Absence(left, right) if follows else None
