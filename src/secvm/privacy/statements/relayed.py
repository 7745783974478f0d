"""RelayedStatement: what taking part in an experiment with two relays tells about a person, in numbers, before joining.

Everything follows from public values, and nothing that an experiment claims of itself is believed: ε is computed anew
from the cover of **one** relay. Neither the number of participants nor a share of honest devices is in it, nor a log.

- ``epsilon`` is zero-out's, over all rounds and after one; the label's stands beside it, and is what a ledger charges.
- Which operators together break it is read from the document (``operators``).
- Chances that a relay which drops or falsifies is seen in a round (``detection``) are for so many people as are
  expected.
- The **leak without guarantee** is what the public tallies alone would give away of a label without cover.

``relayed_text`` puts it in words.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from secvm.learning.cover_law import RelayCover
from secvm.learning.experiment import Experiment
from secvm.privacy.accounting.accountant import Mechanism
from secvm.privacy.accounting.guarantee import NO_PROTECTION, Guarantee, guarantee
from secvm.privacy.accounting.relay_cover import contribution_of, relay_mechanism
from secvm.privacy.leakage import PlannedLeak, planned_leak
from secvm.privacy.risk import risk_of
from secvm.privacy.statements.detection import (
    blindly_for,
    canary,
    dropped_in_cell,
    false_cover,
    in_cell_for,
    typical_cell,
)
from secvm.privacy.statements.operators import Operators, relay_coalitions
from secvm.privacy.target import USUAL, PrivacyTarget

#: How surely somebody who drops shall be seen, where a statement says how much that takes.
LIKELY, NEARLY_SURE = Fraction(9, 10), Fraction(99, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredTerms:
    """What a statement is about. Public."""

    experiment: Experiment
    #: T, the unopened rounds included.
    rounds: int
    hashes: int = 1
    #: Train participants below which a round is not stepped.
    floor: int
    train_share: Fraction = Fraction(1)
    #: What the document says that it keeps.
    claimed: PrivacyTarget
    operators: Operators
    #: Devices that are expected in a round; None: nobody says, and the floor is taken.
    people: int | None = None

    @property
    def expected(self) -> int:
        return math.ceil(self.floor / self.train_share) if self.people is None else self.people

    @property
    def mechanism(self) -> Mechanism | None:
        """What an accountant has to know; None: the experiment has no cover of relays."""
        cover = self.experiment.cover
        if cover is None:
            return None
        return relay_mechanism(contribution_of(self.experiment, rounds=self.rounds, hashes=self.hashes), cover)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellChances:
    """Packages of one cell that the mixing relay drops or replaces by content: how many, until it is seen."""

    people: int
    cover: int
    #: With a chance of ``LIKELY`` and ``NEARLY_SURE``; None: not even all of them.
    packages_90: int | None
    packages_99: int | None
    #: The chance if all of them are dropped.
    at_most: float

    @classmethod
    def of(cls, cover: RelayCover, people: float) -> CellChances:
        """Of a train cell with so many people's packages."""
        cell, part = typical_cell(cover.train, cover.parts, people), cover.train.part(cover.parts)
        return cls(
            people=cell.people,
            cover=cell.cover,
            packages_90=in_cell_for(float(LIKELY), cell, shape=part, parts=cover.parts),
            packages_99=in_cell_for(float(NEARLY_SURE), cell, shape=part, parts=cover.parts),
            at_most=dropped_in_cell(cell.packages, cell, shape=part, parts=cover.parts),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Caught:
    """Chances of being seen, in one round."""

    #: Of a relay that falsifies anything of its cover, at least.
    false_cover: Fraction
    #: Capsules of the entry relay's batch, taken blindly, that are seen with ``NEARLY_SURE``.
    blindly_99: int
    mean_cell: CellChances
    fullest_cell: CellChances
    #: Of an entry relay that drops one of a device's capsules.
    canary: Fraction

    def content(self) -> dict[str, Any]:
        """As JSON: stable keys."""
        return asdict(self) | {"false_cover": float(self.false_cover), "canary": float(self.canary)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedStatement:
    """The numbers. ``relayed_text.words`` has the sentences."""

    terms: CoveredTerms
    #: None: a formal guarantee is stated.
    why_no_guarantee: str | None
    #: At the document's δ, and at that of whoever asks; None without a guarantee.
    planned: Guarantee | None
    own: Guarantee | None
    #: What public tallies would give away without cover, at the floor; None where no law is known.
    leak: PlannedLeak | None
    #: None without relays' cover.
    caught: Caught | None
    #: B, and bytes that leave a device in a round.
    budget: int | None
    bytes_per_round: int | None

    @property
    def formal(self) -> bool:
        return self.why_no_guarantee is None

    @property
    def risk(self) -> float:
        """``risk.risk_of``, for whoever asks."""
        return risk_of(self.own)

    @property
    def protects(self) -> bool:
        """Whether there is a guarantee that deserves the name."""
        return self.own is not None and self.own.epsilon < NO_PROTECTION

    @property
    def kept(self) -> bool:
        """Whether the document keeps what it claims."""
        return self.planned is not None and self.planned.epsilon <= float(self.terms.claimed.epsilon)

    def content(self) -> dict[str, Any]:
        """As JSON: stable keys. An infinite ε is null."""
        terms, cover = self.terms, self.terms.experiment.cover
        return {
            "kind": "relays",
            "formal": self.formal,
            "why_no_guarantee": self.why_no_guarantee,
            "protects": self.protects,
            "risk": self.risk,
            "claimed": {"epsilon": float(terms.claimed.epsilon), "delta": float(terms.claimed.delta)},
            "kept": self.kept,
            "rounds": terms.rounds,
            "bins": terms.experiment.n_bins,
            "features": terms.experiment.features_per_person,
            "labels": len(terms.experiment.labels),
            "floor": terms.floor,
            "people": terms.expected,
            "planned": None if self.planned is None else self.planned.content(),
            "own": None if self.own is None else self.own.content(),
            "relied_on": list(terms.operators.relied_on),
            "coalitions": [
                {"parties": coalition.parties, "can": coalition.can} for coalition in relay_coalitions(terms.operators)
            ],
            "caught": None if self.caught is None else self.caught.content(),
            "leak_without_guarantee": _leak(self.leak),
            "budget": self.budget,
            "cover_packages": None if cover is None else cover.packages,
            "bytes_per_round": self.bytes_per_round,
            "tallies_are_public": True,
        }


@lru_cache(maxsize=64)
def state_relayed(
    terms: CoveredTerms,
    *,
    delta: float = float(USUAL.delta),
    one_relay: bool = False,
    bytes_per_package: int = 0,
) -> RelayedStatement:
    """The statement about an experiment. Kept: a device asks before every round, and a host for all its devices.

    ``delta`` is the chance that whoever asks leaves aside, for one experiment. ``one_relay``: that one relay is enough,
    where the coordinator's operator runs the other (``operators.ONE_RELAY``).
    """
    experiment, mechanism = terms.experiment, terms.mechanism
    why_not = "this experiment adds no noise" if mechanism is None else None
    why_not = why_not or terms.operators.why_no_guarantee(one_relay=one_relay)
    planned = own = None
    if mechanism is not None and why_not is None:
        planned = guarantee(mechanism, float(terms.claimed.delta))
        own = guarantee(mechanism, delta)
    budget = experiment.budget
    return RelayedStatement(
        terms=terms,
        why_no_guarantee=why_not,
        planned=planned,
        own=own,
        # At the floor: from fewer people no step is taken.
        leak=planned_leak(experiment, train_participants=terms.floor, rounds=terms.rounds, hashes=terms.hashes),
        caught=_caught(terms),
        budget=budget,
        bytes_per_round=None if budget is None else budget * bytes_per_package,
    )


def _leak(leak: PlannedLeak | None) -> dict[str, Any] | None:
    return None if leak is None else {"auc_round": leak.auc_round, "auc": leak.auc}


def _caught(terms: CoveredTerms) -> Caught | None:
    cover, budget = terms.experiment.cover, terms.experiment.budget
    if cover is None or budget is None:
        return None
    contribution = contribution_of(terms.experiment, rounds=terms.rounds, hashes=terms.hashes)
    trained = float(terms.expected * terms.train_share)
    return Caught(
        # Anything at all: a part is falsified or it is not.
        false_cover=false_cover(Fraction(1, cover.packages), cover.parts),
        blindly_99=blindly_for(NEARLY_SURE, part=cover.part_packages, batch=budget * terms.expected + cover.packages),
        mean_cell=CellChances.of(cover, trained * contribution.mean_units / cover.train.cells),
        # Each person has one unit in a cell at most.
        fullest_cell=CellChances.of(cover, trained),
        canary=canary(1, budget),
    )
