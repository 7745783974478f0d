"""Guarantee: what cover is worth to one person, over all rounds and after one, in both comparisons.

**ε is always that of zero-out**: what the device sends, against nothing of its own. Beside it stands ε of a flipped
label, which is larger (about 1.4 times): the same features with another label. It is what a ledger charges
(``charged``).

**The best attacker.** What (ε, δ), or a whole curve δ(ε), leaves anybody to find out is an AUC. Somebody has to tell
two worlds apart, and may say "the second" with probability x in the first (false alarms) and y in the second (hits). If
both P(S) ≤ e^ε Q(S) + δ and Q(S) ≤ e^ε P(S) + δ hold for every event S, then

    y ≤ δ + e^ε x       and       y ≤ 1 - e^-ε (1 - δ - x)        (the same, for the other event and direction)

at every point (ε, δ) at once. The area below the lowest of these lines is the largest AUC that any attacker has,
whatever it knows besides and however it computes. One point gives e^ε / (1 + e^ε) at δ = 0; a curve gives far less,
because no mechanism of noise is as bad as its (ε, δ) at every ε.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

from secvm.privacy.accounting.accountant import Adjacency, Mechanism
from secvm.privacy.accounting.reals import exp

#: Nothing is certain before an ε of this size, to a float.
_CERTAIN = 700.0


def auc_at_most(points: Iterable[tuple[float, float]]) -> float:
    """The largest AUC under all of these (ε, δ), each of which holds in both directions. No point: 1."""
    lines = [(1.0, 0.0)]
    for epsilon, delta in points:
        if epsilon < 0 or not 0 <= delta <= 1:
            raise ValueError("a guarantee has an ε that is not negative, and a δ from 0 to 1")
        if epsilon < _CERTAIN:
            lines += [(delta, exp(epsilon)), (1 - exp(-epsilon) * (1 - delta), exp(-epsilon))]
    # Between two points where lines cross, the lowest is one line: trapezoids are exact.
    places = {0.0, 1.0}
    for (low, slope), (other, steep) in combinations(lines, 2):
        if slope != steep and 0 < (x := (other - low) / (slope - steep)) < 1:
            places.add(x)
    ordered = sorted(places)
    heights = [min(low + slope * x for low, slope in lines) for x in ordered]
    area = math.fsum(
        (right - left) * (a + b) / 2
        for left, right, a, b in zip(ordered, ordered[1:], heights, heights[1:], strict=False)
    )
    return min(1.0, max(0.5, area))


#: From here on a guarantee is none worth the name: who knows all the others finds the label nearly surely.
NO_PROTECTION = 8.0
#: What is said of it wherever somebody asks for such an ε.
WEAK = f"From ε = {NO_PROTECTION:g} on a guarantee is a number and no protection."
#: Where the curve δ(ε) is looked at for an AUC; 0 is the total variation.
_CURVE = (0.0, 0.1, 0.2, 0.4, 0.7, 1.1, 1.6, 2.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """(ε, δ) of one mechanism; ∞: none."""

    delta: float
    #: Zero-out: this device sends nothing of its own. Over all rounds, and after one.
    epsilon: float
    epsilon_round: float
    #: Label flip: the same features with the other label.
    epsilon_flip: float
    epsilon_flip_round: float
    #: The largest AUC of anybody who asks for the label, over all rounds, from the whole curve δ(ε) under label flip.
    auc: float

    @property
    def charged(self) -> float:
        """ε that a ledger charges for all rounds: the label's."""
        return max(self.epsilon, self.epsilon_flip)

    def content(self) -> dict[str, Any]:
        """As JSON: stable keys. An infinite ε is null."""
        return {
            "delta": self.delta,
            "epsilon": finite(self.epsilon),
            "epsilon_round": finite(self.epsilon_round),
            "epsilon_flip": finite(self.epsilon_flip),
            "epsilon_flip_round": finite(self.epsilon_flip_round),
            "auc_at_most": self.auc,
        }


@lru_cache(maxsize=128)
def guarantee(mechanism: Mechanism, delta: float) -> Guarantee:
    """What a mechanism is worth at δ. Kept: a device asks before every round."""
    flip, rounds = Adjacency.LABEL_FLIP, mechanism.contribution.rounds
    return Guarantee(
        delta=delta,
        epsilon=epsilon_after(mechanism, rounds, delta),
        epsilon_round=epsilon_after(mechanism, 1, delta),
        epsilon_flip=epsilon_after(mechanism, rounds, delta, flip),
        epsilon_flip_round=epsilon_after(mechanism, 1, delta, flip),
        auc=auc_of_curve(mechanism),
    )


@lru_cache(maxsize=1024)
def epsilon_after(mechanism: Mechanism, rounds: int, delta: float, adjacency: Adjacency = Adjacency.ZERO_OUT) -> float:
    """ε at δ when a device has joined so many of the rounds; 0: none."""
    return 0.0 if rounds == 0 else mechanism.after(rounds).epsilon(delta=delta, adjacency=adjacency)


@lru_cache(maxsize=128)
def delta_at(mechanism: Mechanism, epsilon: float) -> float:
    """δ at an ε that somebody claims, over all rounds. Kept, like ``guarantee``."""
    return mechanism.delta(epsilon)


def charged_after(mechanism: Mechanism, rounds: int, delta: float) -> float:
    """What a ledger charges for so many rounds: ε of a flipped label, never less than that of zero-out."""
    return max(epsilon_after(mechanism, rounds, delta, adjacency) for adjacency in Adjacency)


def auc_of_curve(mechanism: Mechanism) -> float:
    """The largest AUC that the curve δ(ε) of a flipped label leaves, over all rounds. No δ is in it."""
    return auc_at_most(_curve(mechanism))


def variation_of(mechanism: Mechanism) -> float:
    """The total variation of a flipped label, δ(0): by how much any event's chance may differ."""
    return _curve(mechanism)[0][1]


@lru_cache(maxsize=128)
def _curve(mechanism: Mechanism) -> tuple[tuple[float, float], ...]:
    return tuple(zip(_CURVE, mechanism.deltas(_CURVE, adjacency=Adjacency.LABEL_FLIP), strict=True))


def finite(number: float) -> float | None:
    """A number as JSON has it: none that is infinite."""
    return number if math.isfinite(number) else None
