"""The ingest benchmark runs, small, and has every key; how fast it is here says nothing."""

import json

import pytest

from secvm.cli.main import run


def test_bench_ingest_tells_what_it_must(capfd: pytest.CaptureFixture[str]) -> None:
    small = ["--packages", "1500", "--singles", "60", "--connections", "4", "--close", "1000000", "--turns", "1"]
    assert run(["bench", "ingest", *small, "--format", "json"]) == 0
    told = json.loads(capfd.readouterr().out)
    for key in (
        "openssl_x25519_per_s",
        "opened_per_core",
        "opened_per_core_over_openssl",
        "durable_single_over_uvicorn",
        "durable_single_p99_ms",
        "close_1m_cpu_s",
        "close_1m_peak_mb",
    ):
        assert told[key] > 0, key
    assert told["openssl_source"] in {"openssl speed", "pyca exchange"}
