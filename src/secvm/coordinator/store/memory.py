"""MemoryStore: a coordinator's store that is gone with its process. For tests, simulations and short demonstrations."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from secvm.coordinator.store import rules
from secvm.coordinator.store.memory_batches import MemoryBatches
from secvm.coordinator.store.port import (
    SHARDS,
    CoordinatorStore,
    Deposit,
    Standing,
    StoredExperiment,
    StoredKey,
    StoredNote,
    StoredRound,
)
from secvm.coordinator.store.records import check_block
from secvm.errors import LocalProtocolError, StaleDriverError
from secvm.protocol.round_state import RoundState
from secvm.runtime.clock import Clock

#: How long a claim of a node lasts.
CLAIM_S = 60.0


@dataclass(slots=True)
class _Epoch:
    closed: bool = False
    scrubbed: bool = False
    key: StoredKey | None = None
    sealed: dict[int, bytes] = field(default_factory=dict)
    opened: list[bytes] = field(default_factory=list)
    deposits: dict[str, Deposit] = field(default_factory=dict)
    shards: dict[int, bytes] = field(default_factory=dict)
    #: Which node has claimed a group or a shard, and until when.
    sealed_claims: dict[int, tuple[int, float]] = field(default_factory=dict)
    shard_claims: dict[int, tuple[int, float]] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return self.closed and not self.sealed


@dataclass(slots=True)
class _Lead:
    """Who drives, and what else all nodes have in common."""

    term: int = 0
    holder: str | None = None
    until: float = 0.0
    last_number: int = 0
    nodes: int = 1


class MemoryStore(MemoryBatches):
    """The port in plain dictionaries: also the readable account of what a store does.

    Leases and claims run by ``clock``; without one they do not end by themselves.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__()
        self._lock = threading.RLock()
        self._clock = clock
        self._lead = _Lead()
        self._node = 1
        self._term: int | None = None
        self._experiments: dict[str, StoredExperiment] = {}
        self._rounds: dict[str, dict[int, StoredRound]] = {}
        self._blobs: dict[str, bytes] = {}
        self._epochs: dict[int, _Epoch] = {}
        self._fetch_keys: dict[int, StoredKey] = {}
        self._entries: list[bytes] = []
        self._notes: dict[str, StoredNote] = {}
        self._beacons: dict[str, dict[int, bytes]] = {}

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._experiments)} experiments>"

    # ── nodes, and who drives ────────────────────────────────────────────────────────────────────────────────────────

    def another_node(self) -> MemoryStore:
        """The same store as another node has it: with claims of its own."""
        with self._lock:
            self._lead.nodes += 1
            other = copy.copy(self)
            other._node, other._term = self._lead.nodes, None  # noqa: SLF001  (a copy of ourselves)
            return other

    def lead(self, holder: str, lease_s: float) -> int | None:
        rules.may_lead(holder, lease_s)
        with self._lock:
            lead, now = self._lead, self._now()
            if lead.holder != holder:
                if lead.holder is not None and now < lead.until:
                    return None
                lead.term += 1
                lead.holder = holder
            lead.until = now + lease_s
            return lead.term

    def resign(self, term: int) -> None:
        with self._lock:
            if self._lead.term == term:
                self._lead.holder = None

    def driving(self, term: int) -> CoordinatorStore:
        with self._lock:
            view = copy.copy(self)
            view._term = term  # noqa: SLF001  (a copy of ourselves)
            return view

    @contextmanager
    def _fenced(self) -> Iterator[None]:
        """The lock, held by somebody who may drive: without a term there is one process, and it may."""
        with self._lock:
            if self._term is not None and (self._term != self._lead.term or self._lead.holder is None):
                raise StaleDriverError
            yield

    def _has_experiment(self, digest: str) -> bool:
        return digest in self._experiments

    def _now(self) -> float:
        return 0.0 if self._clock is None else self._clock.now() / 1000

    # ── experiments, rounds, blobs ───────────────────────────────────────────────────────────────────────────────────

    def add_experiment(self, experiment: StoredExperiment, blobs: Mapping[str, bytes]) -> None:
        with self._fenced():
            there = self._experiments.get(experiment.digest)
            if there is not None:
                rules.same_experiment(there, experiment)
                return
            self._experiments[experiment.digest] = experiment
            self._rounds[experiment.digest] = {}
            self._keep(blobs)

    def experiments(self) -> list[StoredExperiment]:
        with self._lock:
            return list(self._experiments.values())

    def set_standing(self, digest: str, standing: Standing) -> None:
        with self._fenced():
            if digest not in self._experiments:
                raise LocalProtocolError("there is no such experiment")
            rules.may_stand(self._experiments[digest].standing, standing)
            self._experiments[digest] = replace(self._experiments[digest], standing=standing)

    def rounds(self, digest: str) -> list[StoredRound]:
        with self._lock:
            return [held for _, held in sorted(self._rounds.get(digest, {}).items())]

    def blob(self, digest: str) -> bytes:
        with self._lock:
            return self._blobs[digest]

    def keep_blobs(self, blobs: Mapping[str, bytes]) -> None:
        with self._fenced():
            self._keep(blobs)

    def agree(self, name: str, value: bytes) -> bytes:
        with self._lock:
            self._keep({rules.agreed_name(name): value})
            return self._blobs[rules.agreed_name(name)]

    def announce(self, announced: StoredRound, blobs: Mapping[str, bytes]) -> None:
        with self._fenced():
            if announced.experiment not in self._experiments:
                raise LocalProtocolError("there is no such experiment")
            there = self._round(announced.experiment, announced.number)
            rules.may_announce(there, announced, self._experiments[announced.experiment].standing)
            if there is None:
                self._rounds[announced.experiment][announced.number] = announced
                self._keep(blobs)

    def set_state(self, digest: str, number: int, state: RoundState) -> None:
        with self._fenced():
            there = self._round(digest, number)
            if rules.moves(there, state) and there is not None:
                self._rounds[digest][number] = replace(there, state=state)

    def conclude(
        self, digest: str, number: int, *, tally: str | None, next_state: str, blobs: Mapping[str, bytes]
    ) -> None:
        with self._fenced():
            there = self._round(digest, number)
            if rules.concludes(there, tally, next_state) and there is not None:
                state = RoundState.ABANDONED if tally is None else RoundState.TALLIED
                self._rounds[digest][number] = replace(there, state=state, tally=tally, next_state=next_state)
                self._keep(blobs)

    def _round(self, digest: str, number: int) -> StoredRound | None:
        return self._rounds.get(digest, {}).get(number)

    def _keep(self, blobs: Mapping[str, bytes]) -> None:
        for name, data in blobs.items():
            self._blobs.setdefault(name, bytes(data))

    # ── epochs ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def add_key(self, key: StoredKey) -> StoredKey:
        with self._fenced():
            rules.key_fits(key, scrubbed=self._epoch(key.epoch).scrubbed)
            held = self._epochs.setdefault(key.epoch, _Epoch())
            held.key = held.key or key
            return held.key

    def keys(self) -> list[StoredKey]:
        with self._lock:
            return [held.key for _, held in sorted(self._epochs.items()) if held.key is not None]

    def add_fetch_key(self, key: StoredKey) -> StoredKey:
        with self._fenced():
            rules.key_fits(key, scrubbed=False)
            return self._fetch_keys.setdefault(key.epoch, key)

    def fetch_keys(self) -> list[StoredKey]:
        with self._lock:
            return [key for _, key in sorted(self._fetch_keys.items())]

    def forget_fetch_key(self, epoch: int) -> None:
        with self._fenced():
            self._fetch_keys.pop(epoch, None)

    def append_sealed(self, epoch: int, packed: Sequence[bytes]) -> bool:
        with self._lock:
            if self._epoch(epoch).closed:
                return False
            self._append(epoch, packed)
            return True

    def sealed(self, epoch: int, limit: int) -> list[tuple[int, bytes]]:
        with self._lock:
            held = self._epoch(epoch)
            free = [number for number in held.sealed if self._is_free(held.sealed_claims.get(number))][:limit]
            for number in free:
                held.sealed_claims[number] = self._claim()
            return [(number, held.sealed[number]) for number in free]

    def left_sealed(self, epoch: int) -> bool:
        with self._lock:
            return bool(self._epoch(epoch).sealed)

    def _claim(self) -> tuple[int, float]:
        return self._node, self._now() + CLAIM_S

    def _is_free(self, claim: tuple[int, float] | None) -> bool:
        """Whether this node may have it: nobody else's claim runs."""
        return claim is None or claim[0] == self._node or claim[1] <= self._now()

    def replace_sealed(self, epoch: int, numbers: Sequence[int], block: bytes) -> None:
        check_block(block)
        with self._lock:
            held = self._epoch(epoch)
            # A claim that ran out is still good as long as nobody else has claimed the group.
            ours = [number for number in numbers if held.sealed_claims.get(number, (self._node,))[0] == self._node]
            if rules.replaces(numbers, sum(number in held.sealed for number in ours)):
                for number in numbers:
                    del held.sealed[number]
                    held.sealed_claims.pop(number, None)
                if block:
                    held.opened.append(bytes(block))

    def opened(self, epoch: int, shard: int | None = None) -> Iterator[bytes]:
        if shard is not None:
            yield from filter(None, (rules.of_shard(block, shard) for block in self.opened(epoch)))
            return
        at = 0
        while True:
            with self._lock:
                blocks = self._epoch(epoch).opened
                if at >= len(blocks):
                    return
                block = blocks[at]
            yield block
            at += 1

    @property
    def n_shards(self) -> int:
        return SHARDS

    def claim_shard(self, epoch: int) -> int | None:
        with self._lock:
            held = self._epoch(epoch)
            if not held.complete or held.scrubbed:
                return None
            left = [
                shard
                for shard in range(SHARDS)
                if shard not in held.shards and self._is_free(held.shard_claims.get(shard))
            ]
            # What this node has claimed before comes first.
            left.sort(key=lambda shard: held.shard_claims.get(shard, (0,))[0] != self._node)
            if left:
                held.shard_claims[left[0]] = self._claim()
            return left[0] if left else None

    def keep_shard(self, epoch: int, shard: int, result: bytes) -> None:
        with self._lock:
            held = self._epoch(epoch)
            rules.may_keep_shard(shard, SHARDS, complete=held.complete)
            if not held.scrubbed:
                held.shards.setdefault(shard, bytes(result))

    def counted_shards(self, epoch: int) -> set[int]:
        with self._lock:
            return set(self._epoch(epoch).shards)

    def shards(self, epoch: int) -> dict[int, bytes]:
        with self._lock:
            return dict(sorted(self._epoch(epoch).shards.items()))

    def deposit(self, deposit: Deposit, packed: Sequence[bytes]) -> bool:
        with self._lock:
            held = self._epoch(deposit.epoch)
            if deposit.relay in held.deposits:
                return True
            if held.closed:
                return False
            self._append(deposit.epoch, packed)
            self._epochs[deposit.epoch].deposits[deposit.relay] = deposit
            return True

    def deposits(self, epoch: int) -> list[Deposit]:
        with self._lock:
            return [held for _, held in sorted(self._epoch(epoch).deposits.items())]

    def close_epoch(self, epoch: int) -> None:
        with self._fenced():
            self._epochs.setdefault(epoch, _Epoch()).closed = True

    def scrub(self, epoch: int) -> None:
        with self._fenced():
            deposits = self._epoch(epoch).deposits
            self._epochs[epoch] = _Epoch(closed=True, scrubbed=True, deposits=deposits)

    # ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def append_entries(self, at: int, entries: Sequence[bytes]) -> None:
        with self._fenced():
            rules.may_append(len(self._entries), at)
            self._entries += entries

    def entries(self, since: int = 0) -> list[bytes]:
        with self._lock:
            return self._entries[since:]

    def keep_note(self, name: str, *, size: int, root: bytes, note: bytes) -> None:
        with self._fenced():
            rules.may_follow(self._notes.get(name), size=size, root=root)
            self._notes[name] = StoredNote(name, size, root, note)

    def notes(self) -> list[StoredNote]:
        with self._lock:
            return [held for _, held in sorted(self._notes.items())]

    def keep_beacon(self, digest: str, index: int, record: bytes) -> None:
        with self._fenced():
            if digest not in self._experiments:
                raise LocalProtocolError("there is no such experiment")
            held = self._beacons.setdefault(digest, {})
            rules.same_beacon(held.get(index), record)
            held[index] = record

    def beacons(self, digest: str) -> dict[int, bytes]:
        with self._lock:
            return dict(sorted(self._beacons.get(digest, {}).items()))

    def close(self) -> None:
        """Claims are let go of; the same object goes on."""
        with self._lock:
            self._release_runs()
            for held in self._epochs.values():
                for claims in (held.sealed_claims, held.shard_claims):
                    for key in [key for key, (node, _) in claims.items() if node == self._node]:
                        del claims[key]

    def _epoch(self, epoch: int) -> _Epoch:
        """The epoch as it is; one that nobody has used yet is empty and open."""
        return self._epochs.get(epoch, _Epoch())

    def _append(self, epoch: int, packed: Sequence[bytes]) -> None:
        held = self._epochs.setdefault(epoch, _Epoch())
        for group in packed:
            self._lead.last_number += 1
            held.sealed[self._lead.last_number] = bytes(group)
