"""A small experiment with cover, as a device is asked to join it."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from secvm.learning.experiment import Experiment
from secvm.privacy.shuffle_dp import plan
from secvm.protocol.cover_terms import CoverTerms
from secvm.protocol.experiment_document import ExperimentDocument, Relay
from tests.unit.participant.world import real_document
from tests.unit.protocol.helpers import RELAY

ROUNDS, PARTICIPANTS = 4, 4000


@lru_cache
def cover_plan(epsilon: float) -> Any:
    return plan(
        epsilon=epsilon, delta=1e-6, rounds=ROUNDS, features=5, bins=20, participants=PARTICIPANTS, gamma=0.5, labels=2,
        train_share=Fraction(7, 10),
    )  # fmt: skip


def covered_document(epsilon: float = 1.0, **changes: Any) -> ExperimentDocument:
    """For 4,000 participants of whom half are honest, over four rounds."""
    made = cover_plan(epsilon)
    told: dict[str, Any] = {
        "experiment": Experiment(
            n_bins=20, labels=("a", "b"), features_per_person=5, budget=made.budget, cover=made.cover
        ),
        "privacy": CoverTerms(
            epsilon=Fraction(epsilon), delta=Fraction(1, 10**6), participants=PARTICIPANTS, gamma=Fraction(1, 2)
        ),
        "relays": (Relay(url="https://relay.example/r", key=RELAY.public, mode="round"),),
        "rounds": ROUNDS,
        "floor": 1400,
        "train_share": Fraction(7, 10),
    }
    return real_document(**{**told, **changes})
