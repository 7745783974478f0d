"""When a device asks for the next manifest: at a phase that says nothing about it.

A device that asks every ten minutes has a pseudonym: its time modulo ten minutes. So every asking has a fresh random
time: after the last known round is over for good, within the experiment's grace; and when there is nothing newer, after
a random while around a bound that doubles up to a quarter of the window. When nobody answers it asks again sooner,
after a random while that grows to the grace. A manifest must be there before the window opens, so whoever runs a
coordinator leaves several graces between a round's end and the next opening.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from secvm.protocol.documents.experiment import Windows
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.schedule import Window, below

#: Where an experiment takes nothing late, askings spread over this.
_SHORTEST_MS = 1000
#: A timer is never exact, and nothing may leave after the window: its last moment is a tenth of a second, or a
#: two-hundredth of a short window.
_LAST_MOMENT_MS, _LAST_PART = 100, 200


def last_moment(window: Window) -> int:
    """When the last moment of a window begins: what is due within it is sent then."""
    return window.closes_at - min(_LAST_MOMENT_MS, (window.closes_at - window.opens_at) // _LAST_PART)


def opens_in_hours(windows: Windows, opens_at: int) -> bool:
    """Whether a window may open at this instant, by the time zone database of this device."""
    if windows.hours == ((0, 24),):
        return True
    try:
        offset = datetime.fromtimestamp(opens_at / 1000, UTC).astimezone(ZoneInfo(windows.time_zone)).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OverflowError, OSError):
        return False
    return offset is not None and windows.open_at_hour(opens_at, offset_s=int(offset.total_seconds()))


class Polling:
    """The times of one device's askings in one experiment."""

    def __init__(self, windows: Windows, words: Iterator[int]) -> None:
        self._spread = 1000 * windows.grace_s or _SHORTEST_MS
        self._longest = max(self._spread, 1000 * windows.length_s // 4)
        self._words = words
        self._missed = 0
        self._failed = 0

    @property
    def unanswered(self) -> int:
        """So many askings in a row that nobody answered."""
        return self._failed

    def first(self, now: int) -> int:
        """After joining, or after coming back."""
        self._missed = self._failed = 0
        return now + below(self._spread, self._words)

    def after(self, manifest: RoundManifest, now: int) -> int:
        """When the round of this manifest is over."""
        return self.first(max(now, manifest.accept_until))

    def again(self, now: int) -> int:
        """There was nothing newer: between half and one and a half of the bound, which doubles."""
        self._failed = 0
        bound = min(self._spread << min(self._missed, 30), self._longest)
        self._missed += 1
        return now + bound // 2 + below(bound, self._words)

    def failed(self, now: int) -> int:
        """Nobody answered: soon, for the next window opens whether the network is there or not; up to the spread."""
        bound = min(max(1, self._spread >> 4) << min(self._failed, 4), self._spread)
        self._failed += 1
        return now + below(bound, self._words)
