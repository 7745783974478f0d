"""Who takes part in which round, and who of them goes away before it is over.

A device decides anew every ``BLOCK_MINUTES``, each at its own minute: a throw below the share of its kind at that hour,
times its own habit, and it is there. So whoever is there is mostly still there eleven minutes later, as a person at a
screen is. Only somebody who is there as a round opens takes part in it.

A *straggler* begins a round and goes away within its window, at an instant that is uniform. Its packages have times of
their own, uniform over the window (``protocol.schedule``); those that were due before arrive, the others never do, the
one that tells of taking part among them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm_lab.online.population.dice import ONE, LabDice, threshold
from secvm_lab.online.population.plan import Plan
from secvm_lab.online.population.residents import Opening, Residents

BLOCK_MINUTES = 66
_BLOCK_MS = 60_000 * BLOCK_MINUTES


@dataclass(frozen=True, eq=False, repr=False)
class Present:
    """The devices of one round."""

    #: Who takes part.
    here: NDArray[np.bool_]
    #: In units of 2^-53: the share of the window for which each device is there; 2^53 for those who stay.
    stays: NDArray[np.int64]

    @property
    def finish(self) -> NDArray[np.bool_]:
        """Who takes part to the end."""
        found: NDArray[np.bool_] = self.here & (self.stays == ONE)
        return found

    @property
    def straggle(self) -> NDArray[np.bool_]:
        """Who takes part and goes away."""
        found: NDArray[np.bool_] = self.here & (self.stays < ONE)
        return found


class Attendance:
    """A population's comings and goings, round by round."""

    def __init__(self, plan: Plan, people: Residents) -> None:
        self._plan, self._people = plan, people
        devices = np.arange(len(people), dtype=np.int64)
        self._devices = devices
        #: Where in a block each device begins.
        self._shift = (LabDice(plan.seed, "shift").uniform(devices) * _BLOCK_MS).astype(np.int64)
        self._there = LabDice(plan.seed, "there")
        self._goes, self._when = LabDice(plan.seed, "goes"), LabDice(plan.seed, "when")

    def chances(self, opening: Opening) -> NDArray[np.float64]:
        """The probability with which each device is there, if it belongs to the population at that time."""
        hours = np.array(opening.hours)
        rhythm = self._plan.rhythm
        majority = rhythm.activity(hours)
        by_zone = np.stack([majority, majority * rhythm.minority_factor(hours)])
        return np.asarray(by_zone[self._people.labels, self._people.zones] * self._people.habit)

    def round(self, opening: Opening) -> Present:
        """Who takes part in a round."""
        present = np.flatnonzero(self._people.present(opening.at_ms))
        blocks = (opening.at_ms + self._shift[present]) // _BLOCK_MS
        thrown = self._there.throw(present, blocks)
        there = present[thrown < self.chances(opening)[present] * ONE]
        here = np.zeros(len(self._people), dtype=np.bool_)
        here[there] = True
        stays = np.full(len(self._people), ONE, dtype=np.int64)
        going = there[self._goes.throw(there, opening.number) < threshold(self._plan.stragglers)]
        stays[going] = self._when.throw(going, opening.number)
        return Present(here, stays)
