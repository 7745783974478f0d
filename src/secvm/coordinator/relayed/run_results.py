"""What a run of capsules came to: each of its shards with counts, roots and how much was junk (docs/protocol.md §31).

A run is one piece of the mixing relay's batch, up to sixteen shards of 4,096 capsules. Its result follows from the
piece and the count seed, whichever node works it out:

    result = for each shard: capsules, junk, nulls ‖ first digest ‖ root ‖ entry ‖ length of the sub-tally ‖ sub-tally

``root`` is the shard's node in the mixing relay's tree, ``entry`` what stands for it in the tree of shards. Capsules
and their digests are not in it: the piece has them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from secvm.errors import MalformedMessageError
from secvm.protocol.relays.batches.capsule_tree import run_root
from secvm.protocol.relays.batches.label import INNER_BYTES, capsule_digest
from secvm.protocol.relays.batches.pieces import cut
from secvm.protocol.relays.counting.bulk_junk import JUNK, NULL, BulkReader, sub_tally_of
from secvm.protocol.relays.counting.shards import SHARD, shard_entry

_HEAD = struct.Struct("<III32s32s64sI")


@dataclass(frozen=True, slots=True)
class CountedShard:
    """One shard."""

    capsules: int
    junk: int
    nulls: int
    #: The smallest digest.
    first: bytes
    #: Over its capsules, in the mixing relay's tree.
    root: bytes
    #: In the tree of shards.
    entry: bytes
    sub_tally: bytes


def count_run(piece: bytes, reader: BulkReader) -> list[CountedShard]:
    """Open and count a piece."""
    found = []
    for at in range(0, len(piece), SHARD * INNER_BYTES):
        data = piece[at : at + SHARD * INNER_BYTES]
        digests = [capsule_digest(capsule) for capsule in cut(data, INNER_BYTES)]
        cells = reader.cells(data)
        sub_tally = sub_tally_of(cells)
        found.append(
            CountedShard(
                capsules=len(digests),
                junk=int(np.count_nonzero(cells == JUNK)),
                nulls=int(np.count_nonzero(cells == NULL)),
                first=digests[0],
                root=run_root(digests),
                entry=shard_entry(digests, sub_tally),
                sub_tally=sub_tally,
            )
        )
    return found


def write_run(shards: Iterable[CountedShard]) -> bytes:
    """A result, as it is kept."""
    return b"".join(
        _HEAD.pack(one.capsules, one.junk, one.nulls, one.first, one.root, one.entry, len(one.sub_tally))
        + one.sub_tally
        for one in shards
    )


def read_run(data: bytes) -> list[CountedShard]:
    """The shards of a result. Raises ``MalformedMessageError`` and nothing else."""
    found, at = [], 0
    while at < len(data):
        if len(data) - at < _HEAD.size:
            raise MalformedMessageError(f"what a run came to ends after {len(data)} bytes, within a shard")
        capsules, junk, nulls, first, root, entry, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size + length
        if at > len(data) or not 0 < capsules <= SHARD or junk + nulls > capsules:
            raise MalformedMessageError("what a run came to names a shard that cannot be")
        found.append(CountedShard(capsules, junk, nulls, first, root, entry, data[at - length : at]))
    return found
