"""Count the packages of a round again, beside the bare X25519 that each of them needs; a device's share; the curve.

A round is a folder of the files that a coordinator publishes; making one is not measured. Everything of a shard counts:
its files are read, its digests and paths checked under both roots, its capsules opened, and its sub-tally compared.

- ``recount_over_openssl``: packages counted again per second of one core's CPU time, over the X25519 operations per
  second that OpenSSL does in the same run; ``…_lanes``: with eight lanes, null where they cannot be built.
- ``device_…``: what one look at a shard costs a device in a round of so many packages.
- ``curve``: the whole count on all cores by size of the round, in processes of its own: seconds, packages per second,
  and the most memory that the reading process and one of its helpers had.

The best of several turns each.

    python benchmarks/recount.py [--full] [--turns 3]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson

from benchmarks._recount_round import files_of, read_round
from benchmarks.ingest import openssl_x25519
from secvm.auditor.relayed.recounter import ShardVerdict, judge_shard
from secvm.crypto import merkle
from secvm.errors import SecVMError
from secvm.protocol.relays.batches.label import DIGEST_BYTES, INNER_BYTES
from secvm.protocol.relays.counting.shards import SHARD, index_bytes, shard_count
from secvm.runtime.lanes import Mode, build_lanes, find_lanes

_HERE = Path(__file__).resolve().parent
_PER_CORE, _DEVICES = 100_000, (100_000, 10_000_000)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--full", action="store_true", help="the curve up to ten million packages")
    parser.add_argument("--turns", type=int, default=3, help="turns of each contestant")
    parser.add_argument("--largest", type=int, default=1_000_000, help="the curve up to so many packages")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """All of it."""
    with contextlib.suppress(SecVMError):
        build_lanes()
    lanes = find_lanes()
    largest = 10_000_000 if arguments.full else arguments.largest
    sizes = [10**power for power in range(4, 8) if 10**power <= largest]
    modes: dict[str, Mode] = {"": "off", **({} if lanes.lanes is None else {"_lanes": "auto"})}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _make(folder, min(_PER_CORE, largest))
        operations: list[float] = []
        rates: dict[str, list[float]] = {suffix: [] for suffix in modes}
        for _ in range(arguments.turns):
            operations.append(openssl_x25519()[0])
            for suffix, mode in modes.items():
                rates[suffix].append(_per_core(folder, mode))
        best = max(operations)
        device = _device(folder, modes)
    curve = [_size(size, processes=os.cpu_count() or 1) for size in sizes]
    over = {suffix: round(max(some) / best, 3) for suffix, some in rates.items()}
    return {
        "recount_over_openssl": over[""],
        "recount_over_openssl_lanes": over.get("_lanes"),
        "openssl_x25519_per_s": round(best),
        **{f"recounted_per_core{suffix}": round(max(some)) for suffix, some in rates.items()},
        "lanes": lanes.reason,
        **device,
        "cores": os.cpu_count(),
        "curve": curve,
    }


def _per_core(folder: Path, mode: Mode) -> float:
    """Packages per second of CPU time, in this process and one thread."""
    opened, packages = read_round(folder)
    files = list(files_of(folder, packages))
    judge_shard(opened, files[-1], mode)  # what is the same for every shard is done once
    started = time.process_time()
    for one in files:
        if judge_shard(opened, one, mode).verdict is not ShardVerdict.TRUE:
            raise SecVMError(f"shard {one.shard} of the benchmark is not true")
    return packages / (time.process_time() - started)


def _device(folder: Path, modes: dict[str, Mode]) -> dict[str, object]:
    """One full shard, as a device checks it."""
    opened, packages = read_round(folder)
    shard = next(files_of(folder, packages))
    told: dict[str, object] = {}
    tally_bytes = len(shard.tally or b"") - merkle.HASH_BYTES * _path(packages)
    for count in _DEVICES:
        files = 2 * merkle.HASH_BYTES * _path(count) + 1 + tally_bytes + SHARD * (DIGEST_BYTES + INNER_BYTES)
        told[f"device_bytes_{count:.0e}".replace("e+0", "e")] = index_bytes(count) + files
    for suffix, mode in modes.items():
        times = []
        for _ in range(5):
            started = time.process_time()
            judge_shard(opened, shard, mode)
            times.append(time.process_time() - started)
        told[f"device_cpu_ms{suffix}"] = round(1000 * min(times), 1)
    return told


def _path(packages: int) -> int:
    """Hashes of the longest path of a shard."""
    return (shard_count(packages) - 1).bit_length()


def _make(folder: Path, packages: int) -> None:
    _run("make", str(folder), str(packages))


def _size(packages: int, *, processes: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as name:
        _make(Path(name), packages)
        told: dict[str, Any] = orjson.loads(_run("count", name, str(processes)))
    return {
        "packages": packages,
        "seconds": round(told["seconds"], 2),
        "cpu_s": round(told["cpu_s"], 2),
        "packages_per_s": round(packages / told["seconds"]),
        "peak_mb": round(told["peak_mb"]),
        "process_peak_mb": round(told["process_peak_mb"]),
    }


def _run(*arguments: str) -> bytes:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-P", str(_HERE / "_recount_round.py"), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment).stdout


if __name__ == "__main__":
    _parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(_parser)
    sys.stdout.write(orjson.dumps(run(_parser.parse_args()), option=orjson.OPT_INDENT_2).decode() + "\n")
