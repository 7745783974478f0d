"""MemoryStore: a coordinator's store that is gone with its process; any number of nodes may have it in common.

It is for tests, simulations and short demonstrations.

It is the SQLite store without a file. What many nodes need besides, leases that end and claims, is kept beside it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from secvm.coordinator.store import rules
from secvm.coordinator.store.port import Ask
from secvm.coordinator.store.rules import SHARDS
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.runtime.clock import Clock

#: How long a claim of a node lasts.
CLAIM_S = 60.0


@dataclass(slots=True)
class _Nodes:
    """What all nodes have in common beside the database."""

    count: int = 1
    #: Until when the lease of whoever drives runs.
    until: float = -math.inf
    #: Which node has claimed a group, shard or run, and until when. A claim is by what it is of, and its number.
    claims: dict[tuple[object, ...], tuple[int, float]] = field(default_factory=dict)
    #: Results of shards, by epoch and shard.
    results: dict[tuple[int, int], bytes] = field(default_factory=dict)


class MemoryStore(SQLiteStore):
    """Leases and claims run by ``clock``; without one they do not end by themselves."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(None)
        self._clock = clock
        self._nodes, self._node = _Nodes(), 1

    def another_node(self) -> MemoryStore:
        """The same store as another node has it: with claims of its own."""
        with self._reading():
            self._nodes.count += 1
            other = copy.copy(self)
            other._node, other._term = self._nodes.count, None  # noqa: SLF001  (a copy of ourselves)
            return other

    def lead(self, holder: str, lease_s: float) -> int | None:
        with self._reading():
            if self._now() >= self._nodes.until and holder not in self._holders.values():
                self._holders.clear()
            term = super().lead(holder, lease_s)
            if term is not None:
                self._nodes.until = self._now() + 1000 * lease_s
            return term

    def _now(self) -> float:
        return 0.0 if self._clock is None else self._clock.now()

    # ── claims ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _claim(self, *place: object) -> None:
        self._nodes.claims[place] = self._node, self._now() + 1000 * CLAIM_S

    def _is_free(self, *place: object) -> bool:
        """Whether this node may have it: nobody else's claim runs."""
        node, until = self._nodes.claims.get(place, (self._node, 0.0))
        return node == self._node or until <= self._now()

    def _claim_first(self, left: Iterable[int], *kind: object) -> int | None:
        """Claim the first of these that this node may have, and what it has claimed before ahead of others."""
        free = [index for index in left if self._is_free(*kind, index)]
        free.sort(key=lambda index: self._nodes.claims.get((*kind, index), (0, 0.0))[0] != self._node)
        for index in free:
            self._claim(*kind, index)
            return index
        return None

    def sealed(self, epoch: int, limit: int) -> list[tuple[int, bytes]]:
        with self._reading():
            free = [group for group in super().sealed(epoch, -1) if self._is_free("group", group[0])][:limit]
            for number, _ in free:
                self._claim("group", number)
            return free

    def replace_sealed(self, epoch: int, numbers: Sequence[int], block: bytes) -> None:
        with self._reading():
            # A claim that ran out is still good as long as nobody else has claimed the group.
            claims = self._nodes.claims
            ours = {number for number in numbers if claims.get(("group", number), (self._node, 0.0))[0] == self._node}
            if ours.issuperset(numbers):
                super().replace_sealed(epoch, numbers, block)
            else:
                rules.replaces(numbers, sum(number in ours for number, _ in super().sealed(epoch, -1)))

    def close(self) -> None:
        """Claims are let go of; the same object goes on."""
        with self._reading():
            claims = self._nodes.claims
            for place in [place for place, (node, _) in claims.items() if node == self._node]:
                del claims[place]

    # ── shards and runs ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def n_shards(self) -> int:
        return SHARDS

    def opened(self, epoch: int, shard: int | None = None) -> Iterator[bytes]:
        blocks = super().opened(epoch)
        return blocks if shard is None else filter(None, (rules.of_shard(block, shard) for block in blocks))

    def claim_shard(self, epoch: int) -> int | None:
        with self._reading():
            if self._once("epoch", epoch=epoch) != [(1, 0)] or self.left_sealed(epoch):
                return None
            counted = self.counted_shards(epoch)
            return self._claim_first([shard for shard in range(SHARDS) if shard not in counted], "shard", epoch)

    def _keep_result(self, _ask: Ask, epoch: int, shard: int, result: bytes, /) -> None:
        self._nodes.results.setdefault((epoch, shard), bytes(result))

    def counted_shards(self, epoch: int) -> set[int]:
        return set(self.shards(epoch))

    def shards(self, epoch: int) -> dict[int, bytes]:
        with self._reading():
            results = self._nodes.results
            return {shard: results[of, shard] for of, shard in sorted(results) if of == epoch}

    def scrub(self, epoch: int) -> None:
        super().scrub(epoch)
        with self._reading():
            for shard in self.shards(epoch):
                del self._nodes.results[epoch, shard]

    def claim_run(self, experiment: str, number: int, runs: int) -> int | None:
        with self._reading():
            state = self.batch(experiment, number)
            if state is None or not state.whole:
                return None
            counted = self.counted_runs(experiment, number)
            return self._claim_first([run for run in range(runs) if run not in counted], "run", experiment, number)
