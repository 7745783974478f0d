"""Progress of long work in several stages: a line now and then on stderr, with the time that is left of the stage."""

from __future__ import annotations

import time
from collections.abc import Callable

#: A line at most this often, but for the first of a stage.
EVERY_S = 5.0


class TimeLeft:
    """Says how far a stage is; ``watch`` is what the work calls."""

    def __init__(self, say: Callable[[str], None], now: Callable[[], float] = time.monotonic) -> None:
        self._say, self._now = say, now
        self._stage, self._begun, self._spoken, self._first = "", 0.0, 0.0, 0

    def watch(self, stage: str, done: int, of: int) -> None:
        """So much of a stage is done; without ``of`` nobody knows how much there is."""
        now = self._now()
        if stage != self._stage:
            self._stage, self._begun, self._spoken, self._first = stage, now, now, done
            self._say(stage)
            return
        if now - self._spoken < EVERY_S:
            return
        self._spoken = now
        if not of:
            self._say(f"{stage}: {done}")
            return
        # What was done before the first call took time that nobody saw.
        left = (now - self._begun) * (of - done) / max(1, done - self._first)
        self._say(f"{stage}: {done} of {of}, {left:.0f} s left")
