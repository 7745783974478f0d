"""Cover of an experiment: noise for every kind of cell that a package can name, and what the coordinator takes off.

A device sends in every round, besides its own packages, cover for three kinds of cells:

================= ================================ ==================================
kind              cells                            a person's own packages
================= ================================ ==================================
train             model x (bins + bias) x sign     at most ``real_cap`` units
participation     cohort x label                   one
test              label x label                    one, of the test cohort
================= ================================ ==================================

Own units and each kind of cover are cut apart, so that no cut tells of another; B is the sum of all caps.

The mean of the cover is public. ``uncovered`` takes it off, from the tally alone: everybody who recomputes a round gets
the same numbers. How many devices added cover is estimated from the participation cells: with M devices the train
cohort's L cells hold train_share · M people and L · M · share · odds cover packages on average.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadExperimentError
from secvm.learning.aggregate.tally import Tally
from secvm.learning.cover_noise import CoverNoise

#: Train and test.
COHORTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """What every device of an experiment adds in every round. Public."""

    train: CoverNoise
    participation: CoverNoise
    #: None where nobody is tested.
    test: CoverNoise | None
    #: A person's own units of a round are cut to this many, by dice that do not look at the cover.
    real_cap: int
    #: The share of devices in the train cohort.
    train_share: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if self.real_cap < 1:
            raise BadExperimentError("at least one of a person's own units must fit")
        if not 0 < self.train_share <= 1:
            raise BadExperimentError("the share of devices that train must lie above 0 and at most at 1")

    @property
    def kinds(self) -> tuple[CoverNoise, ...]:
        """All that is drawn."""
        return (self.train, self.participation, *(() if self.test is None else (self.test,)))

    @property
    def budget(self) -> int:
        """B: one participation package, own units or a test package, and all cover, at most."""
        return 1 + self.real_cap + sum(noise.cap for noise in self.kinds)

    @property
    def mean_packages(self) -> Fraction:
        """A device's mean number of cover packages in a round."""
        return sum((noise.mean_packages for noise in self.kinds), Fraction(0))

    def devices(self, tally: Tally) -> Fraction:
        """About how many devices took part, by the participation cells."""
        labels = len(tally.participants)
        return int(tally.participants.sum()) / (self.train_share + labels * self.participation.mean_per_cell(1))

    def uncovered(self, tally: Tally) -> Tally:
        """The counts without the cover's mean, in whole numbers. Counts of train cells may be negative: noise is."""
        devices = self.devices(tally)
        train = round(self.train.mean_per_cell(devices))
        return replace(
            tally,
            plus=tally.plus - train,
            minus=tally.minus - train,
            participants=_without(tally.participants, self.participation, devices),
            cells=tally.cells if self.test is None else _without(tally.cells, self.test, devices),
        )

    def test_variance(self, tally: Tally) -> float:
        """The variance that cover gives to each test cell: part of every interval."""
        return 0.0 if self.test is None else float(self.test.variance_per_cell(self.devices(tally)))


def _without(counts: NDArray[np.int64], noise: CoverNoise, devices: Fraction) -> NDArray[np.int64]:
    """Numbers of people are not negative."""
    return np.maximum(counts - round(noise.mean_per_cell(devices)), 0)
