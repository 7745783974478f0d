"""An epoch counted in shards, by all nodes that live, and added up by the driver.

Records fall into shards by the first bits of their digest. Equal capsules have equal digests, so "each capsule once" is
a question inside one shard; and tallies are integers and add in any order. So the sum of the shards is the count of
the whole, byte for byte.

 1. A node claims a shard when the epoch is closed and nothing of it is sealed, counts it, and keeps the result in the
    store. A claim ends by itself: what a dead node had claimed is counted by the next one that asks.
 2. The driver claims and counts like everybody, waits for what others have claimed, and adds.
 3. A result says which rounds it is of. One of other rounds, by a node that had not heard of all of them, is not
    believed: the driver counts that shard itself.

    result = one line of JSON ‖ tallies, in the order of the rounds
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from secvm.coordinator.counting.epoch_count import Counted, KindCounts, RoundToCount, count_epoch
from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.sealing.kem import RandomBytes
from secvm.errors import MalformedMessageError
from secvm.learning.aggregate.tally import Tally
from secvm.protocol.canonical import is_integer
from secvm.protocol.documents.blobs import encode_tally, read_tally_bytes

#: How long the driver waits before it asks again what others have counted.
_NAP_S = 0.05


@dataclass(frozen=True)
class ShardCount:
    """What a shard came to; the sum of all of them is what the epoch came to (``counting.Counted``)."""

    tallies: list[Tally]
    kinds: list[KindCounts]
    received: int
    distinct: int
    refused: dict[str, int]

    @classmethod
    def of(cls, counted: Counted) -> ShardCount:
        """A count, as the count of a shard."""
        return cls(counted.tallies, counted.kinds, counted.received, counted.distinct, counted.refused)

    def to_bytes(self, rounds: Sequence[RoundToCount]) -> bytes:
        """As it is kept; ``rounds`` are those that were counted."""
        pairs = zip(self.tallies, rounds, strict=True)
        tallies = [encode_tally(tally, told.experiment) for tally, told in pairs]
        head = {
            "rounds": [[told.experiment_id.hex(), told.round_number] for told in rounds],
            "kinds": [
                [one.train, one.test, one.train_participants, one.test_participants, one.null] for one in self.kinds
            ],
            "received": self.received,
            "distinct": self.distinct,
            "refused": self.refused,
            "tallies": [len(data) for data in tallies],
        }
        return json.dumps(head, separators=(",", ":")).encode() + b"\n" + b"".join(tallies)

    @classmethod
    def from_bytes(cls, data: bytes, rounds: Sequence[RoundToCount]) -> ShardCount:
        """A result of these rounds. Raises ``MalformedMessageError`` where it is none, or of others."""
        line, _, rest = data.partition(b"\n")
        try:
            head: dict[str, Any] = json.loads(line)
            if head["rounds"] != [[told.experiment_id.hex(), told.round_number] for told in rounds]:
                raise MalformedMessageError("a shard that was counted for other rounds")
            tallies, at = [], 0
            for told, length in zip(rounds, head["tallies"], strict=True):
                one = rest[at : at + length]
                tallies.append(read_tally_bytes(one, told.experiment))
                at += length
            kinds = [KindCounts(*row) for row in head["kinds"]]
            found = cls(tallies, kinds, head["received"], head["distinct"], head["refused"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise MalformedMessageError("these bytes are no count of a shard") from None
        told_refused: object = head["refused"]
        refused = told_refused if isinstance(told_refused, dict) else {"": None}
        rows = [astuple(kind) for kind in kinds]
        numbers = [found.received, found.distinct, *refused.values(), *(number for row in rows for number in row)]
        if not all(is_integer(number) and number >= 0 for number in numbers):
            raise MalformedMessageError("a shard counts what is no number")
        if len(kinds) != len(rounds) or at != len(rest):
            raise MalformedMessageError("a shard whose parts do not fit together")
        return found


def add_shards(counts: Sequence[ShardCount]) -> ShardCount:
    """The epoch, from all of its shards in their order; each was counted for the same rounds."""
    refused: Counter[str] = Counter()
    for one in counts:
        refused.update(one.refused)
    return ShardCount(
        tallies=[_merged(some) for some in zip(*(one.tallies for one in counts), strict=True)],
        kinds=[_added(some) for some in zip(*(one.kinds for one in counts), strict=True)],
        received=sum(one.received for one in counts),
        distinct=sum(one.distinct for one in counts),
        refused=dict(refused),
    )


def _merged(tallies: Sequence[Tally]) -> Tally:
    first, *others = tallies
    for other in others:
        first = first.merge(other)
    return first


def _added(kinds: Iterable[KindCounts]) -> KindCounts:
    rows = [(one.train, one.test, one.train_participants, one.test_participants, one.null) for one in kinds]
    return KindCounts(*(sum(column) for column in zip(*rows, strict=True)))


class ShardCounting:
    """Counts shards on one node. Blocks; ``whole`` does not."""

    def __init__(self, store: CoordinatorStore, dice: RandomBytes, *, nap_s: float = _NAP_S) -> None:
        self._store = store
        self._dice = dice
        self._nap_s = nap_s

    def count_one(self, epoch: int, rounds: Callable[[], Sequence[RoundToCount]]) -> bool:
        """Claim a shard and count it. False: there is none to be had, now or any more.

        ``rounds`` is asked once there is one: only what is read then is sure to hold every round of a closed epoch.
        """
        shard = self._store.claim_shard(epoch)
        if shard is None:
            return False
        told = rounds()
        self._store.keep_shard(epoch, shard, self._count(epoch, shard, told).to_bytes(told))
        return True

    async def whole(self, epoch: int, rounds: Sequence[RoundToCount]) -> ShardCount:
        """For the driver: the whole epoch, with everybody's help."""
        while True:
            if await asyncio.to_thread(self.count_one, epoch, lambda: rounds):
                continue
            done = await asyncio.to_thread(self._store.counted_shards, epoch)
            if len(done) == self._store.n_shards:
                found = await asyncio.to_thread(self._store.shards, epoch)
                return await asyncio.to_thread(self._add, epoch, found, rounds)
            # Others are at it, or were: their claims end.
            await asyncio.sleep(self._nap_s)

    def _add(self, epoch: int, found: dict[int, bytes], rounds: Sequence[RoundToCount]) -> ShardCount:
        counts = []
        for shard in sorted(found):
            try:
                counts.append(ShardCount.from_bytes(found.pop(shard), rounds))
            except MalformedMessageError:
                counts.append(self._count(epoch, shard, rounds))
        return add_shards(counts)

    def _count(self, epoch: int, shard: int, rounds: Sequence[RoundToCount]) -> ShardCount:
        return ShardCount.of(count_epoch(self._store.opened(epoch, shard), rounds, dice=self._dice))
