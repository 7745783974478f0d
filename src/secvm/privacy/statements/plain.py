"""PrivacyStatement: what taking part in an experiment without cover tells about a person, before anybody joins.

Everything follows from public values. Such an experiment adds no noise, so that there is no guarantee, and the
**leak** is what the public tallies alone give away of a label in an honest run (``privacy.leakage``). Where two relays
add cover there is another statement (``relayed``). ``words`` puts this one in words, for the person who is to decide.

**Coalitions.** The separation of who and what ends with any one of the parties that ``coalitions`` lists. None of them
is a claim that somebody cheats; each is what the protocol cannot prevent.

- A relay delivers. One that hands on a single person's packages, and beside them only its own, reads the public tally.
- Nobody counts a crowd for a device. A coordinator can show an experiment to few, and count a round of one person.
- Two histories of a log need two quorums. With n witnesses of which q are enough, 2q - n of them have to cosign both;
  then one person can be given a gateway key of their own.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from secvm.learning.experiment import Experiment
from secvm.privacy.leakage import PlannedLeak, planned_leak
from secvm.privacy.risk import risk_of
from secvm.privacy.statements.operators import Coalition, in_words


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
    """The numbers. ``words`` has the sentences."""

    terms: Terms
    #: What public tallies give away, at the floor; None where no law is known.
    leak: PlannedLeak | None
    #: B, and bytes that leave in a round; None offline, where nothing is sent.
    budget: int | None
    bytes_per_round: int | None

    @property
    def risk(self) -> float:
        """``risk.risk_of``, where no noise was added."""
        return risk_of(None)

    def content(self) -> dict[str, Any]:
        """As JSON: stable keys."""
        terms, experiment = self.terms, self.terms.experiment
        return {
            "kind": "plain",
            "formal": False,
            "risk": self.risk,
            "rounds": terms.rounds,
            "bins": experiment.n_bins,
            "features": experiment.features_per_person,
            "labels": len(experiment.labels),
            "floor": terms.floor,
            "leak_without_guarantee": None if self.leak is None else asdict(self.leak),
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


NO_GUARANTEE = (
    "There is no formal guarantee: this experiment adds no noise. Tallies are public and stay so: anybody, not only the"
    " coordinator, can use them to guess at you."
)
#: Whatever the law of an honest run says. Ends without a full stop.
CHOSEN_WEIGHTS = (
    "a coordinator that chooses the weights, by making tallies up, can tell your label with an AUC of 1.00 (certainty)"
)
#: Before all coalitions that are sufficient (``coalitions``).
_COLLUDE = (
    "To find out your label nobody has to work together with anybody: the public tallies are enough. To learn which"
    " packages are yours, any one of these is: {all}"
)


def words(statement: PrivacyStatement) -> list[str]:
    """One sentence or a few in each item, in the order in which they matter."""
    return [
        NO_GUARANTEE,
        _leak_sentence(statement),
        _COLLUDE.format(all=in_words(coalitions(statement.terms))),
        *_cost_sentence(statement),
    ]


def as_text(statement: PrivacyStatement) -> str:
    """All of it, a paragraph each."""
    return "\n\n".join(words(statement))


def _leak_sentence(statement: PrivacyStatement) -> str:
    leak, rounds = statement.leak, statement.terms.rounds
    if leak is None:
        return "For a label that is a number there is no law yet, so the risk has no number."
    every = f"all {rounds} rounds" if rounds > 1 else "its one round"
    corrected = "" if leak.auc_corrected is None else f" ({leak.auc_corrected:.2f} with all corrections)"
    return (
        "The fewer train, the more that tells, and no device can see how many do. Somebody who knows your features and"
        f" wants your label would, if {statement.terms.floor:,} train, the fewest from whom the model should learn,"
        f" reach an AUC of about {leak.auc_round:.2f} in one round, and {leak.auc:.2f} in {every}{corrected}; 0.50 is a"
        f" coin, 1.00 is certainty. And {CHOSEN_WEIGHTS}."
    )


def _cost_sentence(statement: PrivacyStatement) -> list[str]:
    if statement.budget is None:
        return []
    size = f", {statement.bytes_per_round:,} bytes" if statement.bytes_per_round else ""
    return [f"Your device sends exactly {statement.budget:,} packages in every round{size}."]


def coalitions(terms: Terms) -> tuple[Coalition, ...]:
    """All that are sufficient where nobody adds cover, the smallest first."""
    sufficient = [_isolating(terms), _with_a_key_of_its_own(terms)]
    if terms.relays:
        only = terms.relays == 1
        relay = "the relay" if only else f"each of the {terms.relays} relays, for the packages that take it,"
        sufficient.insert(0, Coalition(f"{relay} alone", "hand on your packages with only its own beside them"))
        with_whom = "the relay" if only else "the relays that your packages take"
        sufficient.append(Coalition(f"the coordinator and {with_whom} together", "tell who sent what"))
    return tuple(sufficient)


def _isolating(terms: Terms) -> Coalition:
    if not terms.relays:
        # Devices go straight there.
        return Coalition("the coordinator alone", "see who sends what")
    return Coalition("the coordinator alone", "show this experiment to so few that you stand alone in a round")


def _with_a_key_of_its_own(terms: Terms) -> Coalition:
    can = "give you a gateway key of your own, and so tell your packages from all others"
    if not terms.logged:
        return Coalition("the coordinator alone, for there is no log,", can)
    if terms.quorum is None:
        return Coalition("the coordinator and as many witnesses as two of their quorums share", can)
    enough, of = terms.quorum
    both = 2 * enough - of
    if both <= 0:
        return Coalition(f"the coordinator alone, for {enough} of {of} witnesses are no majority,", can)
    return Coalition(f"the coordinator and {both} of the {of} witnesses", can)
