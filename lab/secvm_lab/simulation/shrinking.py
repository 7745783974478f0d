"""The shortest list that still goes wrong: operations are left out, as many as can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from secvm_lab.simulation.operations import Op


def shrink(ops: Sequence[Op], fails: Callable[[Sequence[Op]], bool]) -> list[Op]:
    """Leave out what can be left out, large pieces first. ``fails`` plays a list, and says whether it still goes wrong.

    What is left goes wrong, and nothing of it can be left out alone.
    """
    left = list(ops)
    size = max(1, len(left) // 2)
    while size:
        at = 0
        while at < len(left):
            shorter = left[:at] + left[at + size :]
            if fails(shorter):
                left = shorter
            else:
                at += size
        size //= 2
    return left
