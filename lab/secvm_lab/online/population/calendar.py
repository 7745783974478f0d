"""When the rounds of a plan open: by the coordinator's own grid, in the experiment's hours of the day."""

from __future__ import annotations

import zoneinfo
from dataclasses import dataclass
from datetime import datetime

from secvm.coordinator.epochs import Grid, offset_at, time_zone
from secvm.protocol.documents.experiment import Windows
from secvm_lab.online.population.day import is_night
from secvm_lab.online.population.plan import ROUND_MINUTES, Plan
from secvm_lab.online.population.residents import DAY_MS

#: A Monday in winter, without a change of clocks in the weeks after it.
_DATE = (2030, 1, 14)
#: Of the eleven minutes of a round: the window, the grace after it, and the time to fetch the next manifest.
_WINDOW_S, _GRACE_S, _LEAD_S = 600, 20, 40


@dataclass(frozen=True, slots=True)
class Opening:
    """When a round opens."""

    #: Counted from 1.
    number: int
    #: Milliseconds since the population's beginning.
    at_ms: int
    #: Hour of the day in each time zone of the plan, with its fraction.
    hours: tuple[float, ...]

    @property
    def hour(self) -> float:
        """That of the main zone."""
        return self.hours[0]

    @property
    def night(self) -> bool:
        return is_night(self.hour)

    @property
    def day(self) -> int:
        """Full days since the beginning."""
        return self.at_ms // DAY_MS


def openings(plan: Plan) -> list[Opening]:
    """All rounds of the plan's days."""
    zones = [time_zone(name) for name, _ in plan.zones]
    begin = _instant(plan.begin, zones[0])
    grid = Grid(period_s=60 * ROUND_MINUTES, lead_s=_LEAD_S, origin_ms=begin)
    windows = Windows(_WINDOW_S, _GRACE_S, begin, hours=(plan.hours,), time_zone=plan.zones[0][0])
    grid.check(windows)
    found: list[Opening] = []
    opens_at = grid.next_opening(windows, now=begin - 1000 * _LEAD_S, after=begin)
    while opens_at < begin + plan.days * DAY_MS:
        found.append(Opening(len(found) + 1, opens_at - begin, tuple(_hour(opens_at, zone) for zone in zones)))
        over = opens_at + 1000 * (_WINDOW_S + _GRACE_S)
        opens_at = grid.next_opening(windows, now=over, after=over)
    return found


def _instant(hour: int, zone: zoneinfo.ZoneInfo) -> int:
    return int(datetime(*_DATE, hour, tzinfo=zone).timestamp()) * 1000


def _hour(instant: int, zone: zoneinfo.ZoneInfo) -> float:
    seconds = (instant // 1000 + offset_at(zone, instant)) % 86_400
    return seconds / 3600
