"""Shards: the inner capsules of a round in public, 4,096 at a time, each with what it counts (docs/protocol.md §31).

A shard is an aligned run of the sorted inner capsules. Its **sub-tally** is the raw counts of its packages, sparse: a
device recounts the shard of its canary and knows that this part of the tally is true. Leaf k of the shards' tree has
the entry

    SHA-256( digests of the shard side by side ) ‖ SHA-256( sub-tally )

A ``ShardProof`` leads from a shard to that tree's root, which the opening names, and to the mixing relay's root. Two
public files are there to look for a canary (§32):

    index of the shards     for each shard the first 8 bytes of its first digest, side by side
    run of a shard          1 byte: number of hashes ‖ the path of the run to the mixing relay's root ‖ its digests

Prefixes are for finding alone. What shows anything is the run: an aligned run of leaves is a subtree of the mixing
relay's tree, and because digests ascend, two neighbours with a digest between them show that this one is not there.
Where a digest would stand at the very edge of a run, its neighbour is in the run beside it.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar

from secvm.crypto import merkle
from secvm.errors import BadProofError, LocalProtocolError, MalformedMessageError
from secvm.protocol.canonical import DIGEST_BYTES
from secvm.protocol.records import FixedRecord, Hash, HashPath, whole
from secvm.protocol.relays.batches import RUN, Absence, Place, cut, run_root
from secvm.protocol.version import SHARD_PROOF_TYPE

#: Capsules of a shard; the last may have fewer.
SHARD = RUN
#: So many days after ``open_by`` the shards of an opened round are public, at the least.
LEAST_DAYS, DAY_MS = 7, 86_400_000
_LINE = struct.Struct("<QQ")


def shard_count(capsules: int) -> int:
    """How many shards so many capsules make."""
    return -(-capsules // SHARD)


def shard_size(shard: int, capsules: int) -> int:
    """How many capsules the shard of this number has."""
    return max(0, min(SHARD, capsules - shard * SHARD))


def write_sub_tally(counts: Mapping[int, int]) -> bytes:
    """Packages per cell as bytes: cells ascending, without zeros."""
    if any(cell < 0 or count < 0 for cell, count in counts.items()):
        raise LocalProtocolError("a sub-tally counts cells, from zero on")
    return b"".join(_LINE.pack(cell, count) for cell, count in sorted(counts.items()) if count)


def read_sub_tally(data: bytes, *, cells: int, capsules: int) -> dict[int, int]:
    """Packages per cell of a shard with so many capsules, in an experiment with so many cells.

    Raises
    ------
    MalformedMessageError
        Anything that ``write_sub_tally`` does not write, or that counts what is not there.
    """
    if len(data) % _LINE.size or len(data) > _LINE.size * capsules:
        raise MalformedMessageError(f"a sub-tally of {capsules} capsules has at most {capsules} lines of 16 bytes")
    lines = list(_LINE.iter_unpack(data))
    named = [cell for cell, _ in lines]
    if any(first >= second for first, second in pairwise(named)) or any(count == 0 for _, count in lines):
        raise MalformedMessageError("a sub-tally's cells ascend, each with a count above zero")
    if named and named[-1] >= cells:
        raise MalformedMessageError(f"a sub-tally names cell {named[-1]}, and there are {cells}")
    if sum(count for _, count in lines) > capsules:
        raise MalformedMessageError("a sub-tally counts more packages than its shard has capsules")
    return dict(lines)


def shard_entry(digests: Sequence[bytes], sub_tally: bytes) -> bytes:
    """What stands in the shards' tree for a shard."""
    return hashlib.sha256(b"".join(digests)).digest() + hashlib.sha256(sub_tally).digest()


def shards_root(entries: Iterable[bytes]) -> bytes:
    """The root over all shards, in their order."""
    upper = merkle.Frontier()
    for entry in entries:
        upper = upper.append(merkle.leaf_hash(entry))
    return upper.root


@dataclass(frozen=True, kw_only=True)
class ShardProof(FixedRecord):
    """What leads from a shard to the two roots above it. Unsigned: what it leads to is signed."""

    purpose: ClassVar[str] = SHARD_PROOF_TYPE
    title: ClassVar[str] = "the shard's proof"
    #: Two paths of at most 64 hashes, in hexadecimal.
    longest: ClassVar[int] = 2**14

    label: Hash
    shard: Annotated[int, whole(0)]
    #: From the shard's entry to the root of the shards.
    path: HashPath
    #: From the root of the shard's own capsules to the mixing relay's root.
    mix_path: HashPath

    def check(
        self, digests: Sequence[bytes], sub_tally: bytes, *, capsules: int, shards: bytes, mix_root: bytes
    ) -> None:
        """That this is the shard, whole and with its sub-tally, of a round with so many capsules.

        Raises
        ------
        BadProofError
            It is not.
        """
        size = shard_size(self.shard, capsules)
        if len(digests) != size or any(len(digest) != DIGEST_BYTES for digest in digests):
            raise BadProofError(f"shard {self.shard} has {size} capsules, and these are {len(digests)} digests")
        if any(first >= second for first, second in pairwise(digests)):
            raise BadProofError("a shard's digests ascend, none twice")
        place = {"index": self.shard, "size": shard_count(capsules)}
        entry = merkle.leaf_hash(shard_entry(digests, sub_tally))
        merkle.check_inclusion(entry, **place, proof=self.path, root=shards)
        merkle.check_inclusion(run_root(digests), **place, proof=self.mix_path, root=mix_root)


def write_below(path: Sequence[bytes], data: bytes) -> bytes:
    """A public file of a shard: 1 byte for the number of hashes, the path to a root, and what stands below it."""
    if len(path) > merkle.MAX_PROOF_HASHES:
        raise LocalProtocolError(f"a path of {len(path)} hashes; the longest has {merkle.MAX_PROOF_HASHES}")
    return bytes([len(path)]) + b"".join(path) + data


def read_below(data: bytes) -> tuple[tuple[bytes, ...], bytes]:
    """Path and data of such a file. Raises ``MalformedMessageError``."""
    first = 1 + (data[0] if data else 0) * merkle.HASH_BYTES
    if not data or data[0] > merkle.MAX_PROOF_HASHES or len(data) < first:
        raise MalformedMessageError(f"{len(data)} bytes are no path with something below it")
    return tuple(cut(data[1:first], merkle.HASH_BYTES)), data[first:]


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
        return write_below(self.path, b"".join(self.digests))

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
    path, below = read_below(data)
    size = shard_size(shard, capsules)
    if size == 0 or len(below) != size * DIGEST_BYTES:
        raise MalformedMessageError(f"{len(data)} bytes are no run of the {size} digests of shard {shard}")
    digests = tuple(cut(below, DIGEST_BYTES))
    if any(before >= after for before, after in pairwise(digests)):
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
    at = bisect_left(listed, digest, key=lambda place: place[0].digests[place[1]])
    if at < len(listed) and listed[at][0].digests[listed[at][1]] == digest:
        return None
    left = None if at == 0 else listed[at - 1][0].place(listed[at - 1][1])
    right = None if at == len(listed) else listed[at][0].place(listed[at][1])
    first = 0 if left is None else left.index + 1
    follows = first == (ordered[0].capsules if right is None else right.index) if ordered else False
    return Absence(left, right) if follows else None
