"""A batch counted in runs, by all nodes that live, and added up by the driver.

A run is one piece of the mixing relay's batch, up to sixteen shards of 4,096 capsules. A node claims a run of a whole
batch, opens its capsules with the count key and keeps the result in the store. A claim ends by itself: what a dead node
had claimed is counted by the next one that asks. The driver claims and counts like every node, waits for what others
have claimed, and adds. A result that cannot be read is computed again. It follows from the piece and the count seed:

    result = for each shard: capsules, junk, nulls ‖ first digest ‖ root ‖ entry ‖ length of the sub-tally ‖ sub-tally

``root`` is the shard's node in the mixing relay's tree, ``entry`` its leaf in the tree of shards (docs/protocol.md
§31). Capsules and their digests are not in it: the piece has them.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, InitVar, dataclass

import numpy as np

from secvm.coordinator.relayed.relay_statements import RelayStatements
from secvm.coordinator.relayed.relayed_history import RelayedHistory, RelayedRound
from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.sealing.layers import INNER_BYTES, BulkSealer
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.relays.batches import capsule_digest, cut, piece_count, run_root
from secvm.protocol.relays.counting import JUNK, NULL, CapsuleReader, sub_tally_of
from secvm.protocol.relays.shards import SHARD, shard_entry

_HEAD = struct.Struct("<III32s32s64sI")


@dataclass(frozen=True, slots=True)
class CountedShard:
    """One shard of a run, counted."""

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


def count_run(piece: bytes, reader: CapsuleReader) -> list[CountedShard]:
    """Open and count a piece."""
    shards = []
    for at in range(0, len(piece), SHARD * INNER_BYTES):
        data = piece[at : at + SHARD * INNER_BYTES]
        digests = [capsule_digest(capsule) for capsule in cut(data, INNER_BYTES)]
        cells = reader.cells(data)
        sub_tally = sub_tally_of(cells)
        shards.append(
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
    return shards


def write_run(shards: Iterable[CountedShard]) -> bytes:
    """The bytes of a result."""
    return b"".join(
        _HEAD.pack(known.capsules, known.junk, known.nulls, known.first, known.root, known.entry, len(known.sub_tally))
        + known.sub_tally
        for known in shards
    )


def read_run(data: bytes) -> list[CountedShard]:
    """The shards of a result. Raises ``MalformedMessageError`` and nothing else."""
    shards, at = [], 0
    while at < len(data):
        if len(data) - at < _HEAD.size:
            raise MalformedMessageError(f"what a run came to ends after {len(data)} bytes, within a shard")
        capsules, junk, nulls, first, root, entry, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size + length
        if at > len(data) or not 0 < capsules <= SHARD or junk + nulls > capsules:
            raise MalformedMessageError("what a run came to names a shard that cannot be")
        shards.append(CountedShard(capsules, junk, nulls, first, root, entry, data[at - length : at]))
    return shards


#: How long the driver waits before it asks again what others have counted.
_NAP_S = 0.05


@dataclass(eq=False, repr=False)
class RunCounting:
    """Counts runs on one node. Blocks; ``whole`` does not."""

    store: CoordinatorStore
    sealer: InitVar[BulkSealer | None] = None
    _: KW_ONLY
    nap_s: float = _NAP_S

    def __post_init__(self, sealer: BulkSealer | None) -> None:
        self._sealer = BulkSealer() if sealer is None else sealer

    def count_one(self, history: RelayedHistory, known: RelayedRound) -> bool:
        """Claim a run and count it. False: there is none to be had, now or any more."""
        runs = self.runs(history, known)
        run = self.store.claim_run(*known.place, runs) if runs else None
        if run is None:
            return False
        result = self._count(history, known, run)
        if result is not None:
            self.store.keep_run(*known.place, run, write_run(result))
        return result is not None

    async def whole(self, history: RelayedHistory, known: RelayedRound) -> None:
        """For the driver: return when all runs of a whole batch are counted, with everybody's help."""
        while len(await asyncio.to_thread(self.store.counted_runs, *known.place)) < self.runs(history, known):
            if not await asyncio.to_thread(self.count_one, history, known):
                # Others are at it, or were: their claims end.
                await asyncio.sleep(self.nap_s)

    def shards(self, history: RelayedHistory, known: RelayedRound) -> Iterator[CountedShard]:
        """All shards of a batch that is counted, in order."""
        for run in range(self.runs(history, known)):
            yield from self._result(history, known, run)

    def runs(self, history: RelayedHistory, known: RelayedRound) -> int:
        """How many there are; 0 as long as no count is here."""
        count = RelayStatements(self.store, history.document, known).mix_count
        return 0 if count is None else piece_count(count.capsules)

    def _result(self, history: RelayedHistory, known: RelayedRound, run: int) -> list[CountedShard]:
        kept = self.store.run_result(*known.place, run)
        try:
            shards = None if kept is None else read_run(kept)
        except MalformedMessageError:
            shards = None
        shards = self._count(history, known, run) if shards is None else shards
        if shards is None:
            raise LocalProtocolError(f"run {run} of a batch that should be whole is not here")
        return shards

    def _count(self, history: RelayedHistory, known: RelayedRound, run: int) -> list[CountedShard] | None:
        seed, piece = self.store.count_seed(*known.place), self.store.piece(*known.place, run)
        if seed is None or piece is None:
            return None
        return count_run(piece, CapsuleReader.of(history.document, known.manifest, seed, self._sealer))
