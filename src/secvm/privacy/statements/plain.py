"""PrivacyStatement: what taking part in an experiment without cover tells about a person, before anybody joins.

Everything follows from public values. Such an experiment adds no noise, so that there is no guarantee, and the
**leak** is what the public tallies alone give away of a label in an honest run (``experiment_leak``). Where two relays
add cover there is another statement (``relayed_statement``). ``statement_text`` puts this one in words.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from secvm.learning.experiment import Experiment
from secvm.privacy.leakage.experiment_leak import PlannedLeak, planned_leak


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a statement is about. Public."""

    experiment: Experiment
    #: T, the abandoned rounds included.
    rounds: int
    hashes: int = 1
    #: Train participants below which a round is abandoned.
    floor: int
    train_share: Fraction = Fraction(1)
    #: How many relays its packages may take.
    relays: int = 1
    #: Whether its rounds stand in a log: else nobody knows that all devices have the same manifest, and the same key.
    logged: bool = True
    #: How many cosignatures are enough, of how many witnesses; None: not told.
    quorum: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyStatement:
    """The numbers. ``statement_text.words`` has the sentences."""

    terms: Terms
    #: What public tallies give away, at the floor; None where no law is known.
    leak: PlannedLeak | None
    #: B, and bytes that leave in a round; None offline, where nothing is sent.
    budget: int | None
    bytes_per_round: int | None

    def content(self) -> dict[str, Any]:
        """As JSON: stable keys."""
        terms, experiment = self.terms, self.terms.experiment
        return {
            "kind": "plain",
            "formal": False,
            "rounds": terms.rounds,
            "bins": experiment.n_bins,
            "features": experiment.features_per_person,
            "labels": len(experiment.labels),
            "floor": terms.floor,
            "leak_without_guarantee": _leak(self.leak),
            "budget": self.budget,
            "bytes_per_round": self.bytes_per_round,
            "tallies_are_public": True,
        }


def state(terms: Terms, *, bytes_per_package: int = 0) -> PrivacyStatement:
    """The statement about an experiment without cover."""
    budget = terms.experiment.budget
    return PrivacyStatement(
        terms=terms,
        # At the floor: from fewer people no honest coordinator takes a step.
        leak=planned_leak(terms.experiment, train_participants=terms.floor, rounds=terms.rounds, hashes=terms.hashes),
        budget=budget,
        bytes_per_round=None if budget is None else budget * bytes_per_package,
    )


def _leak(leak: PlannedLeak | None) -> dict[str, Any] | None:
    if leak is None:
        return None
    return {
        "train_participants": leak.participants,
        "d_squared_round": leak.d_squared_round,
        "auc_round": leak.auc_round,
        "d_squared": leak.d_squared,
        "auc": leak.auc,
        "auc_corrected": leak.auc_corrected,
    }
