"""PrivacyTarget: the (ε, δ) that somebody asks for, over all rounds of an experiment.

Planner, estimator and documents ask by this one object. ε always means zero-out: what a device sends against nothing
sent. What it comes to for a flipped label is computed from the plan, and stated beside it (``guarantee``).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from secvm.errors import BadExperimentError
from secvm.learning.arithmetic import exact

#: ε beyond this is no guarantee that anybody would state, and no document carries it (docs/protocol.md §26).
MOST_EPSILON = 32


@dataclass(frozen=True, slots=True)
class PrivacyTarget:
    """(ε, δ) as rationals: the float 0.1 is 1/10."""

    epsilon: Fraction
    delta: Fraction = Fraction(1, 10**6)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        object.__setattr__(self, "delta", exact(self.delta))
        if not 0 < self.epsilon <= MOST_EPSILON:
            raise BadExperimentError(
                f"an ε of {float(self.epsilon):g} was asked for: it lies above 0 and at most at {MOST_EPSILON}; 1 is"
                " usual"
            )
        if not 0 < self.delta < 1:
            raise BadExperimentError(
                f"a δ of {float(self.delta):g} was asked for: it lies between 0 and 1; 1e-6 is usual"
            )

    def __str__(self) -> str:
        return f"ε = {float(self.epsilon):g}, δ = {float(self.delta):g}"
