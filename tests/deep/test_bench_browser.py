"""The benchmark of the browser's device, small: both devices are measured, and take the rounds that they should."""

from __future__ import annotations

import argparse

from benchmarks import browser


def test_both_devices_are_measured() -> None:
    parser = argparse.ArgumentParser()
    browser.add_arguments(parser)
    result = browser.run(parser.parse_args(["--bins", "20", "--features", "5", "--rounds", "3"]))
    for kind in ("python", "browser"):
        told = result[kind]
        assert isinstance(told, dict)
        assert min(told[name] for name in ("checked_ms", "sealed_ms", "bare_mb")) > 0
        assert told["idle_mb"] > told["bare_mb"]
    assert "CPU of a round that is checked" in browser.as_text(result)
