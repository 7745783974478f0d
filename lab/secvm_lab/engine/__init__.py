"""Many trainings at once over the same people, exact and fast.

engine = Engine(rows, labels, experiments, train=masks, threads=2)
for _ in range(100):
engine.advance()
print(engine.cells())             # confusion of the people each model does not train on
engine.state(3).to_bytes()            # the bytes of OfflineTraining for that model alone

for swept in sweep(rows, labels, experiments, train=masks, rounds=100, threads=2):   # any number of models
print(swept.model, swept.accuracy[-1])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from secvm_lab.engine.lane import LANES

if TYPE_CHECKING:
    from secvm_lab.engine.collapsed import CollapsedRows, collapse
    from secvm_lab.engine.engine import Engine, EngineReport
    from secvm_lab.engine.sweeping import sweep
    from secvm_lab.engine.swept import Swept

__all__ = ["LANES", "CollapsedRows", "Engine", "EngineReport", "Swept", "collapse", "sweep"]


def __getattr__(name: str) -> Any:
    """Imported when asked for: an engine needs numba, and not everybody who chooses a training does."""
    if name in ("Engine", "EngineReport"):
        from secvm_lab.engine import engine

        return getattr(engine, name)
    if name in ("CollapsedRows", "collapse"):
        from secvm_lab.engine import collapsed

        return getattr(collapsed, name)
    if name == "Swept":
        from secvm_lab.engine import swept

        return swept.Swept
    if name == "sweep":
        from secvm_lab.engine import sweeping

        return sweeping.sweep
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
