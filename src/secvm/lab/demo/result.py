"""What a demonstration found out: values only. The summary and the report are made of nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from secvm.learning.aggregate.scoring import Score
from secvm.privacy.accountant import Adjacency
from secvm.privacy.label_leakage import auc_of
from secvm.protocol.experiment_document import ExperimentDocument
from secvm.protocol.stating import epsilon_of

#: What is shown with cover at this size.
PLUMBING = "plumbing, not protection"


@dataclass(frozen=True, slots=True)
class RoundLine:
    """One round, as the coordinator published it."""

    number: int
    #: Train participants per label.
    participants: tuple[int, ...]
    #: Of the test cohort, with the evaluation weights that the round began with; None: nobody tested, or abandoned.
    score: Score | None
    #: Of the weights after this round, on the further people.
    accuracy: float
    #: Packages that devices saw acknowledged, and those that the coordinator counted.
    sent: int
    counted: int
    abandoned: bool = False


@dataclass(frozen=True, slots=True)
class Leakage:
    """What the tallies give away of labels, by the law d'² = q · bins · (1/V₊ + 1/V₋) (docs/privacy.md)."""

    #: Mean probability with which a unit of an update is sent.
    q: float
    #: Σ over the rounds so far of d'², one entry a round.
    summed: tuple[float, ...]

    @property
    def first_auc(self) -> float:
        """Of round 1 alone."""
        return auc_of(self.summed[0]) if self.summed else 0.5

    @property
    def auc(self) -> float:
        """Of all rounds, for a device that sends an update in each of them."""
        return auc_of(self.summed[-1]) if self.summed else 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """What the cover of a demonstration is made for, and what it rests on."""

    epsilon: float
    delta: float
    #: ε that the cover reaches under zero-out, and under label flip (infinite: none).
    achieved: float
    label_flip: float
    #: Devices whose cover is counted on in every round.
    honest: int
    #: A device's cover packages on average, its own packages at most; a train count's noise (standard deviation).
    cover_mean: float
    own: int
    noise: float

    @classmethod
    def of(cls, document: ExperimentDocument, participants: int) -> Guarantee | None:
        """By the published document; None where it is plain."""
        terms, cover = document.privacy, document.experiment.cover
        if terms is None or cover is None:
            return None
        delta, honest = float(terms.delta), terms.honest
        return cls(
            epsilon=float(terms.epsilon),
            delta=delta,
            achieved=epsilon_of(document, delta=delta, honest=honest),
            label_flip=epsilon_of(document, delta=delta, honest=honest, adjacency=Adjacency.LABEL_FLIP),
            honest=honest,
            cover_mean=float(cover.mean_packages),
            own=cover.real_cap + 1,
            noise=math.sqrt(cover.train.variance_per_cell(participants)),
        )

    def summary(self) -> dict[str, Any]:
        """For programs; null: no guarantee."""
        found = {name: getattr(self, name) for name in self.__slots__}
        told = {name: None if math.isinf(value) else round(value, 6) for name, value in found.items()}
        return {"kind": "cover", "note": PLUMBING, **told}


@dataclass(frozen=True, slots=True)
class Checks:
    """Sent against counted, and deployed against offline."""

    packages_sent: int
    packages_counted: int
    counted_twice: int
    bit_exact: bool
    #: What an auditor found from outside, in sentences; nothing: no fault. And how many steps it played again.
    faults: tuple[str, ...]
    steps_replayed: int

    @property
    def audit(self) -> str:
        """The auditor's verdict: "ok" says that nothing was found, and no more."""
        return "failed" if self.faults else "ok"

    @property
    def as_they_should_be(self) -> bool:
        """All of them."""
        return not self.lost and not self.counted_twice and self.bit_exact and not self.faults

    @property
    def lost(self) -> int:
        """Acknowledged, but never counted."""
        return self.packages_sent + self.counted_twice - self.packages_counted


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """All of it."""

    participants: int
    hosts: int
    witnesses: int
    rounds: int
    budget: int
    bins: int
    seed: int
    descent: str
    thinning: str
    #: Where the people came from, in words.
    people: str
    labels: tuple[str, ...]
    lines: tuple[RoundLine, ...]
    #: On people who took no part.
    tested_on: int
    final: Score
    central_accuracy: float
    checks: Checks
    leakage: Leakage
    seconds: float
    #: None: plain.
    guarantee: Guarantee | None = None
    #: How many packages were acknowledged in each twentieth of the windows, all rounds together.
    arrivals: tuple[int, ...] = ()
    #: Bytes of a sealed package on the wire without HTTP's own, and what hosts sent and relay deposited, where known.
    capsule_bytes: int = 0
    traffic: dict[str, int] = field(default_factory=dict)
    report: str = ""
    #: Where the operator's page was, while it ran; None: there was none.
    page: str | None = None

    @property
    def accuracy(self) -> float:
        return self.final.accuracy.value

    def summary(self) -> dict[str, Any]:
        """What ``secvm demo --format json`` prints."""

        def each(name: str) -> dict[str, float | None]:
            shares = getattr(self.final, name)
            return {
                label: None if math.isnan(share.value) else round(share.value, 4)
                for label, share in zip(self.labels, shares, strict=True)
            }

        return {
            "participants": self.participants,
            "rounds": self.rounds,
            "budget": self.budget,
            "accuracy": round(self.accuracy, 4),
            "central_accuracy": round(self.central_accuracy, 4),
            "recall": each("recall"),
            "precision": each("precision"),
            "baseline": each("baseline"),
            "packages_sent": self.checks.packages_sent,
            "packages_counted": self.checks.packages_counted,
            "lost": self.checks.lost,
            "counted_twice": self.checks.counted_twice,
            "bit_exact_with_offline": self.checks.bit_exact,
            "witnesses": self.witnesses,
            "audit": self.checks.audit,
            "steps_replayed": self.checks.steps_replayed,
            "privacy": {"kind": "plain"} if self.guarantee is None else self.guarantee.summary(),
            "seconds": round(self.seconds, 1),
            "report": self.report,
            "page": self.page,
        }
