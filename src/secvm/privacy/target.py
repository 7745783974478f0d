"""PrivacyTarget: the (ε, δ) that somebody asks for, over all rounds of an experiment.

Planner, estimator, specification, form and documents ask by this one object. ε always means zero-out: what a device
sends against nothing sent. What it comes to for a flipped label is computed from the plan, and stated beside it
(``guarantee``).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from secvm.learning.cover_law import MAX_PARTS, MIN_PARTS
from secvm.learning.declared import Declared, number, whole

#: ε beyond this is no guarantee that anybody would state, and no document carries it (docs/protocol.md §26).
MOST_EPSILON = 32


@dataclass(frozen=True, slots=True)
class PrivacyTarget(Declared):
    """(ε, δ) as rationals, and what its cover may cost: the float 0.1 is 1/10.

    >>> print(PrivacyTarget(2))
    ε = 2, δ = 1e-06
    """

    epsilon: Fraction = number(
        1, "Over all rounds. Smaller hides more; from 8 on nobody is protected.", above=0, at_most=MOST_EPSILON
    )
    delta: Fraction = number("1e-6", "The chance left aside: far below one in all participants.", above=0, below=1)
    # Of 8 there would be a tenth fewer packages and a fifth more noise, below 4 far more.
    parts: int = whole(
        9, "S: into so many parts each relay's cover is cut; one is opened after each round.",
        at_least=MIN_PARTS, at_most=MAX_PARTS,
    )  # fmt: skip
    # Half an hour of one core to seal.
    most_packages: int = whole(1 << 24, "D of one relay in one round is refused above this.", at_least=1)

    @property
    def published(self) -> PrivacyTarget:
        """(ε, δ) alone, as a document tells them: the parts stand with the cover, and the limit is the planner's."""
        return PrivacyTarget(self.epsilon, self.delta)

    def __str__(self) -> str:
        return f"ε = {float(self.epsilon):g}, δ = {float(self.delta):g}"


#: What is meant where nobody says anything.
USUAL = PrivacyTarget()
