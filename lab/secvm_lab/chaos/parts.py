"""A round of a deployment in four parts, each of which waits for what it is about, and for its faults.

Devices join; the window is open; what was sent is closed and handed on; the count, the step and the next manifest. A
plain round and one of two relays (``secvm.testing.relayed_play``) have the same parts.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from secvm.testing.federation import RoundCounts
from secvm.testing.patient_clock import JOINING_QUIET_S
from secvm.testing.relayed_play import RelayedPlay

if TYPE_CHECKING:
    from secvm_lab.chaos.deployment import Deployment


class Part(StrEnum):
    """A part of a round."""

    JOINING = "joining"
    WINDOW = "window"
    CLOSING = "closing"
    COUNTING = "counting"


class PlainParts:
    """The parts of a plain round."""

    def __init__(
        self, deployment: Deployment, number: int, *, attending: int, budget: int, spent: Callable[[], bool]
    ) -> None:
        """No part but the last ends before ``spent()``."""
        self._deployment, self._number, self._spent = deployment, number, spent
        self._attending, self._budget = attending, budget
        self._counts = RoundCounts()
        self.opens_at = deployment.opens_at(number)
        self.closes_at = self.opens_at + 1000 * deployment.pace.length_s

    def _look(self) -> RoundCounts:
        self._counts = self._deployment.counts(self._number)
        return self._counts

    def _all_joined(self) -> bool:
        return self._look().joined >= self._attending and self._spent()

    def _all_acknowledged(self) -> bool:
        counts = self._look()
        enough = counts.acknowledged + counts.lost >= counts.joined * self._budget
        return counts.joined >= self._attending and enough and self._spent()

    def play(self, part: Part) -> None:
        """One of them."""
        deployment, pace, clock = self._deployment, self._deployment.pace, self._deployment.clock
        accept_until = self.closes_at + 1000 * pace.grace_s
        match part:
            case Part.JOINING:
                # Askings spread over the grace after the round before; then there is only computing to wait for.
                fetched_by = self.opens_at - 1000 * (pace.lead_s - pace.grace_s)
                clock.creep_to(
                    self.opens_at,
                    until=self._all_joined,
                    what="devices to join",
                    progress=self._look,
                    run_until=fetched_by + 500,
                    quiet_s=JOINING_QUIET_S,
                )
                clock.leap_to(self.opens_at)
            case Part.WINDOW:
                # What fails in the last seconds shall find a moment for its next attempt, also on a busy machine.
                clock.creep_to(
                    self.closes_at,
                    until=self._all_acknowledged,
                    what="acknowledgements",
                    progress=self._look,
                    quiet_s=JOINING_QUIET_S,
                )
            case Part.CLOSING:
                clock.leap_to(self.opens_at + int(1000 * pace.deposit_after_s))
                clock.run_to(
                    accept_until - 1,
                    until=lambda: deployment.deposited(deployment.epoch(self._number)) and self._spent(),
                    what="the relay's deposit",
                )
            case Part.COUNTING:
                clock.run_to(
                    accept_until, until=lambda: deployment.following(self._number) is not None, what="what follows"
                )

    def acknowledged(self) -> int:
        """Packages whose acknowledgement went by."""
        return self._deployment.acknowledged.of(bytes([self._deployment.epoch(self._number) % 256]))


class RelayedParts:
    """The parts of a round of two relays."""

    def __init__(
        self, deployment: Deployment, number: int, *, attending: int, budget: int, spent: Callable[[], bool]
    ) -> None:
        """No part but the last ends before ``spent()``."""
        self._deployment, self._number, self._budget = deployment, number, budget
        self._play = RelayedPlay(deployment, number, attending=attending, spent=spent)
        self.opens_at = self._play.manifest.instants.opens_at
        self.closes_at = self._play.manifest.instants.closes_at

    @property
    def _forgotten(self) -> bool:
        return self._number in self._deployment.forgotten

    def play(self, part: Part) -> None:
        """One of them."""
        match part:
            case Part.JOINING:
                self._play.join()
            case Part.WINDOW:
                self._play.send()
            case Part.CLOSING:
                self._deployment.clock.leap_to(self._play.manifest.instants.accept_until)
                self._play.batch(unless=lambda: self._forgotten)
            case Part.COUNTING if self._forgotten:
                self._play.stay_unopened()
            case Part.COUNTING:
                self._play.open()

    def acknowledged(self) -> int:
        """Packages whose receipt went by."""
        return self._deployment.acknowledged.of(self._play.manifest.label) * self._budget


__all__ = ["Part", "PlainParts", "RelayedParts"]
