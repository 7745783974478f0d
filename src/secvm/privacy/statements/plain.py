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
from secvm.privacy.risk import in_words as risk_in_words
from secvm.privacy.risk import risk_of
from secvm.privacy.sentences import Sentence, say
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
        """``risk.risk_of``: no noise was added."""
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


def words(statement: PrivacyStatement) -> list[Sentence]:
    """One sentence or a few in each item, in the order in which they matter."""
    return [*plainly(statement), *size(statement.budget, statement.bytes_per_round), *figures(statement)]


def as_text(statement: PrivacyStatement) -> str:
    """All of it, a paragraph each."""
    return "\n\n".join(words(statement))


def plainly(statement: PrivacyStatement) -> list[Sentence]:
    """The risk, and who is enough to find out what."""
    return [
        risk_in_words(statement.risk, statement.terms.experiment),
        say("none.noise"),
        say("none.chosen"),
        say("alone", all=in_words(coalitions(statement.terms))),
    ]


def size(budget: int | None, bytes_per_round: int | None) -> list[Sentence]:
    """How much leaves a device; nothing where nothing is sent."""
    return [say("leaves.size", budget=budget, bytes=bytes_per_round)] if budget and bytes_per_round else []


def figures(statement: PrivacyStatement) -> list[Sentence]:
    """What an honest run's tallies give away, for those who know the words."""
    leak, floor, rounds = statement.leak, statement.terms.floor, statement.terms.rounds
    if leak is None:
        return [say("figures.no-law")]
    once = {"floor": floor, "one": leak.auc_round}
    return [
        say("figures.plain", all=leak.auc, rounds=rounds, **once) if rounds > 1 else say("figures.plain.one", **once),
        *([] if leak.auc_corrected is None else [say("figures.corrected", auc=leak.auc_corrected)]),
    ]


def coalitions(terms: Terms) -> tuple[Coalition, ...]:
    """All that are sufficient where nobody adds cover, the smallest first."""
    sufficient = [_isolating(terms), _with_a_key_of_its_own(terms)]
    if terms.relays:
        only = terms.relays == 1
        relay = say("party.relay") if only else say("party.relays", relays=terms.relays)
        sufficient.insert(0, Coalition(relay, say("can.alone")))
        both = say("party.coordinator-relay" if only else "party.coordinator-relays")
        sufficient.append(Coalition(both, say("can.link")))
    return tuple(sufficient)


def _isolating(terms: Terms) -> Coalition:
    # Without a relay devices go straight there.
    return Coalition(say("party.coordinator"), say("can.few" if terms.relays else "can.see"))


def _with_a_key_of_its_own(terms: Terms) -> Coalition:
    can = say("can.key")
    if not terms.logged:
        return Coalition(say("party.no-log"), can)
    if terms.quorum is None:
        return Coalition(say("party.quorums"), can)
    enough, of = terms.quorum
    both = 2 * enough - of
    if both <= 0:
        return Coalition(say("party.minority", enough=enough, of=of), can)
    return Coalition(say("party.witnesses", both=both, of=of), can)
