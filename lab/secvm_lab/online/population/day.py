"""A day of the population: how many are there at which hour, and how many of them belong to the minority.

Hours are those of each device's own time zone. Of the majority the share ``ACTIVITY[h]`` is there at hour h, in between
by straight lines. A member of the minority is there as often by day, and less often at night: by the factor that makes
a share of ``day_share`` among those who are there by day one of ``night_share`` at night. Nothing else depends on the
hour, least of all what a device sends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError

#: How many of the majority are there, by hour, beside the busiest hour. Made up: quiet from one to five, much at work,
#: most in the evening.
ACTIVITY = (
    *(0.30, 0.20, 0.14, 0.12, 0.12, 0.16, 0.28, 0.47, 0.67, 0.78, 0.83, 0.83),
    *(0.83, 0.83, 0.83, 0.83, 0.86, 0.89, 0.92, 0.97, 1.00, 0.94, 0.78, 0.50),
)  # fmt: skip
#: Hours at which the minority is there as seldom as it gets, and at which it is there as often as everybody else;
#: between them the factor goes by a straight line.
QUIET, BUSY = (0, 5), (7, 22)
#: Rounds that open in these hours of the population's main zone are night rounds: from, to.
NIGHT = (23, 6)

Hours = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Who is there at which hour."""

    #: Share of the majority that is there at the busiest hour.
    peak: float = 0.36
    #: The minority's share among those who are there, by day and at night.
    day_share: float = 0.2
    night_share: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.peak <= 1:
            raise BadInputError("the share of people online at the busiest hour must lie above 0 and at most at 1")
        if not 0 < self.night_share <= self.day_share <= 0.5:
            raise BadInputError(
                "the minority's share must lie above 0, at night be no more than by day, and at most .5"
            )

    @property
    def night_factor(self) -> float:
        """How often a member of the minority is there at night, where one of the majority is there once."""
        by_day, by_night = (share / (1 - share) for share in (self.day_share, self.night_share))
        return by_night / by_day

    def activity(self, hours: Hours) -> Hours:
        """Share of the majority that is there at these hours (0 to 24, fractions too)."""
        return np.interp(hours, np.arange(25), self.peak * np.array((*ACTIVITY, ACTIVITY[0])))

    def minority_factor(self, hours: Hours) -> Hours:
        """By how much less often the minority is there."""
        low = self.night_factor
        corners = (QUIET[0], QUIET[1], BUSY[0], BUSY[1], 24)
        return np.interp(hours, corners, (low, low, 1.0, 1.0, low))


def is_night(hour: float) -> bool:
    """Whether a round that opens at this hour of the main zone is a night round."""
    begins, ends = NIGHT
    return hour >= begins or hour < ends
