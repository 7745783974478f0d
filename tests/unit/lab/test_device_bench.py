"""The bench of a device's cost tells what each device costs from what its host costs once."""

from __future__ import annotations

import pytest

from benchmarks._device_host import work_of
from benchmarks.device import Sample, compare


def host(devices: int) -> list[Sample]:
    """Two rounds, of 100 ms a host and 10 ms a device each, and something before and after."""
    each = [(5.0, 0.006, "checking", 0.001), (6.0, 0.003, "sealing", 0.0), (7.0, 0.5, "watched", 0.0)]
    return [(1.0, 9.0, "checking", 9.0), (5.0, 0.2, "other", 0.0), *(2 * devices * each), (9.0, 9.0, "other", 0.0)]


def test_what_grows_with_devices_is_each_devices_and_the_rest_is_once() -> None:
    found = compare([host(50), host(10)], [50, 10], 4.0, 8.0, rounds=2)
    assert found["device_ms"] == pytest.approx(10)
    assert found["once_ms"] == pytest.approx(100)
    assert found["checking_ms"] == pytest.approx(6)
    assert found["sealing_ms"] == pytest.approx(3)
    assert found["threads_ms"] == pytest.approx(1)
    assert found["other_ms"] == pytest.approx(0)
    assert found["watched_ms"] == pytest.approx(500)


@pytest.mark.parametrize(
    ("files", "work"),
    [
        (
            ["crypto/sealing/layers.py", "protocol/relays/sending/submission.py", "participant/relayed/membership.py"],
            "sealing",
        ),
        (
            ["crypto/sealing/oblivious.py", "participant/sending/transport.py", "participant/relayed/rounds.py"],
            "fetching",
        ),
        (["participant/storage/relayed_book.py", "participant/relayed/canaries.py"], "storing"),
        (["participant/storage/relayed_book.py", "participant/host.py", "participant/status_page.py"], "watched"),
        (["participant/host.py"], "other"),
    ],
)
def test_work_is_named_by_the_innermost_file_that_says_what_it_is(files: list[str], work: str) -> None:
    assert work_of([f"/somewhere/secvm/{file}" for file in files]) == work


def test_a_socket_that_is_read_belongs_to_fetching() -> None:
    assert work_of(["/lib/asyncio/selector_events.py", "/lib/asyncio/events.py"]) == "fetching"
