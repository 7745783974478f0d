"""Planned: what the planner found out about an experiment that somebody thinks of, as values and as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from secvm.learning.experiment import Experiment
from secvm.privacy.leakage.experiment_leak import PlannedLeak, planned_leak
from secvm.privacy.planning.accuracy_cost import ExpectedCost
from secvm.privacy.planning.private_plan import PrivatePlan
from secvm.privacy.planning.wish import Remark, Wish, operators_of
from secvm.privacy.statements.plain import PrivacyStatement, words
from secvm.privacy.statements.relayed import RelayedStatement
from secvm.privacy.statements.relayed_text import holds
from secvm.privacy.statements.relayed_text import words as relayed_words

#: Numbers of bins at which the small plot looks, as powers of ten.
_CURVE = tuple(round(10 ** (1 + step / 4)) for step in range(21))


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What was found out. ``None`` where there is no number yet, or none at all."""

    wish: Wish
    refused: tuple[Remark, ...]
    warned: tuple[Remark, ...] = ()
    #: False: a guarantee is still to be planned.
    exact: bool = True
    rounds: int | None = None
    #: Without a guarantee: at so many participants as expected, and at the floor, which is what devices reckon with.
    leak: PlannedLeak | None = None
    floor_leak: PlannedLeak | None = None
    #: Of the attacker: the law's for a plain experiment, the best one's under a guarantee.
    auc: float | None = None
    budget: int | None = None
    cost: ExpectedCost | None = None
    #: Why there is no number for the accuracy.
    no_cost: str | None = None
    #: Of a guarantee, once it is planned.
    private: PrivatePlan | None = None
    statement: PrivacyStatement | RelayedStatement | None = None

    def content(self, *, bytes_per_package: int) -> dict[str, Any]:
        """As JSON: stable keys."""
        wish, statement = self.wish, self.statement
        private = statement if isinstance(statement, RelayedStatement) else None
        return {
            "kind": "plain" if wish.guarantee is None else "relays",
            "formal": wish.guarantee is not None,
            "exact": self.exact,
            "refusals": [remark.content() for remark in self.refused],
            "warnings": [remark.content() for remark in self.warned],
            "attacker": {
                "auc": self.auc,
                "auc_round": _of(self.leak, "auc_round"),
                "auc_without_cover": _of(self.leak, "auc"),
                "auc_corrected": _of(self.leak, "auc_corrected"),
                "auc_at_floor": _of(self.floor_leak, "auc"),
            },
            "packages": self._packages(bytes_per_package),
            "accuracy": self._accuracy(),
            "hashing": _hashing(wish),
            "guarantee": None if private is None else private.content()["planned"],
            "rests_on": None if wish.guarantee is None else holds(operators_of(wish)),
            "plan": None if self.private is None or private is None else self.private.content(private),
            "statement": _words(statement),
            "curve": [] if self.rounds is None or not self.exact else _curve(wish, self.rounds),
        }

    def _packages(self, each: int) -> dict[str, Any] | None:
        if self.budget is None:
            return None
        budget, rounds, days = self.budget, self.rounds, self.wish.rounds_per_day
        daily = None if days is None else days if rounds is None else min(days, rounds)
        return {
            "per_round": budget,
            "rounds": rounds,
            "total": None if rounds is None else budget * rounds,
            "bytes_per_round": budget * each,
            "bytes_total": None if rounds is None else budget * rounds * each,
            "rounds_per_day": days,
            "per_day": None if daily is None else budget * daily,
            "bytes_per_day": None if daily is None else budget * daily * each,
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
        rule=wish.descent.rule,
        thinning=wish.descent.thinning,
        multiclass=wish.multiclass,
        features_per_person=wish.features,
        budget=2,
    )


def _words(statement: PrivacyStatement | RelayedStatement | None) -> list[str]:
    if statement is None:
        return []
    return relayed_words(statement) if isinstance(statement, RelayedStatement) else words(statement)


def _curve(wish: Wish, rounds: int) -> list[dict[str, float]]:
    """AUC against bins, all else as it is; what cover would leave of it is the same everywhere."""
    points: list[dict[str, float]] = []
    for bins in sorted({*_CURVE, wish.bins}):
        leak = planned_leak(
            experiment_of(replace(wish, bins=bins)),
            train_participants=wish.train_participants,
            rounds=rounds,
            hashes=wish.hashes,
            shares=wish.shares,
        )
        if leak is not None:
            points.append({"bins": bins, "auc": leak.auc})
    return points


def _hashing(wish: Wish) -> dict[str, float] | None:
    if wish.vocabulary is None or wish.bins < 1:
        return None
    each = wish.vocabulary * wish.hashes / wish.bins
    # A given word's bin holds no other one of them: each other word misses it.
    return {"vocabulary": wish.vocabulary, "words_per_bin": each, "alone": math.exp(-each)}


def _of(leak: PlannedLeak | None, name: str) -> float | None:
    return None if leak is None else getattr(leak, name)
