"""Receive, store durably, open and count packages, beside bare X25519 and beside starlette on uvicorn.

Everything is measured in one run, on loopback, servers and clients each in a process of their own.

- ``opened_per_core``: packages that came in a relay's batches of 1,000, were made durable in SQLite, opened and
  counted, per second of the coordinator's CPU time, all of its threads together; ``…_over_openssl``: beside the X25519
  operations per second that OpenSSL does, of which each capsule needs one.
- ``durable_single_over_uvicorn``: single capsules over keep-alive connections, each acknowledged when durable, per
  second, beside an endpoint with starlette and uvicorn (uvloop, httptools) that commits groups to the same SQLite. The
  same client, in turns; neither opens.
- ``close_10m_…``: packages de-duplicated and tallied (``benchmarks/ingest_close.py``).

The best of several turns each.

    ./secvm bench ingest [--packages 40000] [--singles 20000] [--close 10000000]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import x25519

from benchmarks import _ingest_server as setting
from benchmarks._ingest_client import send_all
from benchmarks._measuring import Helper, in_a_process
from benchmarks.ingest_close import measure_close
from secvm.coordinator.intake.running import gateway_key
from secvm.crypto.sealing.capsules import pack
from secvm.crypto.sealing.oblivious import RequestSealer
from secvm.errors import SecVMError
from secvm.learning.package import TrainPackage
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.plain.sealed_requests import package_request

_BATCH = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--packages", type=int, default=40_000, help="packages in batches, in each turn")
    parser.add_argument("--singles", type=int, default=20_000, help="single packages, in each turn")
    parser.add_argument("--connections", type=int, default=256, help="connections with single packages")
    parser.add_argument("--close", type=int, default=10_000_000, help="packages to close a round with")
    parser.add_argument("--turns", type=int, default=3, help="turns of each contestant")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """All of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "capsules").write_bytes(pack(capsules(arguments.packages)))
        operations: list[tuple[float, str]] = []
        batches = []
        for _ in range(arguments.turns):
            operations.append(openssl_x25519())
            batches.append(_turn(folder, "batches", _BATCH, 2, setting.TOKEN))
        if any(turn["distinct"] != arguments.packages or turn["counted"] != arguments.packages for turn in batches):
            raise SecVMError("not all packages were counted")
        singles: dict[str, list[dict[str, Any]]] = {"ours": [], "peer": []}
        for _ in range(arguments.turns):
            for kind, turns in singles.items():
                turns.append(_turn(folder, kind, arguments.singles, arguments.connections))
    closed = measure_close(arguments.close)
    per_s, source = max(operations)
    best = max(batches, key=lambda turn: arguments.packages / turn["cpu_s"])
    opened = arguments.packages / best["cpu_s"]
    ours, peer = (max(turns, key=lambda turn: turn["requests"] / turn["seconds"]) for turns in singles.values())
    rates = [turn["requests"] / turn["seconds"] for turn in (ours, peer)]
    per_core = {kind: max(turn["requests"] / turn["cpu_s"] for turn in turns) for kind, turns in singles.items()}
    return {
        "openssl_x25519_per_s": round(per_s),
        "openssl_source": source,
        "opened_per_core": round(opened),
        "opened_per_core_over_openssl": round(opened / per_s, 3),
        "durable_single_over_uvicorn": round(rates[0] / rates[1], 2),
        "durable_single_per_core_over_uvicorn": round(per_core["ours"] / per_core["peer"], 2),
        "durable_single_per_s": round(rates[0]),
        "durable_single_per_core": round(per_core["ours"]),
        "durable_single_p50_ms": round(ours["p50_ms"], 2),
        "durable_single_p99_ms": round(ours["p99_ms"], 2),
        "uvicorn_single_per_s": round(rates[1]),
        "uvicorn_single_per_core": round(per_core["peer"]),
        "uvicorn_single_p50_ms": round(peer["p50_ms"], 2),
        "uvicorn_single_p99_ms": round(peer["p99_ms"], 2),
        **closed,
        "packages": arguments.packages,
        "singles": arguments.singles,
        "coordinator_peak_mb": round(best["peak_mb"]),
    }


def capsules(count: int) -> list[bytes]:
    """So many packages of the benchmark's round, sealed."""
    sealer = RequestSealer(gateway_key(setting.KEY).configuration)
    packages = [
        encode(
            AddressedPackage(
                setting.DOCUMENT.experiment_id, setting.ROUND, TrainPackage(model=0, bin_index=i % setting.BINS, sign=1)
            )
        )
        for i in range(count)
    ]
    return [sealer.seal(package_request(package), os.urandom).capsule for package in packages]


def openssl_x25519() -> tuple[float, str]:
    """X25519 operations per second of CPU time of one core: OpenSSL's own measurement, or a loop of pyca's."""
    binary = shutil.which("openssl")
    if binary is not None:
        told = subprocess.run(
            [binary, "speed", "-seconds", "1", "ecdhx25519"], capture_output=True, text=True, check=False
        ).stdout
        found = re.search(r"\(X25519\)\s+\S+\s+([0-9.]+)", told)
        if found:
            return float(found[1]), "openssl speed"
    private, public = x25519.X25519PrivateKey.generate(), x25519.X25519PrivateKey.generate().public_key()
    started, count = time.process_time(), 0
    while (used := time.process_time() - started) < 1:
        for _ in range(100):
            private.exchange(public)
        count += 100
    return count / used, "pyca exchange"


class Server(Helper):
    """A server's process; ``place``: a folder for its store, or a database."""

    def __init__(self, kind: str, place: str) -> None:
        super().__init__("_ingest_server", kind, place)
        self.port: int = self.greeting["port"]

    def end(self) -> dict[str, Any]:
        """What it has used since it was asked to ``begin``."""
        self.ask(end=True)
        used = self.answer()
        self.quit()
        return used


def load(kind: str, servers: Sequence[Server], file: Path, *work: object) -> dict[str, Any]:
    """What the client tells that sends to these servers."""
    measured: dict[str, Any] = in_a_process(send_all, kind, [server.port for server in servers], str(file), *work)
    return measured


def _turn(folder: Path, kind: str, *work: object) -> dict[str, Any]:
    """One server and one client; what both tell."""
    with tempfile.TemporaryDirectory(dir=folder) as data, Server(kind, data) as server:
        server.ask(begin=True)
        told = load("batches" if kind == "batches" else "singles", [server], folder / "capsules", *work)
        return {**told, **server.end()}
