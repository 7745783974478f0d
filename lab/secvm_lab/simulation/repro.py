"""A test to paste: what was played, and what was wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from secvm_lab.simulation.operations import Op


def as_test(told: Mapping[str, object], ops: Sequence[Op], fault: str) -> str:
    """Python that plays the same again."""
    first = fault.partition("\n")[0]
    name = "_".join(re.findall(r"[a-z]+", first.lower())[:9]) or "what_happened"
    arguments = ", ".join(f"{key}={value!r}" for key, value in told.items())
    lines = "".join(f"        {op!r},\n" for op in ops)
    return (
        "from secvm_lab.simulation import Simulation\n\n\n"
        f"def test_repro_{name}() -> None:\n"
        f"    # {first}\n"
        f"    Simulation({arguments}).play([\n{lines}    ])\n"
    )
