"""The benchmark of recounting, small: a core counts at least half of what bare X25519 allows, in flat memory."""

import json

import pytest

from secvm.cli.main import run


@pytest.mark.takes(minutes=2)
def test_recounting_costs_at_most_twice_its_exchanges(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "recount", "--largest", "100000", "--turns", "2", "--format", "json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["recount_over_openssl"] >= 0.5
    small, large = told["curve"]
    assert (small["packages"], large["packages"]) == (10_000, 100_000)
    assert large["peak_mb"] < small["peak_mb"] + 50
    assert told["device_bytes_1e5"] < told["device_bytes_1e7"] < 600_000
