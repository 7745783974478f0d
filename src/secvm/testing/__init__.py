"""Fakes for tests against SecVM, and a whole federation of real processes on this machine.

``Federation`` starts every party; the others stand in for one part each: the time, a device's dice, its network, what
an HTTP server answers, and a coordinator's store.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from secvm.coordinator.store.memory import MemoryStore
    from secvm.learning.individual.dice import UnsafeSeededDice
    from secvm.testing.clock import ManualClock
    from secvm.testing.federation import Federation
    from secvm.testing.gateway import FakeGateway
    from secvm.testing.transport import MemoryTransport

__all__ = ["FakeGateway", "Federation", "ManualClock", "MemoryStore", "MemoryTransport", "UnsafeSeededDice"]

_HOMES = {
    "FakeGateway": "secvm.testing.gateway",
    "Federation": "secvm.testing.federation",
    "ManualClock": "secvm.testing.clock",
    "MemoryStore": "secvm.coordinator.store.memory",
    "MemoryTransport": "secvm.testing.transport",
    "UnsafeSeededDice": "secvm.learning.individual.dice",
}


def __getattr__(name: str) -> object:
    # Late: each needs another party.
    if name not in _HOMES:
        raise AttributeError(name)
    try:
        return getattr(importlib.import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"secvm.testing.{name} needs {error.name}, which is not installed: in a clone, pip install . ./lab",
            name=error.name,
        ) from None
