"""Batches of rounds with two relays, in memory: a part of ``MemoryStore``."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from secvm.coordinator.store import rules
from secvm.coordinator.store.port import BatchState
from secvm.errors import LocalProtocolError


@dataclass(slots=True)
class _Batch:
    seed: bytes | None = field(repr=False)
    attempt: int = 0
    whole: bool = False
    pieces: dict[int, bytes] = field(default_factory=dict, repr=False)
    runs: dict[int, bytes] = field(default_factory=dict, repr=False)
    #: Which node has claimed a run, and until when.
    claims: dict[int, tuple[int, float]] = field(default_factory=dict)


class MemoryBatches:
    """See ``BatchStore``. What is not here is ``MemoryStore``'s."""

    _lock: threading.RLock
    _node: int

    def __init__(self) -> None:
        #: Without a seed: forgotten.
        self._batches: dict[tuple[str, int], _Batch] = {}

    def _fenced(self) -> AbstractContextManager[None]:
        raise NotImplementedError

    def _claim(self) -> tuple[int, float]:
        raise NotImplementedError

    def _is_free(self, claim: tuple[int, float] | None) -> bool:
        raise NotImplementedError

    def _has_experiment(self, digest: str) -> bool:
        raise NotImplementedError

    def begin_batch(self, experiment: str, number: int, seed: bytes) -> bytes:
        with self._fenced():
            if not self._has_experiment(experiment):
                raise LocalProtocolError("there is no such experiment")
            held = self._batches.setdefault((experiment, number), _Batch(bytes(seed)))
            return rules.begun_seed(held.seed)

    def count_seed(self, experiment: str, number: int) -> bytes | None:
        with self._lock:
            held = self._held(experiment, number)
            return None if held is None else held.seed

    def batch(self, experiment: str, number: int) -> BatchState | None:
        with self._lock:
            held = self._held(experiment, number)
            return None if held is None else BatchState(held.attempt, tuple(sorted(held.pieces)), held.whole)

    def put_piece(self, experiment: str, number: int, index: int, data: bytes) -> bool:
        with self._lock:
            held = self._held(experiment, number)
            if held is None:
                return False
            if rules.is_new_piece(held.pieces.get(index), data, whole=held.whole):
                held.pieces[index] = bytes(data)
            return True

    def piece(self, experiment: str, number: int, index: int) -> bytes | None:
        with self._lock:
            held = self._held(experiment, number)
            return None if held is None else held.pieces.get(index)

    def drop_pieces(self, experiment: str, number: int, attempt: int) -> None:
        with self._lock:
            held = self._held(experiment, number)
            if held is not None and not held.whole and held.attempt == attempt:
                held.pieces, held.attempt = {}, attempt + 1

    def finish_batch(self, experiment: str, number: int, attempt: int) -> bool:
        with self._lock:
            held = self._held(experiment, number)
            if held is None or held.attempt != attempt:
                return False
            held.whole = True
            return True

    def claim_run(self, experiment: str, number: int, runs: int) -> int | None:
        with self._lock:
            held = self._held(experiment, number)
            if held is None or not held.whole:
                return None
            left = [run for run in range(runs) if run not in held.runs and self._is_free(held.claims.get(run))]
            # What this node has claimed before comes first.
            left.sort(key=lambda run: held.claims.get(run, (0,))[0] != self._node)
            if left:
                held.claims[left[0]] = self._claim()
            return left[0] if left else None

    def keep_run(self, experiment: str, number: int, run: int, result: bytes) -> None:
        with self._lock:
            held = self._held(experiment, number)
            if held is not None:
                rules.may_keep_run(whole=held.whole)
                held.runs.setdefault(run, bytes(result))

    def counted_runs(self, experiment: str, number: int) -> set[int]:
        with self._lock:
            held = self._held(experiment, number)
            return set() if held is None else set(held.runs)

    def run_result(self, experiment: str, number: int, run: int) -> bytes | None:
        with self._lock:
            held = self._held(experiment, number)
            return None if held is None else held.runs.get(run)

    def forget_batch(self, experiment: str, number: int) -> None:
        with self._fenced():
            if self._has_experiment(experiment):
                self._batches[experiment, number] = _Batch(None)

    def batches(self) -> list[tuple[str, int]]:
        with self._lock:
            return sorted(place for place, held in self._batches.items() if held.seed is not None)

    def _held(self, experiment: str, number: int) -> _Batch | None:
        held = self._batches.get((experiment, number))
        return None if held is None or held.seed is None else held

    def _release_runs(self) -> None:
        for held in self._batches.values():
            for run in [run for run, (node, _) in held.claims.items() if node == self._node]:
                del held.claims[run]
