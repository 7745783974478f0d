"""Kills: SIGKILL for the processes of a federation at random moments, each started again at once.

    federation.clock.meanwhile = Kills(federation, random.Random(7), pause_s=0.3).strike

Whatever the clock waits for, a process may die meanwhile: while devices join, in the window, between deposit and tally,
while the next manifest is signed. Sometimes two die together, sometimes all, sometimes one that is just coming up;
whoever was spared so far comes first. Then they are left in peace for a random moment, 0.3 seconds in the mean, or on a
busy machine a quarter of what they took to come up: without any, nobody would ever get anywhere. The federation's time
stands still while somebody is away, so that nobody is late because of it; unless ``holds_time()`` says no, and the
window closes on whoever is not there.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

from secvm.testing.federation import Federation

#: Of the time that everybody took to come up.
_PEACE = 0.25


class Kills:
    """Who dies when, drawn from the dice."""

    def __init__(
        self,
        federation: Federation,
        dice: random.Random,
        *,
        pause_s: float,
        holds_time: Callable[[], bool] = lambda: True,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._federation = federation
        self._dice = dice
        self._pause_s = pause_s
        self._holds_time = holds_time
        self._monotonic = monotonic
        self._sleep = sleep
        self._next = monotonic() + dice.expovariate(1 / pause_s)
        #: How often each was killed.
        self.done: Counter[str] = Counter()

    def strike(self) -> None:
        """Kill somebody if it is time. Time stands still until all are up again, and some die once more meanwhile."""
        if self._monotonic() < self._next:
            return
        federation = self._federation
        go_on = federation.clock.freeze() if self._holds_time() else lambda: None
        everybody = federation.names
        again = True
        while again:
            many = self._dice.choice([1, 1, 1, 2, 2, len(everybody)])
            self._dice.shuffle(everybody)
            for name in sorted(everybody, key=lambda name: self.done[name] > 0)[:many]:
                federation.kill(name)
                federation.restart(name)
                self.done[name] += 1
            again = self._dice.randrange(4) == 0
            # While they come up, or when they are.
            self._sleep(self._dice.random() if again else 0)
        begun = self._monotonic()
        while not all(federation.healthy(name) for name in everybody):
            self._sleep(0.02)
        go_on()
        now = self._monotonic()
        self._next = now + self._dice.expovariate(1 / max(self._pause_s, _PEACE * (now - begun)))
