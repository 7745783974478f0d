"""The grid of epochs: when windows may open (docs/protocol.md §19.1).

All experiments of a coordinator share one grid. Slot e covers [origin + e · period, origin + (e + 1) · period); windows
open only at the beginning of a slot, so that rounds of all experiments lie side by side and share one gateway key. The
next opening of an experiment is the beginning of the first slot

 1. that leaves devices time to fetch the manifest (half of the lead at least, where the coordinator itself was late),
 2. that is not before the end of the round before, nor before the experiment's first opening,
 3. that lies in the experiment's hours of the day, as clocks on the wall of its time zone show them.
"""

from __future__ import annotations

import zoneinfo
from dataclasses import dataclass
from datetime import datetime

from secvm.errors import BadExperimentError
from secvm.protocol.documents.experiment import Windows

#: No calendar repeats itself later than this; an experiment that finds no opening in it never will.
_HORIZON_MS = 400 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The slots of one coordinator, in which windows open."""

    period_s: int
    #: The time in which devices fetch the next manifest.
    lead_s: int
    #: An instant at which a slot begins.
    origin_ms: int = 0

    def slot_of(self, instant: int) -> int:
        """The slot that an instant lies in."""
        return (instant - self.origin_ms) // (1000 * self.period_s)

    def start(self, slot: int) -> int:
        """The first instant of a slot."""
        return self.origin_ms + slot * 1000 * self.period_s

    def end(self, slot: int) -> int:
        """The first instant that is no longer in the slot."""
        return self.start(slot + 1)

    def slot_from(self, instant: int) -> int:
        """The first slot that begins at this instant or later; slots before the origin have no number."""
        return max(0, -((self.origin_ms - instant) // (1000 * self.period_s)))

    def check(self, windows: Windows) -> None:
        """Refuse windows that do not fit."""
        needed = windows.length_s + windows.grace_s + self.lead_s
        if needed > self.period_s:
            raise BadExperimentError(
                f"window, grace and lead take {needed} s, and a slot of this coordinator has {self.period_s} s"
            )
        self.next_opening(windows, now=self.origin_ms, after=0)

    def next_opening(self, windows: Windows, *, now: int, after: int) -> int:
        """When the next window opens, if it is now, and the round before is over at ``after``."""
        zone = time_zone(windows.time_zone)
        earliest = max(now + 500 * self.lead_s, after, windows.first_opening)
        end = earliest + _HORIZON_MS
        while earliest < end:
            opens_at = self.start(self.slot_from(earliest))
            offset_s = offset_at(zone, opens_at)
            if windows.open_at_hour(opens_at, offset_s=offset_s):
                return opens_at
            # On to the next full hour there: within one nothing changes.
            local_ms = opens_at + 1000 * offset_s
            earliest = opens_at + 3_600_000 - local_ms % 3_600_000
        raise BadExperimentError("no slot of this coordinator begins in the experiment's hours of the day")


def time_zone(name: str) -> zoneinfo.ZoneInfo:
    """The time zone of this name; raises ``BadExperimentError`` where it is unknown."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise BadExperimentError(
            "the time zone is none that is known here; it needs a name such as Europe/Berlin"
        ) from None


def offset_at(zone: zoneinfo.ZoneInfo, instant: int) -> int:
    """How many seconds ahead of UTC clocks of the zone are at this instant."""
    offset = datetime.fromtimestamp(instant // 1000, zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())
