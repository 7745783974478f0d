"""ShardTree: all shards of a round under both roots, for rounds that are made up."""

from __future__ import annotations

from collections.abc import Sequence

from secvm.crypto import merkle
from secvm.errors import LocalProtocolError
from secvm.protocol.relays.batches import run_root
from secvm.protocol.relays.shards import SHARD, ShardProof, shard_entry


class ShardTree:
    """All shards of a round, for whoever publishes them: both roots, and a proof for each shard."""

    def __init__(self, label: bytes) -> None:
        self._label = label
        self._entries, self._runs = merkle.Tree(), merkle.Tree()
        self._full = True

    def append(self, digests: Sequence[bytes], sub_tally: bytes) -> None:
        """The next shard. Only the last one has fewer capsules than ``SHARD``."""
        if not (self._full and 0 < len(digests) <= SHARD):
            raise LocalProtocolError(f"every shard but the last has {SHARD} capsules; this one has {len(digests)}")
        self._full = len(digests) == SHARD
        self._entries.append(merkle.leaf_hash(shard_entry(digests, sub_tally)))
        self._runs.append(run_root(digests))

    @property
    def root(self) -> bytes:
        """What the opening names."""
        return self._entries.root()

    @property
    def mix_root(self) -> bytes:
        """The root over all capsules: what the mixing relay's count names."""
        return self._runs.root()

    def proof(self, shard: int) -> ShardProof:
        """Of one of them."""
        return ShardProof(
            label=self._label,
            shard=shard,
            path=self._entries.inclusion_proof(shard),
            mix_path=self._runs.inclusion_proof(shard),
        )
