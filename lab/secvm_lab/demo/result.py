"""What a demonstration found out: values only. The summary and the report are made of nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from secvm.learning.aggregate.scoring import Score
from secvm.learning.cover_law import RELAYS
from secvm.privacy.leakage import auc_of
from secvm.privacy.statements.relayed import state_relayed
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.privacy_terms import relayed_terms_of
from secvm_lab.demo.attack import LabelAttack


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
    #: ε that one relay's cover reaches under zero-out, and under label flip (infinite: none).
    achieved: float
    label_flip: float
    #: D and S: packages that each relay adds to a round, in so many parts, of which one is opened.
    cover_packages: int
    parts: int
    #: A train count's noise (standard deviation).
    noise: float

    @classmethod
    def of(cls, document: ExperimentDocument) -> Guarantee | None:
        """By the published document; None where it is plain."""
        cover = document.experiment.cover
        if cover is None:
            return None
        statement = state_relayed(relayed_terms_of(document))
        assert statement.planned is not None, "two operators run the relays"
        return cls(
            epsilon=float(statement.terms.claimed.epsilon),
            delta=float(statement.terms.claimed.delta),
            achieved=statement.planned.epsilon,
            label_flip=statement.planned.epsilon_flip,
            cover_packages=cover.packages,
            parts=cover.parts,
            noise=math.sqrt(RELAYS * cover.train.variance),
        )

    def summary(self) -> dict[str, Any]:
        """For programs; null: no guarantee."""
        found = {name: getattr(self, name) for name in self.__slots__}
        told = {name: None if math.isinf(value) else round(value, 6) for name, value in found.items()}
        return {"kind": "relays", **told}


@dataclass(frozen=True, slots=True)
class Protected:
    """A demonstration with a guarantee: what it promises, what it costs, and what an attack makes of it."""

    guarantee: Guarantee
    #: Accuracy of the same rounds without cover.
    plain_accuracy: float
    attack: LabelAttack


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
    #: Packages that it counted again, with the seeds that were published.
    recounted: int = 0

    @property
    def steps_in_words(self) -> str:
        """That the steps follow."""
        return "1 step follows" if self.steps_replayed == 1 else f"{self.steps_replayed:,} steps follow"

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
    #: What a plain run gives away; None: it has a guarantee.
    leakage: Leakage | None
    #: None: plain.
    protected: Protected | None
    #: From the first round to the result; before that, people, processes, the plan, and devices that join.
    seconds: float
    setup_seconds: float
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

    @property
    def rounds_in_words(self) -> str:
        """How many rounds there were."""
        return f"{self.rounds:,} round{'s' if self.rounds != 1 else ''}"

    @property
    def as_it_should_be(self) -> bool:
        """All checks, and an attack that does no better than is allowed."""
        return self.checks.as_they_should_be and (self.protected is None or self.protected.attack.within)

    def summary(self) -> dict[str, Any]:
        """What ``secvm demo --format json`` prints."""

        def each(name: str) -> dict[str, float | None]:
            shares = getattr(self.final, name)
            return {
                label: None if math.isnan(share.value) else round(share.value, 4)
                for label, share in zip(self.labels, shares, strict=True)
            }

        return {
            **self._guaranteed(),
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
            "recounted": self.checks.recounted,
            "privacy": {"kind": "plain"} if self.protected is None else self.protected.guarantee.summary(),
            "seconds": round(self.seconds, 1),
            "setup_seconds": round(self.setup_seconds, 1),
            "report": self.report,
            "page": self.page,
        }

    def _guaranteed(self) -> dict[str, Any]:
        """Promise and attack. A plain run promises nothing, and its AUC is by the law, of one who knows bins alone."""
        found = self.protected
        if found is None:
            leaked = round(0.5 if self.leakage is None else self.leakage.auc, 4)
            return {
                "guarantee": "none",
                "epsilon": None,
                "delta": None,
                "plain_accuracy": None,
                "attack_auc": leaked,
                "attack_auc_interval": None,
                "attack_auc_allowed": None,
                "attack_auc_plain": leaked,
            }
        attack = found.attack
        return {
            "guarantee": "formal",
            "epsilon": found.guarantee.epsilon,
            "delta": found.guarantee.delta,
            "plain_accuracy": round(found.plain_accuracy, 4),
            "attack_auc": round(attack.auc, 4),
            "attack_auc_interval": [round(end, 4) for end in attack.interval],
            "attack_auc_allowed": round(attack.allowed, 4),
            "attack_auc_plain": round(attack.plain, 4),
        }
