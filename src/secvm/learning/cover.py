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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from secvm.errors import ArithmeticRangeError, BadExperimentError
from secvm.learning.aggregate.tally import Tally
from secvm.learning.cover_noise import CoverNoise

#: Train and test.
COHORTS = 2
#: Counts of a tally are below this (docs/protocol.md §13).
MAX_COUNT = 2**53


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
        return self._devices(tally.participants.tolist())

    def people(self, participants: Sequence[int]) -> Fraction:
        """About how many train participants there were, given the counts of the train cohort's participation cells."""
        return self.train_share * self._devices(participants)

    def _devices(self, participants: Sequence[int]) -> Fraction:
        labels = len(participants)
        return sum(participants) / (self.train_share + labels * self.participation.mean_per_cell(1))

    def uncovered(self, tally: Tally) -> Tally:
        """The counts without the cover's mean, in whole numbers. Counts of train cells may be negative: noise is.

        Raises
        ------
        ArithmeticRangeError
            From this tally nothing can be taken off: nobody honest has published it.
        """
        devices = self.devices(tally)
        train = _mean(self.train, devices)
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
    return np.maximum(counts - _mean(noise, devices), 0)


def _mean(noise: CoverNoise, devices: Fraction) -> int:
    """What is taken off a cell. Counts are below 2^53: more than that comes of no honest tally."""
    mean = round(noise.mean_per_cell(devices))
    if mean >= MAX_COUNT:
        raise ArithmeticRangeError("the cover of so many devices is more than a tally can count")
    return mean
