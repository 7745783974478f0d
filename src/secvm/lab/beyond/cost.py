"""What cover would cost a network: the accountant's own numbers, for a table of costs, not a guarantee.

The accountant counts cells. A network of h hidden units has h times as many, and one person can name h times as many
of them in a round: cover for the same (ε, δ) grows by both. Asked here as if each parameter that a person can name were
sent for certain. docs/proofs/thinned-cover.md is about the linear model; nothing of it was proved again for networks,
whose entries are sent with chances that differ within a person. The label game (``privacy.label_leakage``) has no
network either: a package's sign is not the label's there, and what it tells has not been computed.
"""

from __future__ import annotations

from dataclasses import dataclass

from secvm.lab.beyond.network import Shape
from secvm.privacy.shuffle_dp import CoverPlan, plan

#: What is asked for: 100,000 people of 30 words, 20 rounds.
PEOPLE, WORDS, ROUNDS, EPSILON, DELTA = 100_000, 30, 20, 1.0, 1e-6


@dataclass(frozen=True, slots=True)
class CoverCost:
    """Cover of one model for a wished (ε, δ) under zero-out."""

    #: What a package can name: parameters and signs.
    cells: int
    #: The most that one person names in a round.
    named: int
    #: Cover packages that a device sends in a round, on average.
    mean_packages: float

    def told(self) -> dict[str, object]:
        return {"cells": self.cells, "named": self.named, "cover_packages": round(self.mean_packages, 1)}


def cover_costs(n_bins: int, hidden: int) -> tuple[CoverCost, CoverCost]:
    """The linear model's cost, and that of a network with two labels over the same bins."""
    shape = Shape(n_bins, hidden)
    return _cost(n_bins, WORDS), _cost(shape.n_parameters - 1, shape.touched(WORDS) - 1)


def _cost(bins: int, features: int) -> CoverCost:
    made: CoverPlan = plan(
        epsilon=EPSILON, delta=DELTA, rounds=ROUNDS, features=features, bins=bins, participants=PEOPLE
    )
    return CoverCost(made.noise.cells, made.contribution.cells, float(made.noise.mean_packages))


def told(n_bins: int, hidden: int) -> dict[str, object]:
    """Both costs as stable keys."""
    linear, network = cover_costs(n_bins, hidden)
    return {
        "asked": {
            "people": PEOPLE,
            "words": WORDS,
            "rounds": ROUNDS,
            "epsilon": EPSILON,
            "delta": DELTA,
            "bins": n_bins,
            "hidden": hidden,
        },
        "linear": linear.told(),
        "network": network.told(),
        "times": round(network.mean_packages / linear.mean_packages, 1),
        "proved_for_networks": False,
    }
