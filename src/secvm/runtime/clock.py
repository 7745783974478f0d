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

from secvm.errors import BadInputError

_NUMBER = struct.Struct("<Q")
_BODY = struct.Struct("<qqqd")
_SIZE = _NUMBER.size + _BODY.size + _NUMBER.size
_END = _SIZE - _NUMBER.size
#: No sleep is longer, so that a clock that was set or steered is noticed.
_LONGEST_NAP_S = 30.0
#: Shorter ones cost more than they are worth.
_SHORTEST_NAP_S = 0.001
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


#: Goes on while the machine sleeps, as the time does; elsewhere than on Linux the plain one does so already.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SteadyClock(SystemClock):
    """The machine's time since some instant, which nobody sets: for leases and pauses, never for what is signed."""

    def now(self) -> int:
        return time.clock_gettime_ns(_STEADY) // 1_000_000


class SteeredClock:
    """The time that a file tells. For experiments that are marked as a test, and nothing else."""

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), _SIZE, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            raise BadInputError(f"cannot read the clock {path}") from None

    def now(self) -> int:
        # Before the file is read: a time taken later could belong to a line that was already replaced.
        return _time(time.monotonic_ns(), *self._read())

    async def sleep_until(self, at: int) -> None:
        before = -1
        while (now := self.now()) < at:
            # While time stands still, however short before the goal, nobody shall run in circles.
            rate = self._read()[3] if now != before else 0.0
            nap_s = (at - now) / 1000 / max(rate, 1e-9)
            await asyncio.sleep(min(max(nap_s, _SHORTEST_NAP_S), _SHORT_NAP_S))
            before = now

    def _read(self) -> tuple[int, int, int, float]:
        while True:
            # In the order opposite to the writer's: what lies between two equal numbers is then of one writing.
            (end,) = _NUMBER.unpack_from(self._map, _END)
            base, at, limit, rate = _BODY.unpack_from(self._map, _NUMBER.size)
            (begin,) = _NUMBER.unpack_from(self._map)
            if begin == end:
                return base, at, limit, rate


def _time(monotonic_ns: int, base: int, at: int, limit: int, rate: float) -> int:
    return min(limit, base + int(max(0, monotonic_ns - at) * rate) // 1_000_000)


class ClockSteering:
    """Whoever decides what time it is in such a file. The time stands still or goes on; it never goes back."""

    def __init__(self, path: Path, *, now: int, rate: float = 1.0, limit: int = 2**62) -> None:
        body = _BODY.pack(now, time.monotonic_ns(), max(limit, now), _checked(rate))
        path.write_bytes(_NUMBER.pack(0) + body + _NUMBER.pack(0))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SIZE)
        self._sequence = 0
        self._clock = SteeredClock(path)

    def now(self) -> int:
        """What everybody reads."""
        return self._clock.now()

    @property
    def limit(self) -> int:
        """Where it stops."""
        limit: int = _BODY.unpack_from(self._map, _NUMBER.size)[2]
        return limit

    def steer(self, *, limit: int | None = None, rate: float | None = None) -> None:
        """Let the clock go on from now, at another rate or up to another limit; one that is past means now."""
        _, _, old_limit, old_rate = old = _BODY.unpack_from(self._map, _NUMBER.size)
        new_rate = old_rate if rate is None else _checked(rate)
        self._sequence += 1
        # From here on readers wait, so that nobody reads the old line later than the instant at which the new begins.
        _NUMBER.pack_into(self._map, 0, self._sequence)
        at = time.monotonic_ns()
        now = _time(at, *old)
        _BODY.pack_into(self._map, _NUMBER.size, now, at, max(now, old_limit if limit is None else limit), new_rate)
        _NUMBER.pack_into(self._map, _END, self._sequence)


def _checked(rate: float) -> float:
    if not 0 <= rate < 1e9:
        raise BadInputError("a clock's rate is a number from 0 to a thousand million")
    return rate
