"""A round of a deployment in four parts, each of which waits for what it is about, and for its faults.

Devices join; the window is open; what was sent is closed and handed on; the count, the step and the next manifest. A
plain round and one of two relays (``secvm.testing.played_rounds``) have the same parts.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from secvm.testing.patient_clock import JOINING_QUIET_S
from secvm.testing.played_rounds import RelayedPlay

if TYPE_CHECKING:
    from secvm_lab.chaos.deployment import Deployment


class Part(StrEnum):
    """A part of a round."""

    JOINING = "joining"
    WINDOW = "window"
    CLOSING = "closing"
    COUNTING = "counting"


class Parts:
    """The parts of one round of a deployment."""

    def __init__(
        self, deployment: Deployment, number: int, *, attending: int, budget: int, spent: Callable[[], bool]
    ) -> None:
        """No part but the last ends before ``spent()``."""
        self._deployment, self._number, self._budget = deployment, number, budget
        # What fails in the last seconds shall find a moment for its next attempt, also on a busy machine.
        self._play = deployment.round_parts(
            number, attending=attending, budget=budget, spent=spent, quiet_s=JOINING_QUIET_S
        )
        self.opens_at, self.closes_at = self._play.opens_at, self._play.closes_at

    def play(self, part: Part) -> None:
        """Play one of them."""
        forgotten = self._deployment.forgotten
        match part:
            case Part.JOINING:
                self._play.join()
            case Part.WINDOW:
                self._play.send()
            case Part.CLOSING:
                self._play.close(unless=lambda: self._number in forgotten)
            case Part.COUNTING:
                self._play.open(unopened=self._number in forgotten)

    def acknowledged(self) -> int:
        """Packages whose acknowledgement or receipt went by."""
        if isinstance(self._play, RelayedPlay):
            return self._deployment.acknowledged.of(self._play.manifest.label) * self._budget
        return self._deployment.acknowledged.of(bytes([(self._number - 1) % 256]))
