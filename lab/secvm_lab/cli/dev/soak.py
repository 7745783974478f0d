"""``secvm dev soak``: a coordinator under steady load through many epochs, and whether it stays as it is."""

from __future__ import annotations

import resource
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secvm.cli.output import Format, FormatOption, emit, note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from secvm_lab.soak import Sample

#: Growth of memory per epoch that is called a leak, where the interval leaves no doubt.
LEAK_MB = 0.1
#: Open files and sockets more than before that are still called none.
_DESCRIPTORS = 4
_MOST_ROUNDS = 10_000


def soak(
    *,
    minutes: Annotated[float, typer.Option("--minutes", help="Begin no new epoch after so long.", min=0)] = 10.0,
    rate: Annotated[int, typer.Option("--rate", help="Packages a second.", min=10, max=20_000)] = 2000,
    epoch_s: Annotated[float, typer.Option("--epoch-s", help="Seconds of load in an epoch.", min=0.1)] = 5.0,
    nodes: Annotated[int, typer.Option("--nodes", help="Nodes on a PostgreSQL; 0: one process on a file.", min=0)] = 0,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Load a coordinator through many epochs, and measure it.

    Batches come over sockets, rounds are counted and scrubbed, and memory, open files, disk and latencies are noted
    after each. Ends with 1 where something acknowledged was not counted, or memory or open files grow.
    Example:

    \b
        ./secvm dev soak --minutes 30 --rate 3000
        ./secvm dev soak --minutes 60 --nodes 2 --format json
    """
    from secvm_lab.soak import Soak

    started = time.monotonic()
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory(prefix="secvm-soak-") as folder:
        Path(folder).chmod(0o755)
        with Soak(Path(folder), rate=rate, nodes=nodes) as running:
            running.begin(_MOST_ROUNDS)
            while len(samples) < 3 or (time.monotonic() - started < 60 * minutes and len(samples) < _MOST_ROUNDS - 1):
                samples.append(running.play(len(samples) + 1, seconds=epoch_s))
                one = samples[-1]
                note(
                    f"epoch {one.number}: {one.counted} of {one.acknowledged} counted, {one.per_s:.0f}/s,"
                    f" p99 {one.p99_ms:.0f} ms, {one.rss_mb:.1f} MB, {one.descriptors} files,"
                    f" {one.disk_mb:.1f} MB on disk"
                )
    told = judged(samples)
    told |= {
        "rate": rate,
        "nodes": nodes,
        "seconds": round(time.monotonic() - started, 1),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
    emit(told, output_format)
    if not told["steady"]:
        raise typer.Exit(1)


def judged(samples: Sequence[Sample]) -> dict[str, Any]:
    """What the epochs say together."""
    from secvm_lab.soak import percentile, settled, slope_of

    memory = slope_of(settled([one.rss_mb for one in samples]))
    files = [one.descriptors for one in samples]
    disk = slope_of(settled([one.disk_mb for one in samples]))
    faults = []
    if any(one.acknowledged != one.counted for one in samples):
        faults.append("not everything that was acknowledged was counted")
    if memory.low > LEAK_MB:
        faults.append("memory grows")
    if max(settled(files)) > max(files[: max(1, len(files) // 3)]) + _DESCRIPTORS:
        faults.append("open files grow")
    return {
        "steady": not faults,
        "faults": faults,
        "epochs": len(samples),
        "acknowledged": sum(one.acknowledged for one in samples),
        "counted": sum(one.counted for one in samples),
        "per_s": round(sum(one.per_s for one in samples) / len(samples), 1),
        "p50_ms": round(percentile([one.p50_ms for one in samples], 0.5), 2),
        "p99_ms": round(max(one.p99_ms for one in samples), 2),
        "close_s": round(percentile([one.close_s for one in samples], 0.5), 3),
        "rss_mb": round(samples[-1].rss_mb, 1),
        "rss_mb_slope": memory.to_json(),
        "descriptors": files[-1],
        "disk_mb": round(samples[-1].disk_mb, 2),
        "disk_mb_slope": disk.to_json(),
        "last": asdict(samples[-1]),
    }
