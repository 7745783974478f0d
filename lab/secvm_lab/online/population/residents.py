"""Residents: the devices of a population over days, and the rounds that open for them.

People leave, as many come, and the number at any time is the same. A population has N places. A place's device leaves
on a day with the probability ``churn``, at an instant of that day that is uniform, and a new device with a label, words
and habits of its own takes the place. Devices are numbered in the order of days and places; the first N are there at
the beginning.

The rounds of a plan open by the coordinator's own grid, in the experiment's hours of the day.
"""

from __future__ import annotations

import zoneinfo
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from secvm.coordinator.epochs import Grid, offset_at, time_zone
from secvm.protocol.documents.experiment import Windows
from secvm_lab.online.population.dice import LabDice, threshold
from secvm_lab.online.population.plan import ROUND_MINUTES, Plan, is_night

DAY_MS = 86_400_000
#: A device's own activity: the population's, times something between these.
_LEAST, _MOST = 0.6, 1.4


@dataclass(frozen=True, eq=False, repr=False)
class Residents:
    """Every device that is there at some time, side by side. Times are milliseconds since the beginning."""

    #: Index of the label: 1 for the minority.
    labels: NDArray[np.int64]
    #: The place that a device has, from when, and until when (not included).
    places: NDArray[np.int64]
    came: NDArray[np.int64]
    left: NDArray[np.int64]
    #: Index of the time zone.
    zones: NDArray[np.int64]
    #: How much more than others a device is there.
    habit: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"Residents(<{len(self)} devices>)"

    def present(self, at_ms: int) -> NDArray[np.bool_]:
        """Who belongs to the population at this time, there or not."""
        found: NDArray[np.bool_] = (self.came <= at_ms) & (at_ms < self.left)
        return found


def residents(plan: Plan, days: int, labels: NDArray[np.int64] | None = None) -> Residents:
    """The devices of so many days. ``labels``: of the people of a file, in the order in which they come."""
    places, came, left = _stays(plan, days)
    n = len(places)
    devices = np.arange(n, dtype=np.int64)
    if labels is None:
        minority = LabDice(plan.seed, "label").throw(devices) < threshold(plan.rhythm.day_share)
        labels = minority.astype(np.int64)
    edges = np.cumsum([share for _, share in plan.zones])[:-1]
    zones = np.searchsorted(edges, LabDice(plan.seed, "zone").uniform(devices), side="right")
    habit = _LEAST + (_MOST - _LEAST) * LabDice(plan.seed, "habit").uniform(devices)
    return Residents(labels=labels[:n], places=places, came=came, left=left, zones=zones.astype(np.int64), habit=habit)


def needed(plan: Plan, days: int) -> int:
    """How many devices there are in so many days."""
    return len(_stays(plan, days)[0])


def _stays(plan: Plan, days: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Place, coming and leaving of every device."""
    everybody = np.arange(plan.people, dtype=np.int64)
    leaves, instant = LabDice(plan.seed, "leaves"), LabDice(plan.seed, "instant")
    places, came = [everybody], [np.zeros(plan.people, dtype=np.int64)]
    left = [np.full(plan.people, days * DAY_MS, dtype=np.int64)]
    #: The device that has each place now.
    holder = everybody.copy()
    n = plan.people
    for day in range(days):
        moved = np.flatnonzero(leaves.throw(everybody, day) < threshold(plan.churn)).astype(np.int64)
        when = day * DAY_MS + (instant.uniform(moved, day) * DAY_MS).astype(np.int64)
        gone = np.concatenate(left)
        gone[holder[moved]] = when
        left = [gone, np.full(len(moved), days * DAY_MS, dtype=np.int64)]
        places.append(moved)
        came.append(when)
        holder[moved] = n + np.arange(len(moved))
        n += len(moved)
    return np.concatenate(places), np.concatenate(came), np.concatenate(left)


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
