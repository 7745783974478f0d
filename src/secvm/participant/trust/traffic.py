"""How many bytes a device sends and fetches in a day, and the limit that a person has set.

A round that has begun is finished: exactly B packages, or the number would say something. So the limit is asked before
a round, not during one.
"""

from __future__ import annotations

from secvm.participant.storage.state import DeviceState

_DAY_MS = 86_400_000


class Traffic:
    """Bytes by day, the machine's UTC days."""

    def __init__(self, state: DeviceState, *, daily_bytes: int) -> None:
        self._state = state
        self._limit = daily_bytes
        #: Not written yet.
        self._fresh: dict[int, int] = {}

    def add(self, count: int, now: int) -> None:
        """So many bytes went or came."""
        day = now // _DAY_MS
        self._fresh[day] = self._fresh.get(day, 0) + count

    def allows(self, count: int, now: int) -> bool:
        """Whether so many more stay within today's limit."""
        day = now // _DAY_MS
        return self._state.traffic(day) + self._fresh.get(day, 0) + count <= self._limit

    @property
    def unwritten(self) -> bool:
        """Whether ``write`` has something to do."""
        return bool(self._fresh)

    def write(self) -> None:
        """Write what was counted, inside a transaction of the state."""
        for day, count in self._fresh.items():
            self._state.put_traffic(day, count)
        self._fresh.clear()
