"""Thinning: a device sends each unit of its update only with some probability; the coordinator divides by it.

=========== ================================== ============== =====================================================
thinning    unit sent with probability         divided by     estimates
=========== ================================== ============== =====================================================
none        1                                  1              y x
q           q                                  q              y x, unbiased
ρ           min(1, ρ / ‖x‖), Euclidean norm    ρ              y x / ‖x‖, unbiased while ρ ≤ ‖x‖; others are *clipped*
=========== ================================== ============== =====================================================

A probability is an integer of 53 bits, rounded down; a unit is sent when the 53-bit dice word drawn for it is below.
The norm includes the bias unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadExperimentError, BadInputError
from secvm.learning.arithmetic import exact
from secvm.learning.declared import Declared, number

KEEP_BITS = 53
ALWAYS = 1 << KEEP_BITS


@dataclass(frozen=True, slots=True)
class Thinning(Declared):
    """How much of an update is sent: everything, a constant share ``q``, or ``rho`` over the norm."""

    q: Fraction | None = number(None, "Share of an update's units that is sent.", above=0, at_most=1)
    rho: Fraction | None = number(
        None, "Units of an update that are sent, over its norm: about ρ·√F of F features.", above=0, at_most=2**20
    )

    def __post_init__(self) -> None:
        Declared.__post_init__(self)
        if self.q is not None and self.rho is not None:
            raise BadExperimentError("thinning is by q or by rho, not both")

    @property
    def active(self) -> bool:
        """Whether anything is thinned at all."""
        return self.q is not None or self.rho is not None

    @property
    def divisor(self) -> Fraction:
        """What the coordinator divides counts by."""
        return self.q or self.rho or Fraction(1)

    def keep53(self, squared_norms: Iterable[int]) -> NDArray[np.int64]:
        """For each person the 53-bit probability with which a unit is sent."""
        norms = list(squared_norms)
        if self.rho is None:
            keep = ALWAYS if self.q is None else (self.q.numerator << KEEP_BITS) // self.q.denominator
            return np.full(len(norms), keep, dtype=np.int64)
        # floor(ρ 2^53 / sqrt(n)) = isqrt(floor(ρ² 2^106 / n))
        squared = self.rho.numerator**2 << (2 * KEEP_BITS)
        below = self.rho.denominator**2
        return np.array([min(ALWAYS, isqrt(squared // (below * n))) for n in norms], dtype=np.int64)

    def __str__(self) -> str:
        if self.q is not None:
            return f"q={self.q}"
        return "none" if self.rho is None else str(self.rho)


def parse_thinning(text: str | float | None, usual: Thinning) -> Thinning:
    """Thinning as people write it: ρ as a number or its text, "q=Q", "none" or None, or "auto" for the rule's usual."""
    if text is None or text == "none":
        return Thinning()
    if text == "auto":
        return usual
    try:
        if isinstance(text, str) and text.startswith("q="):
            return Thinning(q=exact(text[2:]))
        return Thinning(rho=exact(text))
    except BadExperimentError:
        raise
    except BadInputError:
        raise BadInputError("thinning must be a number, q=Q, auto or none") from None
