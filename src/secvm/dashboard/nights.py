"""Where nights lie among an experiment's rounds, for the page to shade. Pure.

An experiment that is open at certain hours of the day says itself what its day is: its nights lie between two rounds.
For one that is always open, rounds that open between 22 and 6 o'clock in a time zone of the operator's choice are of
the night. Stretches are on the axis of rounds: half a round to each side of a round, a narrow line between two.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from itertools import pairwise

from secvm.dashboard.told import ToldRound
from secvm.errors import BadInputError
from secvm.protocol.documents.experiment import Windows

_DUSK, _DAWN = 22, 6
_ALL_DAY = ((0, 24),)
_DAY_MS = 86_400_000
#: Half the width of a night in which there is no round.
_NARROW = 0.1


def time_zone(name: str) -> tzinfo:
    """The zone of this name; UTC is known everywhere."""
    if name == "UTC":
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise BadInputError("the time zone is none that is known here; it needs a name such as Europe/Berlin") from None


def nights(windows: Windows, rounds: Sequence[ToldRound], *, zone: tzinfo) -> list[tuple[float, float]]:
    """Stretches of night among these rounds, which follow each other."""
    if windows.hours != _ALL_DAY:
        return [
            (before.number + 0.5 - _NARROW, before.number + 0.5 + _NARROW)
            for before, after in pairwise(rounds)
            if _night_between(windows, before.opens_at, after.opens_at)
        ]
    found: list[tuple[float, float]] = []
    for one in rounds:
        hour = datetime.fromtimestamp(one.opens_at // 1000, zone).hour
        if _DAWN <= hour < _DUSK:
            continue
        if found and found[-1][1] == one.number - 0.5:
            found[-1] = (found[-1][0], one.number + 0.5)
        else:
            found.append((one.number - 0.5, one.number + 0.5))
    return found


def _night_between(windows: Windows, before: int, after: int) -> bool:
    """Whether an hour in which no window opens lies between two openings."""
    try:
        zone = time_zone(windows.time_zone)
    except BadInputError:
        zone = UTC
    if after - before >= _DAY_MS:
        return True
    open_hours = {hour for start, end in windows.hours for hour in range(start, end)}
    return any(
        datetime.fromtimestamp(instant // 1000, zone).hour not in open_hours
        for instant in range(before, after, 3_600_000)
    )
