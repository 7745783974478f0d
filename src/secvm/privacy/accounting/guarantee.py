"""Guarantee: what cover is worth to one person, over all rounds and after one, in both comparisons.

**ε is always that of zero-out**: what the device sends, against nothing of its own. Beside it stands ε of a flipped
label, which is larger (about 1.4 times): the same features with another label. It is what a ledger charges
(``charged``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from secvm.privacy.accounting.accountant import Adjacency, Mechanism
from secvm.privacy.accounting.best_attacker import auc_at_most

#: From here on a guarantee is none worth the name: who knows all the others finds the label nearly surely.
NO_PROTECTION = 8.0
#: Where the curve δ(ε) is looked at for an AUC.
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
    #: The largest AUC of anybody who asks for the label, over all rounds: from (ε, δ) under label flip alone …
    auc: float
    #: … and from the whole curve δ(ε), which is less; None: not computed.
    auc_curve: float | None = None

    @property
    def charged(self) -> float:
        """ε that a ledger charges for all rounds: the label's."""
        return max(self.epsilon, self.epsilon_flip)

    @property
    def best_auc(self) -> float:
        """The smallest bound that is known."""
        return self.auc if self.auc_curve is None else min(self.auc, self.auc_curve)

    def content(self) -> dict[str, Any]:
        """As JSON: stable keys. An infinite ε is null."""
        return {
            "delta": self.delta,
            "epsilon": finite(self.epsilon),
            "epsilon_round": finite(self.epsilon_round),
            "epsilon_flip": finite(self.epsilon_flip),
            "epsilon_flip_round": finite(self.epsilon_flip_round),
            "auc_at_most": self.auc,
            "auc_at_most_curve": self.auc_curve,
        }


@lru_cache(maxsize=128)
def guarantee(mechanism: Mechanism, delta: float, *, curve: bool = False) -> Guarantee:
    """What a mechanism is worth at δ. Kept: a device asks before every round. ``curve`` takes seconds more."""
    flip, rounds = Adjacency.LABEL_FLIP, mechanism.contribution.rounds
    epsilon_flip = epsilon_after(mechanism, rounds, delta, flip)
    points = [] if math.isinf(epsilon_flip) else [(epsilon_flip, delta)]
    return Guarantee(
        delta=delta,
        epsilon=epsilon_after(mechanism, rounds, delta),
        epsilon_round=epsilon_after(mechanism, 1, delta),
        epsilon_flip=epsilon_flip,
        epsilon_flip_round=epsilon_after(mechanism, 1, delta, flip),
        auc=auc_at_most(points),
        auc_curve=auc_of_curve(mechanism, also=points) if curve else None,
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


def auc_of_curve(
    mechanism: Mechanism,
    adjacency: Adjacency = Adjacency.LABEL_FLIP,
    *,
    also: list[tuple[float, float]] | None = None,
) -> float:
    """The largest AUC that the curve δ(ε) leaves, over all rounds."""
    curve = [(epsilon, mechanism.delta(epsilon, adjacency=adjacency)) for epsilon in _CURVE]
    return auc_at_most([*curve, *(also or ())])


def finite(number: float) -> float | None:
    """A number as JSON has it: none that is infinite."""
    return number if math.isfinite(number) else None
