"""Which epoch a moment belongs to (docs/protocol.md §19.1), all in milliseconds.

A relay's epoch e ends at its deposit: slot e begins at origin + e · period, and is deposited ``deposit_after``
later. What arrives after a deposit belongs to the next epoch: there is no gap, and nothing is ever added to an epoch
that was handed on.
"""

from __future__ import annotations

from dataclasses import dataclass

from secvm.relay.settings import GridPart


@dataclass(frozen=True, slots=True)
class Epochs:
    """The grid of time that numbers epochs: its origin, its period, and when an epoch is deposited."""

    origin: int
    period: int
    deposit_after: int

    @classmethod
    def of(cls, grid: GridPart) -> Epochs:
        """As the settings say."""
        period = max(1, round(grid.period_s * 1000))
        after = period if grid.deposit_after_s is None else min(period, max(1, round(grid.deposit_after_s * 1000)))
        return cls(grid.origin_ms, period, after)

    def at(self, now: int) -> int:
        """The epoch of what arrives now: the one that is deposited next. Before the grid begins it is epoch 0."""
        return max(0, (now - self.origin - self.deposit_after) // self.period + 1)

    def opens_at(self, epoch: int) -> int:
        """When its slot begins, and the windows of its rounds open: what the relay's count calls it by."""
        return self.origin + epoch * self.period

    def slot(self, now: int) -> int:
        """The slot that this moment lies in; before the grid begins it is slot -1."""
        return max(-1, (now - self.origin) // self.period)

    def deposit_at(self, epoch: int) -> int:
        """When it is deposited: the first moment that does not belong to it."""
        return self.opens_at(epoch) + self.deposit_after

    def hopeless_at(self, epoch: int) -> int:
        """When no coordinator takes it any more, by a wide margin: a slot's rounds end within the slot."""
        return self.origin + (epoch + 3) * self.period
