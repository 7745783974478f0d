"""The benchmark of a device's cost at the size that it is for: a device costs at most three times its bare seals."""

import json

import pytest

from secvm.cli.main import run


@pytest.mark.takes(minutes=3)
def test_a_device_costs_at_most_three_times_its_seals(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "device", "--devices", "60", "--readable", "--format", "json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["budget"] == 104
    assert 1 < told["over_seals"] <= 3
    for key in ("sealing_ms", "fetching_ms", "checking_ms", "storing_ms", "once_ms", "device_kb"):
        assert told[key] > 0, key
