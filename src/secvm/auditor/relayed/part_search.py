"""An opened part looked for among a round's digests, which come shard after shard, ascending."""

from __future__ import annotations

import numpy as np

from secvm.crypto.sealing.bulk_sealing import BulkSealer
from secvm.protocol.relays.batches.label import DIGEST_BYTES
from secvm.protocol.relays.counting.opened_parts import OpenedPart
from secvm.protocol.relays.counting.shard_runs import ShardRun


class PartSearch:
    """Goes through its part's digests as the shards come. It keeps 36 bytes a package, in a fixed order."""

    def __init__(self, part: OpenedPart, sealer: BulkSealer) -> None:
        self.part = part
        digests = b"".join(part.inner_digests(sealer))
        words = np.frombuffer(digests, ">u8").reshape(-1, DIGEST_BYTES // 8)
        #: Numbers of packages, by digest.
        self._order = np.lexsort(words.T[::-1]).astype(np.uint32)
        self._sorted = words[self._order].tobytes()
        self._at = 0

    @property
    def package(self) -> int:
        """The one that is looked for: its number in the part."""
        return int(self._order[self._at])

    @property
    def digest(self) -> bytes:
        """Of its inner capsule."""
        return self._sorted[DIGEST_BYTES * self._at : DIGEST_BYTES * (self._at + 1)]

    def misses(self, run: ShardRun) -> bool:
        """Whether a digest that would stand in this shard, or between it and the one before, is not there."""
        while not self.ended and self.digest <= run.digests[-1]:
            if run.find(self.digest) is None:
                return True
            self._at += 1
        return False

    @property
    def ended(self) -> bool:
        """Whether all were found."""
        return self._at == len(self._order)
