"""An epoch counted in shards, by all nodes that live, and added up by the driver.

Records fall into shards by the first bits of their digest. Equal capsules have equal digests, so "each capsule once" is
a question inside one shard; and tallies are integers and add in any order. So the sum of the shards is the count of
the whole, byte for byte.

 1. A node claims a shard when the epoch is closed and nothing of it is sealed, counts it, and keeps the result in the
    store. A claim ends by itself: what a dead node had claimed is counted by the next one that asks.
 2. The driver claims and counts like everybody, waits for what others have claimed, and adds.
 3. A result says which rounds it is of. One of other rounds, by a node that had not heard of all of them, is not
    believed: the driver counts that shard itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, astuple, dataclass
from functools import reduce

from secvm.coordinator.counting.epoch_count import EpochCount, KindCounts, RoundToCount, count_epoch
from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.sealing.kem import RandomBytes
from secvm.errors import MalformedMessageError
from secvm.learning.aggregate.tally import Tally

#: How long the driver waits before it asks again what others have counted.
_NAP_S = 0.05


def add_shards(counts: Sequence[EpochCount]) -> EpochCount:
    """The count of the epoch, from those of all its shards in their order; each is of the same rounds."""
    refused: Counter[str] = Counter()
    for count in counts:
        refused.update(count.refused)
    kinds = zip(*(count.kinds for count in counts), strict=True)
    return EpochCount(
        tallies=[reduce(Tally.merge, same) for same in zip(*(count.tallies for count in counts), strict=True)],
        kinds=[KindCounts(*map(sum, zip(*map(astuple, same), strict=True))) for same in kinds],
        received=sum(count.received for count in counts),
        distinct=sum(count.distinct for count in counts),
        refused=dict(refused),
    )


@dataclass(eq=False, repr=False)
class ShardCounting:
    """Counts shards on one node. Blocks; ``whole`` does not."""

    store: CoordinatorStore
    dice: RandomBytes
    _: KW_ONLY
    nap_s: float = _NAP_S

    def count_one(self, epoch: int, rounds: Callable[[], Sequence[RoundToCount]]) -> bool:
        """Claim a shard and count it. False: there is none to be had, now or any more.

        ``rounds`` is asked once there is one: only what is read then is sure to hold every round of a closed epoch.
        """
        shard = self.store.claim_shard(epoch)
        if shard is None:
            return False
        counted = rounds()
        self.store.keep_shard(epoch, shard, self._count(epoch, shard, counted).to_bytes(counted))
        return True

    async def whole(self, epoch: int, rounds: Sequence[RoundToCount]) -> EpochCount:
        """For the driver: the whole epoch, with everybody's help."""
        while True:
            if await asyncio.to_thread(self.count_one, epoch, lambda: rounds):
                continue
            done = await asyncio.to_thread(self.store.counted_shards, epoch)
            if len(done) == self.store.n_shards:
                found = await asyncio.to_thread(self.store.shards, epoch)
                return await asyncio.to_thread(self._add, epoch, found, rounds)
            # Others are at it, or were: their claims end.
            await asyncio.sleep(self.nap_s)

    def _add(self, epoch: int, found: dict[int, bytes], rounds: Sequence[RoundToCount]) -> EpochCount:
        counts = []
        for shard in sorted(found):
            try:
                counts.append(EpochCount.from_bytes(found.pop(shard), rounds))
            except MalformedMessageError:
                counts.append(self._count(epoch, shard, rounds))
        return add_shards(counts)

    def _count(self, epoch: int, shard: int, rounds: Sequence[RoundToCount]) -> EpochCount:
        return count_epoch(self.store.opened(epoch, shard), rounds, dice=self.dice)
