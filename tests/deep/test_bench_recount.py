"""The benchmark of recounting, small: what it tells, and that memory is flat."""

import json

import pytest

from secvm.cli.main import run


@pytest.mark.takes(minutes=2)
def test_recounting_is_bound_by_its_exchanges_and_its_memory_is_flat(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "recount", "--largest", "100000", "--turns", "4", "--format", "json"]) == 0
    told = json.loads(capfd.readouterr().out)
    # .6 on an idle machine; other tests run beside this one.
    assert told["recount_over_openssl"] >= 0.25
    small, large = told["curve"]
    assert (small["packages"], large["packages"]) == (10_000, 100_000)
    assert large["peak_mb"] < small["peak_mb"] + 50
    assert told["device_bytes_1e5"] < told["device_bytes_1e7"] < 600_000
