"""The benchmarks of many nodes and of capacity run, small, and have every key; how fast they are here says nothing."""

import json

import pytest

from secvm.cli.main import run
from tests.unit.crypto.openers import lanes_here


def test_bench_cluster_tells_what_it_must(capfd: pytest.CaptureFixture[str]) -> None:
    small = ["--packages", "2000", "--intake", "4000", "--turns", "1"]
    assert run(["bench", "cluster", *small, "--format", "json"]) == 0
    told = json.loads(capfd.readouterr().out)
    for key in (
        "two_process_scaling",
        "two_process_limit",
        "portable_over_openssl",
        "postgres_batch_packages_per_s",
        "postgres_one_node_packages_per_s",
        "sqlite_batch_packages_per_s",
        "disk_packages_per_s",
        "postgres_over_disk",
        "openssl_x25519_per_s",
        "peak_rss_mb",
        "seconds",
    ):
        assert told[key] > 0, key
    assert (told["lanes_over_openssl"] is None) == (lanes_here() is None)
