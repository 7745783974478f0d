"""What cover would cost a network: the accountant's own numbers, for a table of costs, not a guarantee.

The accountant counts cells. A network of h hidden units has h times as many, and one person can name h times as many
of them in a round: two relays' cover for the same (ε, δ) grows by both. Asked here as if each parameter that a
person can name were sent for certain. docs/proofs/thinned-cover.md is about the linear model; nothing of it was proved
again for networks, whose entries are sent with chances that differ within a person. The label game
(``label_leakage``) has no network either: a package's sign is not the label's there, and what it tells has not
been computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from secvm.learning.cover_law import MAX_PACKAGES
from secvm.learning.thinning import Thinning
from secvm.privacy.planning.relay_plan import RelayQuestion, plan_relays
from secvm.privacy.target import PrivacyTarget
from secvm_lab.beyond.network import Shape

#: What is asked for: 100,000 people of 30 words, 20 rounds.
PEOPLE, WORDS, ROUNDS = 100_000, 30, 20
TARGET = PrivacyTarget(Fraction(1))


@dataclass(frozen=True, slots=True)
class CoverCost:
    """Cover of one model for a wished (ε, δ) under zero-out."""

    #: What a package can name: parameters and signs.
    cells: int
    #: The most that one person names in a round.
    named: int
    #: Cover packages that each relay adds to a round.
    packages: int

    def told(self) -> dict[str, object]:
        return {"cells": self.cells, "named": self.named, "cover_packages": self.packages}


def cover_costs(n_bins: int, hidden: int) -> tuple[CoverCost, CoverCost]:
    """The linear model's cost, and that of a network with two labels over the same bins."""
    shape = Shape(n_bins, hidden)
    return _cost(n_bins, WORDS), _cost(shape.n_parameters - 1, shape.touched(WORDS) - 1)


def _cost(bins: int, features: int) -> CoverCost:
    question = RelayQuestion(
        target=TARGET, people=PEOPLE, bins=bins, features=features, rounds=ROUNDS, thinning=Thinning()
    )
    made = plan_relays(question, most_packages=MAX_PACKAGES)
    return CoverCost(question.train_cells, question.contribution.cells, made.cover.packages)


def told(n_bins: int, hidden: int) -> dict[str, object]:
    """Both costs as stable keys."""
    linear, network = cover_costs(n_bins, hidden)
    return {
        "asked": {
            "people": PEOPLE,
            "words": WORDS,
            "rounds": ROUNDS,
            "epsilon": float(TARGET.epsilon),
            "delta": float(TARGET.delta),
            "bins": n_bins,
            "hidden": hidden,
        },
        "linear": linear.told(),
        "network": network.told(),
        "times": round(network.packages / linear.packages, 1),
        "proved_for_networks": False,
    }
