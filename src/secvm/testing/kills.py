"""Kills: SIGKILL for the processes of a federation at random moments, each started again at once.

    federation.clock.meanwhile = Kills(federation, random.Random(7), every_s=0.3).strike

Whatever the clock waits for, a process may die meanwhile: while devices join, in the window, between deposit and tally,
while the next manifest is signed. A process is killed again only when it has answered since, or nobody would ever get
anywhere; sometimes two die together.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

from secvm.testing.federation import COORDINATOR, RELAY, Federation

#: One in so many strikes takes a second process along.
_PAIRS = 5


class Kills:
    """Who dies when, drawn from the dice."""

    def __init__(
        self,
        federation: Federation,
        dice: random.Random,
        *,
        every_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``every_s``: the mean time between two strikes, by the machine's clock."""
        self._federation = federation
        self._dice = dice
        self._every_s = every_s
        self._monotonic = monotonic
        self._next = monotonic() + self._pause()
        self._coming_up: set[str] = set()
        #: How often each was killed.
        self.done: Counter[str] = Counter()

    def _pause(self) -> float:
        return self._dice.expovariate(1 / self._every_s)

    def strike(self) -> None:
        """Kill somebody if it is time."""
        if self._monotonic() < self._next:
            return
        federation = self._federation
        self._coming_up = {name for name in self._coming_up if not federation.healthy(name)}
        alive = [name for name in (COORDINATOR, RELAY, *federation.host_names) if name not in self._coming_up]
        if alive:
            for name in self._dice.sample(alive, 2 if len(alive) > 1 and self._dice.randrange(_PAIRS) == 0 else 1):
                federation.kill(name)
                federation.restart(name)
                self._coming_up.add(name)
                self.done[name] += 1
        self._next = self._monotonic() + self._pause()
