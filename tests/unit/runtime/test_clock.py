"""Clocks that a file steers: they go on or stand, never back, and never beyond their limit."""

import asyncio
import itertools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from secvm.errors import BadInputError
from secvm.runtime import clock as module
from secvm.runtime.clock import ClockSteering, SteeredClock, SystemClock


@dataclass
class Machine:
    """The machine's own clock, in our hands."""

    ns: int = 10**12

    def monotonic_ns(self) -> int:
        return self.ns

    def time_ns(self) -> int:
        return self.ns


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()
    monkeypatch.setattr(module, "time", found)
    return found


OPS = st.lists(
    st.tuples(
        st.integers(0, 10**10),
        st.none() | st.integers(0, 10**6),
        st.none() | st.floats(0, 1000) | st.just(0.0),
    ),
    max_size=20,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(0, 10**5), ops=OPS)
def test_steered_time_is_monotone_and_keeps_its_limit(
    tmp_path: Path, machine: Machine, start: int, ops: list[tuple[int, int | None, float | None]]
) -> None:
    steering = ClockSteering(tmp_path / "clock", now=start)
    reader = SteeredClock(tmp_path / "clock")
    last, limit = start, 2**62
    for pause_ns, new_limit, rate in ops:
        machine.ns += pause_ns
        before = reader.now()
        assert last <= before <= max(limit, last)
        steering.steer(limit=new_limit, rate=rate)
        assert reader.now() == steering.now() == before
        last, limit = before, limit if new_limit is None else max(new_limit, before)


def test_steered_time_runs_at_its_rate_up_to_its_limit(tmp_path: Path, machine: Machine) -> None:
    steering = ClockSteering(tmp_path / "clock", now=1000, rate=100, limit=5000)
    reader = SteeredClock(tmp_path / "clock")
    machine.ns += 10_000_000
    assert reader.now() == 2000
    machine.ns += 10**9
    assert reader.now() == 5000
    steering.steer(limit=6000, rate=1)
    machine.ns += 500_000_000
    assert reader.now() == 5500
    steering.steer(rate=0)
    machine.ns += 10**9
    assert reader.now() == 5500


class Looking:
    """A layout that lets a writer make some strokes before each look; in the end it has made them all."""

    def __init__(self, layout: struct.Struct, stroke: Callable[[], None], paces: Iterator[int]) -> None:
        self.layout, self.size = layout, layout.size
        self.stroke, self.paces = stroke, paces

    def unpack_from(self, data: bytes, offset: int = 0) -> tuple[int, ...]:
        for _ in range(next(self.paces, 1)):
            self.stroke()
        return self.layout.unpack_from(data, offset)


@pytest.mark.parametrize("paces", list(itertools.product(range(5), repeat=3)))
def test_a_write_that_is_not_finished_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paces: tuple[int, ...]
) -> None:
    """Every way a reader's three looks can fall among a writer's strokes gives the old line or the new."""
    path = tmp_path / "clock"
    old, new = (1000, 1, 10, 0.0), (2000, 2, 20, 1.0)
    body = struct.pack("<qqqd", *new)
    strokes = iter([(0, struct.pack("<Q", 1)), (8, body[:16]), (24, body[16:]), (40, struct.pack("<Q", 1))])
    path.write_bytes(struct.pack("<QqqqdQ", 0, *old, 0))
    reader = SteeredClock(path)

    def stroke() -> None:
        for at, data in itertools.islice(strokes, 1):
            with path.open("r+b") as file:
                file.seek(at)
                file.write(data)

    left = iter(paces)
    monkeypatch.setattr(module, "_NUMBER", Looking(struct.Struct("<Q"), stroke, left))
    monkeypatch.setattr(module, "_BODY", Looking(struct.Struct("<qqqd"), stroke, left))
    assert reader._read() in {old, new}


async def test_a_steered_sleeper_wakes_when_the_file_says_so(tmp_path: Path) -> None:
    steering = ClockSteering(tmp_path / "clock", now=0, rate=0)
    reader = SteeredClock(tmp_path / "clock")
    task = asyncio.create_task(reader.sleep_until(1000))
    await asyncio.sleep(0)
    assert not task.done()
    steering.steer(rate=1e8)
    await task
    assert reader.now() >= 1000


def test_what_is_no_clock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"x")
    for name in ("short", "none"):
        with pytest.raises(BadInputError, match="cannot read the clock"):
            SteeredClock(tmp_path / name)
    for rate in (-1.0, float("nan"), float("inf")):
        with pytest.raises(BadInputError):
            ClockSteering(tmp_path / "clock", now=0, rate=rate)


def test_the_system_clock_does_not_wait_for_what_is_past(machine: Machine) -> None:
    clock = SystemClock()
    assert clock.now() == machine.ns // 10**6
    asyncio.run(clock.sleep_until(clock.now()))
