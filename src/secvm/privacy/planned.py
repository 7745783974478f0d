"""Planned: what the planner found out about an experiment that somebody thinks of, as values and as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from secvm.learning.aggregate.descent import Pegasos, Swift
from secvm.learning.experiment import Experiment
from secvm.privacy.accuracy_cost import ExpectedCost
from secvm.privacy.experiment_leak import PlannedLeak, planned_leak
from secvm.privacy.planner_remarks import DEVICE_AUC, Remark, Wish
from secvm.privacy.statement import PrivacyStatement
from secvm.privacy.statement_text import words

#: Numbers of bins at which the small plot looks, as powers of ten.
_CURVE = tuple(round(10 ** (1 + step / 4)) for step in range(21))


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What was found out. ``None`` where there is no number yet, or none at all."""

    wish: Wish
    refused: tuple[Remark, ...]
    warned: tuple[Remark, ...] = ()
    #: False: a guarantee is still to be computed, and the numbers of cover are rough.
    exact: bool = True
    #: Without a guarantee: at so many participants as expected, and at the floor, which is what devices reckon with.
    leak: PlannedLeak | None = None
    floor_leak: PlannedLeak | None = None
    #: Of the attacker: the law's for a plain experiment, the best one's under a guarantee.
    auc: float | None = None
    budget: int | None = None
    cover_mean: float = 0.0
    cost: ExpectedCost | None = None
    #: Why there is no number for the accuracy.
    no_cost: str | None = None
    #: Of swift, for so much noise; None where there is none.
    suggested_floor: Fraction | None = None
    statement: PrivacyStatement | None = None

    def content(self, *, bytes_per_package: int) -> dict[str, Any]:
        """As JSON: stable keys."""
        wish = self.wish
        return {
            "kind": "plain" if wish.cover is None else "cover",
            # Whether cover gives a guarantee here.
            "formal": wish.cover is not None and wish.logged,
            "exact": self.exact,
            "refusals": [one.content() for one in self.refused],
            "warnings": [one.content() for one in self.warned],
            "attacker": {
                "auc": self.auc,
                "auc_round": _of(self.leak, "auc_round"),
                "auc_without_cover": _of(self.leak, "auc"),
                "auc_corrected": _of(self.leak, "auc_corrected"),
                "auc_at_floor": _of(self.floor_leak, "auc"),
                "device_limit": DEVICE_AUC,
            },
            "packages": self._packages(bytes_per_package),
            "accuracy": self._accuracy(),
            "suggested": {"floor": None if self.suggested_floor is None else str(self.suggested_floor)},
            "hashing": _hashing(wish),
            "guarantee": None if self.statement is None else self.statement.content()["planned"],
            "statement": [] if self.statement is None else words(self.statement),
            "curve": [] if self.refused else _curve(wish),
        }

    def _packages(self, each: int) -> dict[str, Any] | None:
        if self.budget is None:
            return None
        days = self.wish.rounds_per_day
        return {
            "per_round": self.budget,
            "cover_mean": self.cover_mean,
            "rounds": self.wish.rounds,
            "total": self.budget * self.wish.rounds,
            "bytes_per_round": self.budget * each,
            "bytes_total": self.budget * self.wish.rounds * each,
            "rounds_per_day": days,
            "per_day": None if days is None else self.budget * min(days, self.wish.rounds),
            "bytes_per_day": None if days is None else self.budget * min(days, self.wish.rounds) * each,
        }

    def _accuracy(self) -> dict[str, Any] | None:
        if self.cost is None:
            return None if self.no_cost is None else {"points": None, "why": self.no_cost}
        return {
            "points": self.cost.points,
            "expected": self.cost.accuracy,
            "central": self.cost.central,
            "by_hashing": 100 * self.cost.by_hashing,
            "by_noise": 100 * self.cost.by_noise,
            "beyond": list(self.cost.beyond),
            "why": None,
        }


def experiment_of(wish: Wish) -> Experiment:
    """The question without cover, and with any budget."""
    return Experiment(
        n_bins=wish.bins,
        labels=tuple(str(label) for label in range(wish.labels)),
        rule=Swift() if wish.rule == "swift" else Pegasos(),
        thinning=wish.thinning,
        multiclass=wish.multiclass,
        features_per_person=wish.features,
        budget=2,
    )


def _curve(wish: Wish) -> list[dict[str, float]]:
    """AUC against bins, all else as it is; what cover would leave of it is the same everywhere."""
    told: list[dict[str, float]] = []
    for bins in sorted({*_CURVE, wish.bins}):
        leak = planned_leak(
            experiment_of(replace(wish, bins=bins)),
            train_participants=wish.train_participants,
            rounds=wish.rounds,
            hashes=wish.hashes,
            shares=wish.shares,
        )
        if leak is not None:
            told.append({"bins": bins, "auc": leak.auc})
    return told


def _hashing(wish: Wish) -> dict[str, float] | None:
    if wish.vocabulary is None or wish.bins < 1:
        return None
    each = wish.vocabulary * wish.hashes / wish.bins
    # A given word's bin holds no other one of them: each other word misses it.
    return {"vocabulary": wish.vocabulary, "words_per_bin": each, "alone": math.exp(-each)}


def _of(leak: PlannedLeak | None, name: str) -> float | None:
    return None if leak is None else getattr(leak, name)
