"""Fakes that are part of the product: other people must be able to test against us too.

``Simulation`` plays lists of operations over a whole federation in one process (``secvm.testing.simulation``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from secvm.testing.simulation import Simulation

__all__ = ["Simulation"]


def __getattr__(name: str) -> object:
    # Late: it needs every party, and most fakes need none.
    if name == "Simulation":
        from secvm.testing.simulation import Simulation  # noqa: PLC0415

        return Simulation
    raise AttributeError(name)
