"""Kills: SIGKILL for the processes of a federation at random moments, each started again at once.

    federation.clock.meanwhile = Kills(federation, random.Random(7), pause_s=0.3).strike

Whatever the clock waits for, a process may die meanwhile: while devices join, in the window, between deposit and tally,
while the next manifest is signed. Sometimes two die together, sometimes all. When all are up again, they are left in
peace for a random moment, 0.3 seconds in the mean: without any, nobody would ever get anywhere.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

from secvm.testing.federation import COORDINATOR, RELAY, Federation


class Kills:
    """Who dies when, drawn from the dice."""

    def __init__(
        self,
        federation: Federation,
        dice: random.Random,
        *,
        pause_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._federation = federation
        self._dice = dice
        self._pause_s = pause_s
        self._monotonic = monotonic
        #: When to strike; None: some are still coming up.
        self._at: float | None = None
        #: How often each was killed.
        self.done: Counter[str] = Counter()

    def strike(self) -> None:
        """Kill somebody if it is time."""
        federation, now = self._federation, self._monotonic()
        everybody = [COORDINATOR, RELAY, *federation.host_names]
        if self._at is None:
            if all(federation.healthy(name) for name in everybody):
                self._at = now + self._dice.expovariate(1 / self._pause_s)
        elif now >= self._at:
            how_many = self._dice.choice([1, 1, 1, 2, 2, len(everybody)])
            for name in self._dice.sample(everybody, how_many):
                federation.kill(name)
                federation.restart(name)
                self.done[name] += 1
            self._at = None
