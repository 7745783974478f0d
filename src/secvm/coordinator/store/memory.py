"""MemoryStore: a coordinator's store that is gone with its process. For tests, simulations and short demonstrations."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from secvm.coordinator.records import check_block
from secvm.coordinator.store import rules
from secvm.coordinator.store.port import Deposit, Standing, StoredExperiment, StoredKey, StoredNote, StoredRound
from secvm.errors import LocalProtocolError
from secvm.protocol.round_state import RoundState


@dataclass(slots=True)
class _Epoch:
    closed: bool = False
    scrubbed: bool = False
    key: StoredKey | None = None
    sealed: dict[int, bytes] = field(default_factory=dict)
    opened: list[bytes] = field(default_factory=list)
    spent: list[bytes] = field(default_factory=list)
    deposits: dict[str, Deposit] = field(default_factory=dict)


class MemoryStore:
    """The port in plain dictionaries: also the readable account of what a store does."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._experiments: dict[str, StoredExperiment] = {}
        self._rounds: dict[str, dict[int, StoredRound]] = {}
        self._blobs: dict[str, bytes] = {}
        self._epochs: dict[int, _Epoch] = {}
        self._last_number = 0
        self._notes: dict[str, StoredNote] = {}
        self._beacons: dict[str, dict[int, bytes]] = {}

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._experiments)} experiments>"

    # ── experiments, rounds, blobs ───────────────────────────────────────────────────────────────────────────────────

    def add_experiment(self, experiment: StoredExperiment, blobs: Mapping[str, bytes]) -> None:
        with self._lock:
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
        with self._lock:
            if digest not in self._experiments:
                raise LocalProtocolError("there is no such experiment")
            self._experiments[digest] = replace(self._experiments[digest], standing=standing)

    def rounds(self, digest: str) -> list[StoredRound]:
        with self._lock:
            return [held for _, held in sorted(self._rounds.get(digest, {}).items())]

    def blob(self, digest: str) -> bytes:
        with self._lock:
            return self._blobs[digest]

    def announce(self, announced: StoredRound, blobs: Mapping[str, bytes]) -> None:
        with self._lock:
            if announced.experiment not in self._experiments:
                raise LocalProtocolError("there is no such experiment")
            there = self._round(announced.experiment, announced.number)
            rules.may_announce(there, announced)
            if there is None:
                self._rounds[announced.experiment][announced.number] = announced
                self._keep(blobs)

    def set_state(self, digest: str, number: int, state: RoundState) -> None:
        with self._lock:
            there = self._round(digest, number)
            if rules.moves(there, state) and there is not None:
                self._rounds[digest][number] = replace(there, state=state)

    def conclude(
        self, digest: str, number: int, *, tally: str | None, next_state: str, blobs: Mapping[str, bytes]
    ) -> None:
        with self._lock:
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
        with self._lock:
            rules.key_fits(key, scrubbed=self._epoch(key.epoch).scrubbed)
            held = self._epochs.setdefault(key.epoch, _Epoch())
            held.key = held.key or key
            return held.key

    def keys(self) -> list[StoredKey]:
        with self._lock:
            return [held.key for _, held in sorted(self._epochs.items()) if held.key is not None]

    def append_sealed(self, epoch: int, packed: Sequence[bytes]) -> bool:
        with self._lock:
            if self._epoch(epoch).closed:
                return False
            self._append(epoch, packed)
            return True

    def append_opened(self, epoch: int, block: bytes, spent: bytes = b"") -> bool:
        check_block(block)
        check_block(spent)
        with self._lock:
            if self._epoch(epoch).closed:
                return False
            held = self._epochs.setdefault(epoch, _Epoch())
            if block:
                held.opened.append(bytes(block))
            if spent:
                held.spent.append(bytes(spent))
            return True

    def sealed(self, epoch: int, limit: int) -> list[tuple[int, bytes]]:
        with self._lock:
            return list(self._epoch(epoch).sealed.items())[:limit]

    def replace_sealed(self, epoch: int, numbers: Sequence[int], block: bytes, spent: bytes = b"") -> None:
        check_block(block)
        check_block(spent)
        with self._lock:
            held = self._epoch(epoch)
            if rules.replaces(numbers, sum(number in held.sealed for number in numbers)):
                for number in numbers:
                    del held.sealed[number]
                if block:
                    held.opened.append(bytes(block))
                if spent:
                    held.spent.append(bytes(spent))

    def opened(self, epoch: int) -> Iterator[bytes]:
        at = 0
        while True:
            with self._lock:
                blocks = self._epoch(epoch).opened
                if at >= len(blocks):
                    return
                block = blocks[at]
            yield block
            at += 1

    def spent(self, epoch: int) -> Iterator[bytes]:
        with self._lock:
            blocks = list(self._epoch(epoch).spent)
        yield from blocks

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
        with self._lock:
            self._epochs.setdefault(epoch, _Epoch()).closed = True

    def scrub(self, epoch: int) -> None:
        with self._lock:
            deposits = self._epoch(epoch).deposits
            self._epochs[epoch] = _Epoch(closed=True, scrubbed=True, deposits=deposits)

    # ── the log ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def keep_note(self, origin: str, *, size: int, root: bytes, note: bytes) -> None:
        with self._lock:
            there = self._notes.get(origin)
            rules.may_follow(there, size=size, root=root)
            self._notes[origin] = StoredNote(origin, size, root, note, note if there is None else there.first)

    def notes(self) -> list[StoredNote]:
        with self._lock:
            return [held for _, held in sorted(self._notes.items())]

    def keep_beacon(self, digest: str, index: int, record: bytes) -> None:
        with self._lock:
            if digest not in self._experiments:
                raise LocalProtocolError("there is no such experiment")
            held = self._beacons.setdefault(digest, {})
            rules.same_beacon(held.get(index), record)
            held[index] = record

    def beacons(self, digest: str) -> dict[int, bytes]:
        with self._lock:
            return dict(sorted(self._beacons.get(digest, {}).items()))

    def close(self) -> None:
        """Nothing to let go of: the same object goes on."""

    def _epoch(self, epoch: int) -> _Epoch:
        """The epoch as it is; one that nobody has used yet is empty and open."""
        return self._epochs.get(epoch, _Epoch())

    def _append(self, epoch: int, packed: Sequence[bytes]) -> None:
        held = self._epochs.setdefault(epoch, _Epoch())
        for group in packed:
            self._last_number += 1
            held.sealed[self._last_number] = bytes(group)
