"""Count the packages of a round again, beside the bare X25519 that each of them needs; a device's share; the curve.

A round is a folder of the files that a coordinator publishes; making one is not measured. Everything of a shard counts:
its files are read, its digests and paths checked under both roots, its capsules opened, and its sub-tally compared.

- ``recount_over_openssl``: packages counted again per second of one core's CPU time, over the X25519 operations per
  second that OpenSSL does in the same run; ``…_lanes``: with eight lanes, null where they cannot be built.
- ``device_…``: what one look at a shard costs a device in a round of so many packages.
- ``curve``: the whole count on all cores by size of the round, in processes of its own: seconds, packages per second,
  and the most memory that the reading process and one of its helpers had.

The best of several turns each, of about a second each: so a quiet moment of a shared machine is as likely to be met by
the one as by the other.

    ./secvm bench recount [--full] [--turns 9]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks._measuring import fewest_s, in_a_process
from benchmarks._recount_round import count, files_of, make, read_round
from benchmarks.ingest import openssl_x25519
from secvm.auditor.relayed.recounter import ShardVerdict, judge_shard
from secvm.crypto import merkle
from secvm.crypto.sealing.layers import INNER_BYTES
from secvm.errors import SecVMError
from secvm.protocol.canonical import DIGEST_BYTES
from secvm.protocol.relays.shards import SHARD, index_bytes, shard_count
from secvm.runtime.lanes import Mode, build_lanes, find_lanes

_PER_CORE, _DEVICES = 100_000, (100_000, 10_000_000)
#: Shards of one turn: about as long as OpenSSL's own turn.
_TURN = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--full", action="store_true", help="the curve up to ten million packages")
    parser.add_argument("--turns", type=int, default=9, help="turns of each contestant")
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
        in_a_process(make, str(folder), min(_PER_CORE, largest))
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
    files = list(islice(files_of(folder, packages), _TURN))
    judge_shard(opened, files[-1], mode)  # what is the same for every shard is done once
    started, recounted = time.process_time(), 0
    for one in files:
        judged = judge_shard(opened, one, mode)
        if judged.verdict is not ShardVerdict.TRUE:
            raise SecVMError(f"shard {one.shard} of the benchmark is not true")
        recounted += judged.recounted
    return recounted / (time.process_time() - started)


def _device(folder: Path, modes: dict[str, Mode]) -> dict[str, object]:
    """One full shard, as a device checks it."""
    opened, packages = read_round(folder)
    shard = next(files_of(folder, packages))
    told: dict[str, object] = {}
    tally_bytes = len(shard.tally or b"") - merkle.HASH_BYTES * _path(packages)
    for devices in _DEVICES:
        files = 2 * merkle.HASH_BYTES * _path(devices) + 1 + tally_bytes + SHARD * (DIGEST_BYTES + INNER_BYTES)
        told[f"device_bytes_{devices:.0e}".replace("e+0", "e")] = index_bytes(devices) + files
    for suffix, mode in modes.items():
        told[f"device_cpu_ms{suffix}"] = round(1000 * fewest_s(partial(judge_shard, opened, shard, mode), 5), 1)
    return told


def _path(packages: int) -> int:
    """Hashes of the longest path of a shard."""
    return (shard_count(packages) - 1).bit_length()


def _size(packages: int, *, processes: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as name:
        in_a_process(make, name, packages)
        told: dict[str, Any] = in_a_process(count, name, processes)
    return {
        "packages": packages,
        "seconds": round(told["seconds"], 2),
        "cpu_s": round(told["cpu_s"], 2),
        "packages_per_s": round(packages / told["seconds"]),
        "peak_mb": round(told["peak_mb"]),
        "process_peak_mb": round(told["process_peak_mb"]),
    }
