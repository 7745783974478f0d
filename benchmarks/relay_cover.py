"""One relay's cover of a round: drawn, sealed and sorted, beside the bare X25519 operations that it cannot do without.

D packages of S parts, for so many bins and two labels, as the entry relay makes them (``entry``: both layers) and as
the mixing relay does (``mix``: the inner one). Seconds by the clock on all cores, and of CPU time, which other
programs do not change. ``limit_s`` is what ``cryptography`` alone would take for the X25519 operations on as many
cores: two for each seal. ``bytes_handed_on`` is what travels, ``peak_mb`` the most memory that the process had.

    ./secvm bench relay_cover [--bins 1000] [--packages 395001] [--threads 2] [--readable]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from fractions import Fraction

import numpy as np
from cryptography.hazmat.primitives.asymmetric import x25519

from benchmarks._measuring import fewest_s, memory_mb
from secvm.crypto.sealing.kem import X25519PrivateKey
from secvm.crypto.sealing.layers import INNER_BYTES, OUTER_BYTES, BulkSealer
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.cover_law import Noise, RelayCover
from secvm.learning.experiment import Experiment
from secvm.protocol.codec import ExperimentId
from secvm.protocol.relays.cover_parts import CoverPart, derive_part, seal_part
from secvm.runtime.lanes import find_lanes

_LABEL, _ROOT = bytes(32), b"\1" * 32
_OPERATIONS = 2_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--bins", type=int, default=1_000)
    parser.add_argument("--packages", type=int, default=395_001, help="D, a multiple of the parts")
    parser.add_argument("--parts", type=int, default=9)
    parser.add_argument("--shape", type=Fraction, default=Fraction(15))
    parser.add_argument("--odds", type=Fraction, default=Fraction(21, 2), help="of train cells")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--readable", action="store_true", help="without the machine code for eight lanes")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Draw all parts, then seal and sort them as either relay does."""
    found = find_lanes("off" if arguments.readable else "auto")
    sealer = BulkSealer(found.lanes, threads=arguments.threads)
    count, mix = (X25519PrivateKey(os.urandom(32)) for _ in range(2))
    experiment = _experiment(arguments)
    _draw(experiment, 1)  # kernels are compiled, once
    wall, cpu = time.perf_counter(), time.process_time()
    parts = _draw(experiment, arguments.parts)
    drawn = {"draw_s": round(time.perf_counter() - wall, 2), "draw_cpu_s": round(time.process_time() - cpu, 2)}
    results: dict[str, object] = {
        "packages": arguments.packages,
        "named": sum(part.named for part in parts),
        "attempts": [part.attempt for part in parts],
        "lanes": found.reason,
        "threads": arguments.threads,
        **drawn,
    }
    each = _x25519_seconds()
    for role, outer in (("mix", None), ("entry", mix.public_key)):
        wall, cpu = time.perf_counter(), time.process_time()
        size = INNER_BYTES if outer is None else OUTER_BYTES
        made = [
            block.inner if outer is None else block.outer
            for part in parts
            for block in seal_part(part, count_key=count.public_key, mix_key=outer, sealer=sealer)
        ]
        sealed = time.perf_counter() - wall
        handed_on = _sorted(b"".join(made), size)
        results |= {
            f"{role}_seal_s": round(sealed, 2),
            f"{role}_sort_s": round(time.perf_counter() - wall - sealed, 2),
            f"{role}_s": round(time.perf_counter() - wall + drawn["draw_s"], 2),
            f"{role}_cpu_s": round(time.process_time() - cpu + drawn["draw_cpu_s"], 2),
            f"{role}_limit_s": round(
                2 * (1 if outer is None else 2) * arguments.packages * each / arguments.threads, 2
            ),
            f"{role}_bytes_handed_on": len(handed_on),
        }
    return results | {
        "x25519_us": round(1e6 * each, 2),
        "peak_mb": round(memory_mb()),
    }


def _experiment(arguments: argparse.Namespace) -> Experiment:
    few = Fraction(7)
    cover = RelayCover(
        train=Noise(cells=2 * (arguments.bins + 1), shape=arguments.shape, odds=arguments.odds),
        participation=Noise(cells=4, shape=arguments.shape, odds=few),
        test=Noise(cells=4, shape=arguments.shape, odds=few),
        parts=arguments.parts,
        packages=arguments.packages,
    )
    return Experiment(n_bins=arguments.bins, labels=("a", "b"), rule=Pegasos(), features_per_person=100, cover=cover)


def _draw(experiment: Experiment, parts: int) -> list[CoverPart]:
    return [
        derive_part(
            experiment,
            experiment_id=ExperimentId(bytes(16)),
            round_number=1,
            label=_LABEL,
            root=_ROOT,
            seed=os.urandom(32),
        )
        for _ in range(parts)
    ]


def _sorted(capsules: bytes, size: int) -> bytes:
    """Side by side in the order of their digests."""
    table = np.frombuffer(capsules, np.dtype((np.void, size)))
    digests = np.frombuffer(
        b"".join(hashlib.sha256(capsules[at : at + size]).digest() for at in range(0, len(capsules), size)), "S32"
    )
    # The first eight bytes tell nearly all apart; equal ones keep their order, which is no matter here.
    order = np.argsort(np.frombuffer(digests.tobytes(), ">u8").reshape(-1, 4)[:, 0], kind="stable")
    return table[order].tobytes()


def _x25519_seconds() -> float:
    """CPU time of one exchange of ``cryptography``, the fastest of several turns."""
    private = x25519.X25519PrivateKey.generate()
    public = x25519.X25519PrivateKey.generate().public_key()
    return fewest_s(lambda: [private.exchange(public) for _ in range(_OPERATIONS)], 5) / _OPERATIONS
