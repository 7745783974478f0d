"""The benchmark of a device, small: its hosts are the metered ones."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import _device_host, device


def test_repro_the_hosts_of_the_benchmark_tell_what_they_spend() -> None:
    parser = argparse.ArgumentParser()
    device.add_arguments(parser)
    sizes = ["--devices", "5", "--rounds", "2", "--bins", "20", "--features", "5", "--readable"]
    result = device.run(parser.parse_args(sizes))
    assert result["devices"] == [5, 1]
    assert float(str(result["seals_ms"])) > 0
    assert {"over_seals", "device_ms", "sealing_ms", "once_ms", "peak_mb"} <= result.keys()


def test_what_a_host_works_on_is_named_by_files_that_are_there(repository: Path) -> None:
    named = [*_device_host._WORK, _device_host._WATCHED]
    assert [file for file in named if not (repository / "src/secvm" / file).is_file()] == []
