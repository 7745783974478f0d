"""Many nodes on one PostgreSQL: opened and counted by two processes, taken in by two; beside OpenSSL and the disk.

Everything is measured in one run, on a private PostgreSQL with ``fsync`` on; nodes and clients are processes of their
own. The machine may be noisy: what is compared is measured in turns. Of wall-clock times the median of the turns is
told, of CPU times the best of them, as in ``bench ingest``.

- ``two_process_scaling``: batches that were stored beforehand are opened and counted by one process, then as many by
  two, the real opener on the real store with its claims and shards; the ratio of the two wall-clock rates. Where
  ``two_process_limit`` is less than 2, that is the bound: two cores all busy could do so much, the database's own work
  on them included.
- ``portable_over_openssl``, ``lanes_over_openssl``: packages that one process takes from the database, opens, puts back
  and counts, per second of its own CPU time, over the X25519 operations per second that OpenSSL does, of which each
  needs one; capsules one by one, and eight at a time (null where CPU or compiler do not allow it).
- ``postgres_batch_packages_per_s``: relays' batches of 1,000 over loopback sockets, taken by two nodes, each batch
  acknowledged when it is durable, nothing opened; wall-clock. Beside it one node's and SQLite's; and what bounds it:
  ``disk_packages_per_s``, the same bytes written to a file with fdatasync after each 8 batches, and the CPU time that
  nodes, database and client take for a package, all on the same cores.

    ./secvm bench cluster [--packages 36000] [--intake 300000] [--turns 5]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import _ingest_server as setting
from benchmarks._cluster_node import key_of
from benchmarks._measuring import Helper
from benchmarks.ingest import Server, capsules, load, openssl_x25519
from secvm.coordinator.store.postgres import PostgresStore
from secvm.crypto.sealing.capsules import pack
from secvm.errors import SecVMError
from secvm.runtime.lanes import build_lanes
from secvm_lab.rigs.postgres import PostgresCluster

_BATCH = 1000
_CONNECTIONS = 16
#: A package as sealed: clear header, ephemeral key, request, tag.
_SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "4GB", "wal_buffers": "16MB"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument(
        "--packages", type=int, default=36_000, help="packages opened in each turn; four times with lanes"
    )
    parser.add_argument("--intake", type=int, default=300_000, help="packages taken in, in each turn")
    parser.add_argument("--turns", type=int, default=5, help="turns of each contestant")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """All of it."""
    started = time.monotonic()
    try:
        build_lanes()
    except SecVMError as error:
        sys.stderr.write(f"without lanes: {error}\n")
    with tempfile.TemporaryDirectory() as name, PostgresCluster(settings=_SETTINGS) as cluster:
        folder = Path(name)
        opening = _opening(cluster, arguments.packages, arguments.turns)
        intake = _intake(cluster, folder, arguments.intake, arguments.turns)
    used = [resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        **opening,
        **intake,
        "turns": arguments.turns,
        "peak_rss_mb": round(max(used), 1),
        "seconds": round(time.monotonic() - started, 1),
    }


# ── opening and counting ─────────────────────────────────────────────────────────────────────────────────────────────


class Bench:
    """One database, its nodes, and epochs that are stored beforehand."""

    def __init__(self, cluster: PostgresCluster, sealed: Sequence[bytes]) -> None:
        self._cluster = cluster
        self._sealed = [pack(sealed[at : at + _BATCH]) for at in range(0, len(sealed), _BATCH)]
        url = cluster.create_database()
        self._store = PostgresStore(url)
        self.nodes = [Helper("_cluster_node", url) for _ in range(2)]
        self._epoch = 0

    def work(self, processes: int, packages: int, *, lanes: bool) -> dict[str, float]:
        """Store an epoch, then let so many processes open and count it."""
        self._epoch += 1
        term = self._store.lead("the benchmark", 600)
        assert term is not None
        driving = self._store.driving(term)
        driving.add_key(key_of(self._epoch))
        for at in range(0, packages // _BATCH, 20):
            some = [self._sealed[i % len(self._sealed)] for i in range(at, min(at + 20, packages // _BATCH))]
            self._store.append_sealed(self._epoch, some)
        driving.close_epoch(self._epoch)
        stored = self.database_bytes()
        database = _cpu_s(self._cluster)
        for node in self.nodes[:processes]:
            node.ask(epoch=self._epoch, lanes=lanes, adds=node is self.nodes[0])
        told = [node.answer() for node in self.nodes[:processes]]
        database = _cpu_s(self._cluster) - database
        size = self.database_bytes()
        driving.scrub(self._epoch)
        distinct = min(packages, _BATCH * len(self._sealed))
        if (told[0]["distinct"], told[0]["counted"]) != (distinct, distinct):
            raise SecVMError("not all packages were counted")
        return {
            "wall_s": max(one["ended"] for one in told) - min(one["started"] for one in told),
            "cpu_s": sum(one["cpu_s"] for one in told),
            "database_cpu_s": database,
            "database_bytes": max(stored, size),
            "peak_mb": max(one["peak_mb"] for one in told),
        }

    def database_bytes(self) -> int:
        """What the tables of the epoch take on the disk now."""
        ((size,),) = self._store.pool.once(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class"
            " WHERE relkind = 'r' AND relname LIKE %(name)s",
            {"name": f"epoch\\_{self._epoch}\\_%"},
        )
        return int(size)

    def close(self) -> None:
        for node in self.nodes:
            node.quit()
        self._store.close()


def _opening(cluster: PostgresCluster, packages: int, turns: int) -> dict[str, object]:
    packages = max(1, packages // _BATCH) * _BATCH
    bench = Bench(cluster, capsules(packages))
    #: Processes and packages of each contestant.
    contestants = {"one": (1, packages), "two": (2, packages)}
    if bench.nodes[0].greeting["lanes"]:
        contestants |= {"one_lanes": (1, 4 * packages), "two_lanes": (2, 4 * packages)}
    openssl, turned = [], {name: list[dict[str, float]]() for name in ("one", "two", "one_lanes", "two_lanes")}
    try:
        bench.work(2, 2 * _BATCH, lanes=False)
        for _ in range(turns):
            openssl.append(openssl_x25519())
            for name, (processes, count) in contestants.items():
                turned[name].append(bench.work(processes, count, lanes=name.endswith("lanes")))
    finally:
        bench.close()

    def per_core(name: str) -> list[float]:
        return [contestants[name][1] / turn["cpu_s"] for turn in turned[name]]

    def scaling(one: str, two: str) -> float | None:
        return _median([a["wall_s"] / b["wall_s"] for a, b in zip(turned[one], turned[two], strict=True)], 2)

    def over(rates: list[float]) -> float | None:
        # The best turn of each: whoever else runs on the machine can only add to CPU time.
        return round(max(rates) / max(limit for limit, _ in openssl), 3) if rates else None

    # With both cores busy all the time, on the nodes' work and the database's.
    one, two = turned["one"], turned["two"]
    limits = [2 * a["wall_s"] / (b["cpu_s"] + b["database_cpu_s"]) for a, b in zip(one, two, strict=True)]
    portable, lanes = per_core("one"), per_core("one_lanes")
    return {
        "two_process_scaling": scaling("one", "two"),
        "two_process_limit": _median(limits, 2),
        "two_process_scaling_lanes": scaling("one_lanes", "two_lanes"),
        "portable_over_openssl": over(portable),
        "lanes_over_openssl": over(lanes),
        "openssl_x25519_per_s": round(max(rate for rate, _ in openssl)),
        "openssl_source": openssl[0][1],
        "portable_per_core": round(max(portable)),
        "lanes_per_core": round(max(lanes)) if lanes else None,
        "one_process_per_s": _median([packages / turn["wall_s"] for turn in one], 0),
        "two_processes_per_s": _median([packages / turn["wall_s"] for turn in two], 0),
        "database_cpu_us_per_package": _median([1e6 * turn["database_cpu_s"] / packages for turn in two], 2),
        "node_peak_mb": round(max(turn["peak_mb"] for turn in two), 1),
        "cores": os.cpu_count(),
        "packages": packages,
    }


def _median(values: Sequence[float], digits: int) -> float | None:
    return round(statistics.median(values), digits or None) if values else None


def _cpu_s(cluster: PostgresCluster | None) -> float:
    """CPU time of the server and of all its processes."""
    return 0.0 if cluster is None or cluster.pid is None else cpu_s_of(cluster.pid)


def cpu_s_of(pid: int) -> float:
    """CPU time of a process, of its children that live, and of those that it has buried."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == pid:
            ticks += int(words[11]) + int(words[12])
        elif stat.parent.name == str(pid):
            ticks += sum(map(int, words[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


# ── intake ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _intake(cluster: PostgresCluster, folder: Path, packages: int, turns: int) -> dict[str, object]:
    packages = max(1, packages // _BATCH) * _BATCH
    file = folder / "capsules"
    file.write_bytes(pack(fake_capsules(packages)))
    one = len(capsules(1)[0])
    rates: dict[str, list[dict[str, Any]]] = {"two": [], "one": [], "sqlite": []}
    disk: list[float] = []
    for _ in range(turns):
        for name, nodes in {"two": 2, "one": 1}.items():
            url = cluster.create_database()
            rates[name].append(batches_into(file, packages, [url] * nodes, cluster))
            cluster.drop_database(url)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            rates["sqlite"].append(batches_into(file, packages, [place]))
        disk.append(_disk(cluster.folder, packages, one + 2))
    two, alone, sqlite = (_median([packages / told["seconds"] for told in some], 0) for some in rates.values())
    limit = _median([packages / seconds for seconds in disk], 0)
    assert two is not None
    assert limit is not None
    return {
        "postgres_batch_packages_per_s": two,
        "postgres_batch_p99_ms": _median([told["p99_ms"] for told in rates["two"]], 1),
        "postgres_one_node_packages_per_s": alone,
        "sqlite_batch_packages_per_s": sqlite,
        "disk_packages_per_s": limit,
        "disk_mb_per_s": round(limit * (one + 2) / 1e6),
        "postgres_over_disk": round(two / limit, 3),
        # What the cores of this machine have to do for one package; 1 / (sum / cores) is the other limit.
        "intake_node_cpu_us": _median([1e6 * told["cpu_s"] / packages for told in rates["two"]], 3),
        "intake_database_cpu_us": _median([1e6 * told["database_cpu_s"] / packages for told in rates["two"]], 3),
        "intake_client_cpu_us": _median([1e6 * told["client_cpu_s"] / packages for told in rates["two"]], 3),
        "capsule_bytes": one,
        "intake_packages": packages,
    }


def fake_capsules(count: int) -> list[bytes]:
    """For whoever does not open them: a first byte that names the key, and noise."""
    size = len(capsules(1)[0])
    noise, first = os.urandom(size * count), bytes([setting.KEY.key_id])
    return [first + noise[at + 1 : at + size] for at in range(0, len(noise), size)]


def batches_into(
    file: Path, packages: int, places: Sequence[str], cluster: PostgresCluster | None = None
) -> dict[str, Any]:
    """One client that sends the file's capsules, and a node for each place."""
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Server("intake", place)) for place in places]
        before = _cpu_s(cluster)
        for node in nodes:
            node.ask(begin=True)
        told = load("batches", nodes, file, _BATCH, _CONNECTIONS, setting.TOKEN)
        database = _cpu_s(cluster) - before
        used = [node.end()["cpu_s"] for node in nodes]
    if told["requests"] != packages // _BATCH:
        raise SecVMError("not all batches were acknowledged")
    return {**told, "cpu_s": sum(used), "database_cpu_s": database}


def _disk(folder: Path, packages: int, size: int) -> float:
    """Seconds to write the same bytes to a file there, as many at once as connections send."""
    group = os.urandom(size * _BATCH * _CONNECTIONS // 2)
    left = packages * size
    started = time.perf_counter()
    with tempfile.NamedTemporaryFile(dir=folder, buffering=0) as file:
        while left > 0:
            file.write(group[:left])
            os.fdatasync(file.fileno())
            left -= len(group)
    return time.perf_counter() - started
