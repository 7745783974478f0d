"""Clocks, as a port: milliseconds since 1970, and a way to wait for one of them.

A party's main program picks ``SystemClock``. ``SteeredClock`` is for demonstrations and tests over several processes:
all read the time from one small file, in which somebody else decides how fast it runs and where it stops.

The file is 48 bytes, little-endian: a sequence number, a time in milliseconds, the machine's monotonic nanoseconds at
which it was that time, the time beyond which the clock does not go, the rate as a double, and the sequence number
again; the two are equal unless somebody is writing just now.
"""

from __future__ import annotations

import asyncio
import mmap
import struct
import time
from pathlib import Path
from typing import Protocol

_LAYOUT = struct.Struct("<QqqqdQ")
#: No sleep is longer, so that a clock that was set or steered is noticed.
_LONGEST_NAP_S = 30.0
#: A steered clock changes its mind at any moment.
_SHORT_NAP_S = 0.02


class Clock(Protocol):
    """What time it is."""

    def now(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        ...

    async def sleep_until(self, at: int) -> None:
        """Return when ``now() >= at``."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep_until(self, at: int) -> None:
        while (left := at - self.now()) > 0:  # noqa: ASYNC110  (nobody tells when it is time: that is what a clock is for)
            await asyncio.sleep(min(left / 1000, _LONGEST_NAP_S))


class SteeredClock:
    """The time that a file tells. For experiments that are marked as a test, and nothing else."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), _LAYOUT.size, access=mmap.ACCESS_READ)

    def now(self) -> int:
        base, at, limit, rate = self._read()
        return min(limit, base + int((time.monotonic_ns() - at) * rate) // 1_000_000)

    async def sleep_until(self, at: int) -> None:
        while (left := at - self.now()) > 0:
            rate = self._read()[3]
            await asyncio.sleep(min(left / 1000 / max(rate, 1e-9), _SHORT_NAP_S))

    def _read(self) -> tuple[int, int, int, float]:
        while True:
            first, base, at, limit, rate, second = _LAYOUT.unpack_from(self._map)
            if first == second:
                return base, at, limit, rate


class ClockSteering:
    """Whoever decides what time it is in such a file."""

    def __init__(self, path: Path, *, now: int, rate: float = 1.0, limit: int = 2**62) -> None:
        path.write_bytes(_LAYOUT.pack(0, now, time.monotonic_ns(), limit, rate, 0))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _LAYOUT.size)
        self._sequence, self._rate, self._limit = 0, rate, limit
        self._clock = SteeredClock(path)

    def now(self) -> int:
        """What everybody reads."""
        return self._clock.now()

    def steer(self, *, limit: int | None = None, rate: float | None = None) -> None:
        """Let the clock go on from now, at another rate or up to another limit."""
        now = self.now()
        self._limit = self._limit if limit is None else limit
        self._rate = self._rate if rate is None else rate
        self._sequence += 1
        # The first number is written before, the last after what they enclose.
        struct.pack_into("<Q", self._map, 0, self._sequence)
        struct.pack_into("<qqqd", self._map, 8, now, time.monotonic_ns(), self._limit, self._rate)
        struct.pack_into("<Q", self._map, 40, self._sequence)
