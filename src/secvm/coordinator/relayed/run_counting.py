"""A batch counted in runs, by all nodes that live, and added up by the driver.

A node claims a run of a whole batch, opens its capsules with the count key and keeps what they came to in the store. A
claim ends by itself: what a dead node had claimed is counted by the next one that asks. The driver claims and counts
like everybody, waits for what others have claimed, and adds. A result that cannot be read is worked out again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from secvm.coordinator.relayed.relay_statements import Papers
from secvm.coordinator.relayed.relayed_history import KeptRound, RelayedBook
from secvm.coordinator.relayed.run_results import CountedShard, count_run, read_run, write_run
from secvm.coordinator.store.port import CoordinatorStore
from secvm.crypto.sealing.bulk_sealing import BulkSealer
from secvm.errors import LocalProtocolError, MalformedMessageError
from secvm.protocol.relays.batches.pieces import piece_count
from secvm.protocol.relays.counting.bulk_junk import BulkReader
from secvm.protocol.relays.counting.junk import CapsuleReader

#: How long the driver waits before it asks again what others have counted.
_NAP_S = 0.05


class RunCounting:
    """Counts runs on one node. Blocks; ``whole`` does not."""

    def __init__(self, store: CoordinatorStore, sealer: BulkSealer | None = None, *, nap_s: float = _NAP_S) -> None:
        self._store = store
        self._sealer = BulkSealer() if sealer is None else sealer
        self._nap_s = nap_s

    def count_one(self, book: RelayedBook, one: KeptRound) -> bool:
        """Claim a run and count it. False: there is none to be had, now or any more."""
        runs = self.runs(book, one)
        run = self._store.claim_run(*one.place, runs) if runs else None
        if run is None:
            return False
        result = self._count(book, one, run)
        if result is not None:
            self._store.keep_run(*one.place, run, write_run(result))
        return result is not None

    async def whole(self, book: RelayedBook, one: KeptRound) -> None:
        """For the driver: return when all runs of a whole batch are counted, with everybody's help."""
        while len(await asyncio.to_thread(self._store.counted_runs, *one.place)) < self.runs(book, one):
            if not await asyncio.to_thread(self.count_one, book, one):
                # Others are at it, or were: their claims end.
                await asyncio.sleep(self._nap_s)

    def shards(self, book: RelayedBook, one: KeptRound) -> Iterator[CountedShard]:
        """All shards of a batch that is counted, in order."""
        for run in range(self.runs(book, one)):
            yield from self._result(book, one, run)

    def runs(self, book: RelayedBook, one: KeptRound) -> int:
        """How many there are; 0 as long as no count is here."""
        count = Papers(self._store, book.document, one).mix_count
        return 0 if count is None else piece_count(count.capsules)

    def _result(self, book: RelayedBook, one: KeptRound, run: int) -> list[CountedShard]:
        kept = self._store.run_result(*one.place, run)
        try:
            found = None if kept is None else read_run(kept)
        except MalformedMessageError:
            found = None
        found = self._count(book, one, run) if found is None else found
        if found is None:
            raise LocalProtocolError(f"run {run} of a batch that should be whole is not here")
        return found

    def _count(self, book: RelayedBook, one: KeptRound, run: int) -> list[CountedShard] | None:
        seed, piece = self._store.count_seed(*one.place), self._store.piece(*one.place, run)
        if seed is None or piece is None:
            return None
        reader = CapsuleReader.of(book.document, one.manifest, seed)
        return count_run(piece, BulkReader(reader, self._sealer))
