"""Close an epoch: its records are read from the coordinator's SQLite file, de-duplicated and tallied.

Measured in a process of its own: ``close_N_cpu_s`` is the CPU time of reading, de-duplicating and tallying, user and
system. ``close_N_peak_mb`` is the most memory that the process had, Python and compiled kernels included. One record
in a hundred is a capsule that came before.

    ./secvm bench ingest_close [--packages 10000000]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks._measuring import in_a_process, memory_mb
from secvm.coordinator.counting.epoch_count import RoundToCount, count_epoch
from secvm.coordinator.store.sqlite import SQLiteStore
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.protocol.codec import ExperimentId

_BLOCK = 2**16
_EPOCH = 1
_BINS = 2**18
_ROUNDS = [
    RoundToCount(
        ExperimentId(bytes([i]) * 16), Experiment(n_bins=_BINS, labels=("a", "b"), rule=Pegasos(), budget=5), i + 1
    )
    for i in range(2)
]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--packages", type=int, default=10_000_000, help="records in the epoch")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Write an epoch, then close it."""
    return dict(measure_close(arguments.packages))


def measure_close(n: int) -> dict[str, float]:
    """Write an epoch of ``n`` records, and close it in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coordinator.db"
        in_a_process(write, str(path), n)
        measured: dict[str, float] = in_a_process(close, str(path), n)
    return measured


def _name(n: int) -> str:
    return f"{n // 10**6}m" if n and n % 10**6 == 0 else str(n)


def _records(rng: np.random.Generator, count: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Mostly train packages, some of every other kind, for two rounds."""
    records = np.zeros((count, 64), dtype=np.uint8)
    records[:, :32] = np.frombuffer(rng.bytes(32 * count), dtype=np.uint8).reshape(count, 32)
    kind = rng.choice(np.array([1, 2, 3, 4]), size=count, p=[0.7, 0.05, 0.05, 0.2])
    which = rng.integers(0, len(_ROUNDS), count)
    records[:, 32] = 1
    records[:, 33] = kind
    records[:, 34:50] = which[:, None]
    records[:, 50] = which + 1
    records[:, 54] = np.where((kind == 2) | (kind == 3), rng.integers(0, 2, count), 0)
    b = np.where(kind == 1, rng.integers(0, _BINS + 1, count), np.where(kind == 2, rng.integers(0, 2, count), 0))
    records[:, 56:60] = b.astype("<u4").view(np.uint8).reshape(count, 4)
    records[:, 60] = np.where((kind == 1) | (kind == 3), rng.integers(1, 3, count), 0)
    # The last of each block came before, as the first.
    repeated = count // 100
    records[count - repeated :] = records[:repeated]
    return records


def write(path: str, n: int) -> None:
    """Store an epoch of ``n`` opened records."""
    rng = np.random.default_rng(1)
    store = SQLiteStore(Path(path))
    for start in range(0, n, _BLOCK):
        store.append_sealed(_EPOCH, [b""])
        numbers = [number for number, _ in store.sealed(_EPOCH, 1)]
        store.replace_sealed(_EPOCH, numbers, _records(rng, min(_BLOCK, n - start)).tobytes())
    store.close_epoch(_EPOCH)
    store.close()


def close(path: str, n: int) -> dict[str, float]:
    """Read the epoch and count it."""
    # Kernels are compiled once for an installation: not a part of closing.
    warm = _records(np.random.default_rng(2), 20_000).tobytes()
    count_epoch([warm], _ROUNDS, dice=os.urandom)
    store = SQLiteStore(Path(path))
    start = time.process_time()
    counted = count_epoch(store.opened(_EPOCH), _ROUNDS, dice=os.urandom)
    after_count = time.process_time()
    peak = memory_mb()
    store.close()
    repeated = sum(min(_BLOCK, n - at) // 100 for at in range(0, n, _BLOCK))
    assert (counted.received, counted.distinct, counted.refused) == (n, n - repeated, {})
    name = _name(n)
    return {
        f"close_{name}_cpu_s": round(after_count - start, 3),
        f"close_{name}_peak_mb": round(peak, 1),
    }
