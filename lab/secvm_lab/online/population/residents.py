"""Residents: the devices of a population over days. People leave, as many come, and the number at any time is the same.

A population has N places. A place's device leaves on a day with the probability ``churn``, at an instant of that day
that is uniform, and a new device with a label, words and habits of its own takes the place. Devices are numbered in the
order of days and places; the first N are there at the beginning.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm_lab.online.population.dice import LabDice, threshold
from secvm_lab.online.population.plan import Plan

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
