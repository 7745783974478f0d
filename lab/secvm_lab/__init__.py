"""The laboratory: attacks, baselines, the paper's evaluations, simulators, and what disturbs or fuzzes a federation.

It depends on ``secvm``, never the other way; its commands are hung into ``secvm`` by entry points (``secvm_lab.cli``).
From Python: ``secvm_lab.simulate`` (docs/how-to/federation-in-python.md).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from secvm_lab.simulated import simulate

__all__ = ["simulate"]


def __getattr__(name: str) -> Any:
    # Late: commands of the laboratory do without.
    if name != "simulate":
        raise AttributeError(name)
    from secvm_lab.simulated import simulate  # noqa: PLC0415

    return simulate
