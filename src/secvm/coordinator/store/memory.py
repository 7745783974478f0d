"""MemoryStore: a coordinator's store that is gone with its process. For tests, simulations and short demonstrations."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from secvm.coordinator.store import rules
from secvm.coordinator.store.port import (
    SHARDS,
    BatchState,
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

    @property
    def complete(self) -> bool:
        return self.closed and not self.sealed


@dataclass(slots=True)
class _Batch:
    #: None: forgotten.
    seed: bytes | None = field(repr=False)
    attempt: int = 0
    whole: bool = False
    pieces: dict[int, bytes] = field(default_factory=dict, repr=False)
    runs: dict[int, bytes] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class _Lead:
    """Who drives, and what else all nodes have in common."""

    term: int = 0
    holder: str | None = None
    until: float = 0.0
    last_number: int = 0
    nodes: int = 1


class MemoryStore:
    """The port in plain dictionaries: also the readable account of what a store does.

    Leases and claims run by ``clock``; without one they do not end by themselves.
    """

    def __init__(self, clock: Clock | None = None) -> None:
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
        self._batches: dict[tuple[str, int], _Batch] = {}
        #: Which node has claimed a group, shard or run, and until when. A claim is by what it is of, and its number.
        self._claims: dict[tuple[object, ...], tuple[int, float]] = {}

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

    def _now(self) -> float:
        return 0.0 if self._clock is None else self._clock.now() / 1000

    # ── claims ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _claim(self, *place: object) -> None:
        self._claims[place] = (self._node, self._now() + CLAIM_S)

    def _is_free(self, *place: object) -> bool:
        """Whether this node may have it: nobody else's claim runs."""
        claim = self._claims.get(place)
        return claim is None or claim[0] == self._node or claim[1] <= self._now()

    def _is_ours(self, *place: object, unclaimed: bool) -> bool:
        """Whether this node was the last to claim it; ``unclaimed`` where nobody has."""
        return self._claims[place][0] == self._node if place in self._claims else unclaimed

    def _claim_first(self, left: Iterable[int], *kind: object) -> int | None:
        """Claim the first of these that this node may have, and what it has claimed before ahead of others."""
        free = [index for index in left if self._is_free(*kind, index)]
        free.sort(key=lambda index: not self._is_ours(*kind, index, unclaimed=False))
        for index in free:
            self._claim(*kind, index)
            return index
        return None

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
            free = [number for number in held.sealed if self._is_free("group", number)][:limit]
            for number in free:
                self._claim("group", number)
            return [(number, held.sealed[number]) for number in free]

    def left_sealed(self, epoch: int) -> bool:
        with self._lock:
            return bool(self._epoch(epoch).sealed)

    def replace_sealed(self, epoch: int, numbers: Sequence[int], block: bytes) -> None:
        check_block(block)
        with self._lock:
            held = self._epoch(epoch)
            # A claim that ran out is still good as long as nobody else has claimed the group.
            ours = [number for number in numbers if self._is_ours("group", number, unclaimed=True)]
            if rules.replaces(numbers, sum(number in held.sealed for number in ours)):
                for number in numbers:
                    del held.sealed[number]
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
            return self._claim_first([shard for shard in range(SHARDS) if shard not in held.shards], "shard", epoch)

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

    # ── batches ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin_batch(self, experiment: str, number: int, seed: bytes) -> bytes:
        with self._fenced():
            if experiment not in self._experiments:
                raise LocalProtocolError("there is no such experiment")
            held = self._batches.setdefault((experiment, number), _Batch(bytes(seed)))
            return rules.begun_seed(held.seed)

    def count_seed(self, experiment: str, number: int) -> bytes | None:
        with self._lock:
            held = self._batch(experiment, number)
            return None if held is None else held.seed

    def batch(self, experiment: str, number: int) -> BatchState | None:
        with self._lock:
            held = self._batch(experiment, number)
            return None if held is None else BatchState(held.attempt, tuple(sorted(held.pieces)), held.whole)

    def put_piece(self, experiment: str, number: int, index: int, data: bytes) -> bool:
        with self._lock:
            held = self._batch(experiment, number)
            if held is None:
                return False
            if rules.is_new_piece(held.pieces.get(index), data, whole=held.whole):
                held.pieces[index] = bytes(data)
            return True

    def piece(self, experiment: str, number: int, index: int) -> bytes | None:
        with self._lock:
            held = self._batch(experiment, number)
            return None if held is None else held.pieces.get(index)

    def drop_pieces(self, experiment: str, number: int, attempt: int) -> None:
        with self._lock:
            held = self._batch(experiment, number)
            if held is not None and not held.whole and held.attempt == attempt:
                held.pieces, held.attempt = {}, attempt + 1

    def finish_batch(self, experiment: str, number: int, attempt: int) -> bool:
        with self._lock:
            held = self._batch(experiment, number)
            if held is None or held.attempt != attempt:
                return False
            held.whole = True
            return True

    def claim_run(self, experiment: str, number: int, runs: int) -> int | None:
        with self._lock:
            held = self._batch(experiment, number)
            if held is None or not held.whole:
                return None
            return self._claim_first([run for run in range(runs) if run not in held.runs], "run", experiment, number)

    def keep_run(self, experiment: str, number: int, run: int, result: bytes) -> None:
        with self._lock:
            held = self._batch(experiment, number)
            if held is not None:
                rules.may_keep_run(whole=held.whole)
                held.runs.setdefault(run, bytes(result))

    def counted_runs(self, experiment: str, number: int) -> set[int]:
        with self._lock:
            held = self._batch(experiment, number)
            return set() if held is None else set(held.runs)

    def run_result(self, experiment: str, number: int, run: int) -> bytes | None:
        with self._lock:
            held = self._batch(experiment, number)
            return None if held is None else held.runs.get(run)

    def forget_batch(self, experiment: str, number: int) -> None:
        with self._fenced():
            if experiment in self._experiments:
                self._batches[experiment, number] = _Batch(None)

    def batches(self) -> list[tuple[str, int]]:
        with self._lock:
            return sorted(place for place, held in self._batches.items() if held.seed is not None)

    def _batch(self, experiment: str, number: int) -> _Batch | None:
        held = self._batches.get((experiment, number))
        return None if held is None or held.seed is None else held

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
            for place in [place for place, (node, _) in self._claims.items() if node == self._node]:
                del self._claims[place]

    def _epoch(self, epoch: int) -> _Epoch:
        """The epoch as it is; one that nobody has used yet is empty and open."""
        return self._epochs.get(epoch, _Epoch())

    def _append(self, epoch: int, packed: Sequence[bytes]) -> None:
        held = self._epochs.setdefault(epoch, _Epoch())
        for group in packed:
            self._lead.last_number += 1
            held.sealed[self._lead.last_number] = bytes(group)
