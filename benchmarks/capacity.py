"""What a package and a device cost, measured here, and the arithmetic for 200,000, 10 million and 1 billion devices.

Every cost is measured in this run on the real parts: devices seal and verify, a relay's process takes single capsules,
nodes take batches into PostgreSQL, open and count them; sizes are those of real messages and files. The assumptions and
the arithmetic are in ``benchmarks/_capacity_plan.py``; prices are assumptions. ``--page`` writes inputs and tables into
docs/capacity.md.

    python benchmarks/capacity.py [--packages 20000] [--page docs/capacity.md]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import orjson

from benchmarks import _capacity_plan as arithmetic
from benchmarks import _ingest_server as setting
from benchmarks._ingest_client import send
from benchmarks.cluster import Bench, batches_into, cpu_s_of, fake_capsules
from benchmarks.ingest import capsules
from benchmarks.ingest_close import measure_close
from secvm.coordinator.settings import LimitsPart
from secvm.crypto.capsules import pack, packed_size
from secvm.crypto.kem import X25519PrivateKey
from secvm.crypto.oblivious import REQUEST_MEDIA_TYPE, GatewayKey, GatewayKeys, RequestSealer, seal_request
from secvm.errors import SecVMError
from secvm.learning.aggregate.descent import Swift
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning
from secvm.protocol.sealed_requests import fetch_answer, fetch_request, package_request
from secvm.protocol.tiles import write_bundle
from secvm.protocol.trusted_rounds import TrustedRounds
from secvm.runtime.lanes import build_lanes
from secvm.testing.federation import ORIGIN_MS, Federation
from secvm.testing.postgres import PostgresCluster
from secvm.testing.public_history import PublicHistory

_BINS = 10_000
_WITNESSES = 3
_DATE = "Thu, 01 Jan 2026 00:00:00 GMT"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--packages", type=int, default=20_000, help="packages to measure with")
    parser.add_argument("--close", type=int, default=2_000_000, help="records to measure the memory of counting with")
    parser.add_argument("--page", type=Path, help="write inputs and tables into this page")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Measure, then calculate."""
    started = time.monotonic()
    costs = {
        **_device(arguments.packages // 10),
        **_relay(arguments.packages),
        **_coordinator(arguments.packages),
        **_counting(arguments.close),
    }
    if arguments.page is not None:
        _write(arguments.page, costs)
    return {
        "costs": costs,
        "assumptions": arithmetic.ASSUMPTIONS,
        "device": {name: round(value, 3) for name, value in arithmetic.per_device(costs).items()},
        "plans": {
            str(devices): {name: round(value, 3) for name, value in arithmetic.plan(costs, devices).items()}
            for devices in arithmetic.SCALES
        },
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "seconds": round(time.monotonic() - started, 1),
    }


def _write(page: Path, costs: dict[str, float]) -> None:
    text = page.read_text(encoding="utf-8")
    told = json.dumps({"costs": costs, "assumptions": arithmetic.ASSUMPTIONS}, indent=2)
    text = arithmetic.with_block(text, "inputs", f"```json\n{told}\n```")
    text = arithmetic.with_block(text, "device", arithmetic.device_table(costs))
    page.write_text(arithmetic.with_block(text, "plan", arithmetic.table(costs)), encoding="utf-8")


def _best(work: Callable[[], object], turns: int = 5) -> float:
    """CPU seconds, the fewest of several turns."""
    best = float("inf")
    for _ in range(turns):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


# ── a device ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _device(packages: int) -> dict[str, float]:
    """Seal a package; believe a round; and what goes over the wire for both, as HTTP bodies under the seal."""
    key = GatewayKey(1, X25519PrivateKey(bytes(range(32))))
    sealer = RequestSealer(key.configuration)
    request = package_request(bytes(32))
    seal = _best(lambda: [sealer.seal(request, os.urandom) for _ in range(packages)]) / packages
    experiment = Experiment(
        n_bins=_BINS, labels=("a", "b"), rule=Swift(), thinning=Thinning(rho=Fraction(3)), budget=50
    )
    history = PublicHistory.drawn(random.Random(0), witnesses=_WITNESSES, experiment=experiment, beacons=0, rounds=400)
    history.play(20, abandoned=0.0)
    trusted = TrustedRounds(history.document, history.envelope)
    for _ in range(2):
        history.announce()
        trusted.believe(trusted.check(history.served(trusted), now=history.now))
        history.conclude(history.draw_tally())
    files = dict(history.files)
    history.announce()
    served, now = history.served(trusted), history.now
    verify = _best(lambda: trusted.check(served, now=now))
    wanted = [*served.manifests, served.checkpoint, write_bundle(served.lines), *served.tallies.values()]
    asked = seal_request(key.configuration, fetch_request("/v1/experiment/" + 64 * "0" + "/manifest/1"), os.urandom)
    gateway = GatewayKeys([key])
    answers = [fetch_answer(200, content, _DATE) for content in wanted]

    # An answer under the seal has a nonce and a tag.
    down = sum(len(answer) + 32 for answer in answers)

    def serve() -> None:
        for answer in answers:
            gateway.open(asked.capsule).seal_response(answer, os.urandom)

    grown = sum(len(data) for path, data in history.files.items() if files.get(path) != data)
    capsule = len(sealer.seal(request, os.urandom).capsule)
    budget = int(arithmetic.ASSUMPTIONS["packages_per_device_and_round"])
    return {
        "device_seal_us": round(1e6 * seal, 2),
        "device_verify_ms": round(1e3 * verify, 3),
        "capsule_bytes": capsule,
        "device_up_bytes": budget * len(_head(capsule)) + budget * capsule + len(wanted) * len(asked.capsule),
        "device_down_bytes": down,
        "fetches_cpu_us": round(1e6 * _best(serve, 50), 1),
        "log_bytes_per_round": grown,
    }


def _head(size: int, credential: str = "x" * 32) -> bytes:
    """The head of a request with a capsule."""
    return (
        f"POST /relay HTTP/1.1\r\nhost: relay.example\r\ncontent-type: {REQUEST_MEDIA_TYPE}\r\n"
        f"content-length: {size}\r\nsecvm-credential: {credential}\r\n\r\n"
    ).encode()


# ── a relay ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _relay(packages: int) -> dict[str, float]:
    """A relay's own process: single capsules over keep-alive connections, each answered when it is durable."""
    some = fake_capsules(packages)
    with (
        tempfile.TemporaryDirectory() as folder,
        Federation(Path(folder), hosts=[], seed="capacity", witnesses=0) as federation,
    ):
        federation.start_servers()
        # Into the epoch whose key has the first byte of what is sent.
        federation.clock.leap_to(ORIGIN_MS + 1000 * (federation.pace.period_s * setting.KEY.key_id + 1))
        requests = [_head(len(one), f"{i % 500:032d}") + one for i, one in enumerate(some)]
        pid = federation.children.pid("relay")
        before, empty = cpu_s_of(pid), _size(Path(folder), "relay.sqlite")
        _, times = asyncio.run(send([federation.port("relay")], requests, 64))
        used, full = cpu_s_of(pid) - before, _size(Path(folder), "relay.sqlite")
    if len(times) != packages:
        raise SecVMError("not all capsules were acknowledged by the relay")
    return {
        "relay_cpu_us": round(1e6 * used / packages, 2),
        "relay_disk_bytes": round((full - empty) / packages),
    }


def _size(folder: Path, name: str) -> int:
    return sum(file.stat().st_size for file in folder.glob(f"{name}*"))


# ── a coordinator on PostgreSQL ──────────────────────────────────────────────────────────────────────────────────────


def _coordinator(packages: int) -> dict[str, float]:
    try:
        build_lanes()
    except SecVMError as error:
        sys.stderr.write(f"without lanes: {error}\n")
    packages = max(1, packages // 1000) * 1000
    with tempfile.TemporaryDirectory() as name, PostgresCluster() as cluster:
        file = Path(name) / "capsules"
        file.write_bytes(pack(fake_capsules(10 * packages)))
        url = cluster.create_database()
        taken = batches_into(file, 10 * packages, [url], cluster)
        cluster.drop_database(url)
        bench = Bench(cluster, capsules(packages))
        try:
            bench.work(1, packages, lanes=False)
            before = bench.wal_bytes()
            told = [bench.work(1, packages, lanes=False) for _ in range(3)]
            wal = (bench.wal_bytes() - before) / 3
            lanes = [bench.work(1, packages, lanes=True) for _ in range(3)] if bench.nodes[0].lanes else []
        finally:
            bench.close()
    return {
        "intake_cpu_us": round(1e6 * taken["cpu_s"] / (10 * packages), 3),
        "database_intake_cpu_us": round(1e6 * taken["database_cpu_s"] / (10 * packages), 3),
        "database_packages_per_s": round(10 * packages / taken["seconds"]),
        "open_and_count_cpu_us": round(1e6 * min(one["cpu_s"] for one in told) / packages, 2),
        "open_and_count_lanes_cpu_us": round(1e6 * min((one["cpu_s"] for one in lanes), default=0) / packages, 2),
        "database_open_cpu_us": round(1e6 * min(one["database_cpu_s"] for one in told) / packages, 2),
        "database_bytes": round(max(one["database_bytes"] for one in told) / packages),
        "wal_bytes": round(wal / packages),
        "deposit_packages": LimitsPart().deposit_bytes // packed_size(bytes(len(capsules(1)[0]))),
    }


def _counting(records: int) -> dict[str, float]:
    """Memory by the difference of two counts, so that Python and the kernels are not in it."""
    small, large = (measure_close(count) for count in (records // 10, records))
    peaks = [next(value for name, value in told.items() if name.endswith("peak_mb")) for told in (small, large)]
    return {"count_memory_bytes": round(2**20 * (peaks[1] - peaks[0]) / (records - records // 10), 1)}


if __name__ == "__main__":
    _parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(_parser)
    sys.stdout.write(orjson.dumps(run(_parser.parse_args()), option=orjson.OPT_INDENT_2).decode() + "\n")
