"""Malicious devices in a population: some share of all, acting together, as in the lab's poisoning (A16).

They take part when they are there, as everybody does, and send what their plot says within the relay's quota of B
packages for each. What they know is what everybody sees, and what their own people are like.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.aggregate.tally import Tally
from secvm.learning.rows import BinnedRows
from secvm.learning.weights import Weights
from secvm_lab.attacks.poisoning.a16_poisoning import PLOTS, SPREADS, Malice, guess
from secvm_lab.attacks.poisoning.poisoned import poisoned
from secvm_lab.attacks.views import ParticipantView, PublicView
from secvm_lab.online.population.attendance import Present
from secvm_lab.online.population.crowd import Crowd
from secvm_lab.online.population.dice import LabDice, threshold

#: Rounds of which they remember everything: the first, which tells the bins that say most, and the last few.
_REMEMBERED = 4


def check(plot: str, share: float) -> None:
    """Refuse a plot that there is none of, and a share that is none."""
    if plot not in PLOTS:
        known = "; ".join(f"'{name}'" for name in PLOTS)  # some have a comma in their names
        raise BadInputError(f"--attack must be one of {known}; not '{plot}'")
    if not 0 < share < 1:
        raise BadInputError("--attackers is a share: above 0 and below 1")


class Malicious:
    """The malicious devices of a population."""

    def __init__(self, people: Crowd, *, plot: str, share: float, quota: int) -> None:
        check(plot, share)
        devices = np.arange(len(people), dtype=np.int64)
        self.who: NDArray[np.bool_] = LabDice(people.plan.seed, "malicious").throw(devices) < threshold(share)
        self._plot, self._quota = plot, quota
        #: What their own people would send, and the tallies that they remember.
        self.own = _own(people, self.who)
        self.seen: list[NDArray[np.int64]] = []
        self._weights: list[NDArray[np.float64]] = []
        self._participants: list[int] = []

    def without(self, present: Present) -> Present:
        """The honest devices of a round."""
        return Present(present.here & ~self.who, present.stays)

    def poison(self, tally: Tally, present: Present, training: Weights) -> Tally:
        """The tally, with what malicious devices that are there send on top."""
        devices = int((present.here & self.who).sum())
        self._weights.append(training.values())
        public = PublicView(tuple(self.seen), tuple(self._weights), tuple(self._participants))
        view = ParticipantView(public, self._quota)
        knowing = Malice(self._plot, devices, self.own, SPREADS.get(self._plot, 0))
        return poisoned(tally, guess(view, knowing), devices, self._quota)

    def see(self, tally: Tally) -> None:
        """Read what is published of a round."""
        self.seen.append(np.stack([tally.minus, tally.plus], axis=-1))
        self._participants.append(int(tally.participants.sum()))
        kept: list[Any]
        for kept in (self.seen, self._weights, self._participants):
            del kept[1 : max(1, len(kept) - _REMEMBERED)]


def _own(people: Crowd, who: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(bins + 1) x 2: what malicious devices' own people would send without thinning, by their true label."""
    found = np.zeros((people.plan.bins + 1, 2), dtype=np.int64)
    for numbers, rows in ((people.trainers, people.train_rows), (people.testers, people.test_rows)):
        places = np.flatnonzero(who[numbers])
        labels = people.people.labels[numbers[places]]
        some: BinnedRows = rows.take(places)
        np.add.at(found, (some.bins, np.repeat(labels, np.diff(some.indptr))), some.values)
        np.add.at(found[-1], labels, 1)
    return found
