"""A clock of a file that stands where it is put."""

from __future__ import annotations

from secvm.runtime.clock import ClockSteering


def jump(steering: ClockSteering, to: int) -> None:
    """Let it be that time, and return when everybody reads it: however fast the clock goes, it takes a moment."""
    steering.steer(limit=to, rate=1e6)
    while steering.now() < to:
        pass
