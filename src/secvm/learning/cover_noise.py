"""Cover: the noise that all honest devices add together, and one device's share of it. Public, fixed for all.

A *cell* is whatever a package can name: a model, a bin and a sign; a cohort and a label; a label and a prediction.
Honest devices add packages that name no one's data, so that each cell is counted NB(r, p) more often: a negative
binomial, P(k) = C(k+r-1, k) (1-p)^r p^k. It is written here by its *odds* θ = p / (1-p): its mean is r θ, its variance
r θ (1 + θ). Shapes add (odds must be the same), so a device's share is a negative binomial of the *share* of r that
falls to it.

Everything is rational, and so is all that is drawn from it (``individual/cover.py``): r is what follows from the share
and the number of devices, never the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from secvm.errors import BadExperimentError

#: Odds beyond this are no noise that anyone can pay; and the tables of sizes grow with the odds.
MAX_ODDS = 1 << 14
#: A device's mean number of cover packages in a round: what the dice of a round surely suffice for.
MAX_MEAN = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverNoise:
    """One device's share of the cover of one kind of cells, in every round of an experiment."""

    cells: int
    #: What a device adds to the shape r of each cell.
    share: Fraction
    #: p / (1 - p), the same for all devices.
    odds: Fraction
    #: So many cover packages at most, whatever the dice say and whatever the person's data are.
    cap: int

    def __post_init__(self) -> None:
        if self.cells < 1 or self.cap < 0:
            raise BadExperimentError("cover needs a cell, and a cap that is not negative")
        if not (0 < self.share <= MAX_MEAN and 0 < self.odds <= MAX_ODDS):
            raise BadExperimentError("a device's share of the cover and its odds must be positive and within bounds")
        if self.mean_packages > MAX_MEAN:
            raise BadExperimentError(f"a device would send more than {MAX_MEAN} cover packages in a round")

    @property
    def p(self) -> Fraction:
        """The negative binomial's p."""
        return Fraction(self.odds.numerator, self.odds.numerator + self.odds.denominator)

    @property
    def mean_packages(self) -> Fraction:
        """A device's mean number of cover packages in a round, before the cap."""
        return self.cells * self.share * self.odds

    def mean_per_cell(self, devices: Fraction | int) -> Fraction:
        """What cover adds to each cell's count on average: to be taken off where + and - do not cancel."""
        return devices * self.share * self.odds

    def variance_per_cell(self, devices: Fraction | int) -> Fraction:
        """The variance of what cover adds to each cell's count."""
        return self.mean_per_cell(devices) * (1 + self.odds)
