"""The ledger: all that a device has told about its person, over rounds and experiments, and whether a round still fits.

 1. **Counts before it sends.** A round is written down, on the disk, before its packages are made. Whatever happens
    then, abandoned, cut off by a crash, given up half-way, it counts. The same round counts once, so a device that was
    killed goes on with it.
 2. **Refuses when the budget is spent.** The check and the entry are one step: nothing happens in between.
 3. **Looks at public values only**: documents, and which rounds were joined. A refusal tells nothing of the person.
 4. **Is never forgotten**, with ``forget`` neither. Who wipes the device has a new one, and nobody could know.

How it adds up. Within an experiment with cover: privacy losses over the rounds really joined. Over experiments: the sum
of their ε, each at a δ fixed in advance, and the sum of those δ. That is the only rule here which holds also where
whoever writes the next experiment has seen the tallies of the last. Experiments
without a guarantee have no ε; their d'² is summed apart, at the floor, under a budget of its own. ε means zero-out here
as everywhere. What the budget is **charged** with is ε of another label, about 1.4 times that, because the label is
what is asked for.

An experiment for which the person has accepted more than the device would is counted, but against what was accepted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from secvm.errors import ConsentRefusedError
from secvm.participant.consent.policies import Consent, allowance
from secvm.participant.storage.books import Accepted
from secvm.participant.storage.state import DeviceState
from secvm.privacy.accounting.guarantee import auc_of_curve, charged_after, epsilon_after, variation_of
from secvm.privacy.leakage import auc_of, planned_leak
from secvm.privacy.risk import CERTAIN, times_in_ten, together, up
from secvm.privacy.sentences import Sentence, say
from secvm.protocol.documents.experiment import ExperimentDocument, read_published
from secvm.protocol.documents.privacy_terms import relayed_terms_of, terms_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a device has told in one experiment."""

    digest: str
    title: str
    rounds: int
    #: Under the guarantee: ε at δ, and what the budget is charged with, ε of another label. Without one: None.
    epsilon: float | None
    charged: float | None
    delta: float
    #: Without a guarantee: d'² by the law, at the floor. With one: None.
    d_squared: float | None
    #: What was accepted for it alone.
    accepted: Accepted
    #: After these rounds (``privacy.risk``), and the total variation that goes with it.
    risk: float = CERTAIN
    variation: float = 1.0

    @property
    def apart(self) -> bool:
        """Whether it is counted against what was accepted for it, and not against the budget of all."""
        return (self.accepted.auc if self.epsilon is None else self.accepted.epsilon) is not None


@dataclass(frozen=True, slots=True)
class Ledger:
    """What was told in all experiments."""

    spendings: tuple[Spending, ...]

    @property
    def epsilon(self) -> float:
        """The sum over experiments with a guarantee, at the sum of their δ."""
        return math.fsum(entry.epsilon for entry in self.spendings if entry.epsilon is not None)

    @property
    def charged(self) -> float:
        """What they come to for another label: this is held to the budget."""
        return math.fsum(entry.charged for entry in self.spendings if entry.charged is not None)

    @property
    def delta(self) -> float:
        return math.fsum(entry.delta for entry in self.spendings)

    @property
    def d_squared(self) -> float:
        """Over experiments without a guarantee."""
        return math.fsum(entry.d_squared for entry in self.spendings if entry.d_squared is not None)

    @property
    def risk(self) -> float:
        """What all of it leaves somebody who bets on the person's answers."""
        return together([(entry.risk, entry.variation) for entry in self.spendings])

    def fits(self, consent: Consent, entered: str) -> Sentence | None:
        """Whether all this may have been told, asked for the experiment that was entered last; else why not."""
        budget = consent.budget
        (last,) = (entry for entry in self.spendings if entry.digest == entered)
        if last.apart:
            return _fits_alone(last)
        common = Ledger(tuple(entry for entry in self.spendings if not entry.apart))
        if last.epsilon is None:
            if common.d_squared > budget.d_squared:
                return say("refused.budget.auc", most=budget.auc, would=up(auc_of(common.d_squared), 1000))
        elif common.charged > budget.epsilon:
            return say("refused.budget.epsilon", most=budget.epsilon, would=up(common.charged, 100))
        elif common.delta > budget.delta:
            return say("refused.budget.delta", most=round(1 / budget.delta))
        return None

    def content(self, consent: Consent) -> dict[str, Any]:
        """As JSON; an infinite number is null."""
        budget = consent.budget
        return {
            "epsilon": finite(self.epsilon),
            "epsilon_charged": finite(self.charged),
            "delta": self.delta,
            "epsilon_budget": finite(budget.epsilon),
            "delta_budget": finite(budget.delta),
            "d_squared": finite(self.d_squared),
            "auc": auc_of(self.d_squared),
            "auc_budget": budget.auc,
            "risk": self.risk,
            "experiments": [
                {
                    "experiment": entry.digest,
                    "title": entry.title,
                    "rounds": entry.rounds,
                    "epsilon": finite(entry.epsilon),
                    "epsilon_charged": finite(entry.charged),
                    "delta": entry.delta,
                    "d_squared": finite(entry.d_squared),
                    "accepted_auc": entry.accepted.auc,
                    "accepted_epsilon": entry.accepted.epsilon,
                }
                for entry in self.spendings
            ],
        }


#: An experiment, how many of its rounds were joined, and what was accepted for it.
Entry = tuple[ExperimentDocument, int, Accepted]


def read_ledger(state: DeviceState, consent: Consent) -> Ledger:
    """The ledger as it stands."""
    return spend(entries(state), consent)


def entries(state: DeviceState, *, also: str | None = None) -> list[Entry]:
    """What is written down; ``also``: with one more round of that experiment."""
    rounds = state.ledger.rounds()
    if also is not None:
        rounds[also] = rounds.get(also, 0) + 1
    return [
        (
            read_published(record.envelope, digest=record.digest),
            rounds[record.digest],
            state.ledger.accepted(record.digest),
        )
        for record in state.records()
        if record.digest in rounds
    ]


def spend(lines: list[Entry], consent: Consent) -> Ledger:
    """What that comes to. With guarantees it may take seconds for numbers that were not asked for before."""
    return Ledger(tuple(spending(document, rounds, consent, accepted) for document, rounds, accepted in lines))


def enter(state: DeviceState, document: ExperimentDocument, round_number: int, consent: Consent) -> None:
    """Count this round, on the disk when this returns; or raise ``ConsentRefusedError``, and nothing is counted.

    One process at a time runs a device, and nothing else enters rounds. Still both are one transaction.
    """
    with state.writing(durable=True):
        if state.ledger.joined(document.digest, round_number):
            return
        _check_fits(entries(state, also=document.digest), document, consent)
        state.ledger.put(document.digest, round_number)


def check_room(state: DeviceState, document: ExperimentDocument, consent: Consent, accepted: Accepted) -> None:
    """Raise ``ConsentRefusedError`` where not even one round of an experiment that is to be joined would fit."""
    _check_fits([*entries(state), (document, 1, accepted)], document, consent)


def _check_fits(lines: list[Entry], entered: ExperimentDocument, consent: Consent) -> None:
    why = None if consent.unsafe else spend(lines, consent).fits(consent, entered.digest)
    if why is not None:
        raise ConsentRefusedError(why, next_step="See what it was spent on: secvm participant inspect")


def spending(document: ExperimentDocument, rounds: int, consent: Consent, accepted: Accepted) -> Spending:
    """What so many rounds of an experiment tell. With two relays the label's ε is charged: it holds against anything
    else that the person might have sent.
    """
    epsilon = charged = d_squared = None
    risk, variation = CERTAIN, 1.0
    if document.experiment.cover is None:
        terms = terms_of(document)
        leak = planned_leak(terms.experiment, train_participants=terms.floor, rounds=terms.rounds, hashes=terms.hashes)
        # Where no law is known, no number is small enough.
        d_squared = math.inf if leak is None else rounds * leak.d_squared_round
    else:
        relayed = relayed_terms_of(document, coordinator=consent.coordinator)
        epsilon = charged = math.inf
        if relayed.mechanism is not None and not relayed.operators.why_no_guarantee(one_relay=consent.one_relay):
            epsilon = epsilon_after(relayed.mechanism, rounds, consent.delta)
            charged = charged_after(relayed.mechanism, rounds, consent.delta)
            so_far = relayed.mechanism.after(rounds)
            risk, variation = auc_of_curve(so_far), variation_of(so_far)
    return Spending(
        digest=document.digest,
        title=document.title,
        rounds=rounds,
        epsilon=epsilon,
        charged=charged,
        delta=0.0 if epsilon is None else consent.delta,
        d_squared=d_squared,
        accepted=accepted,
        risk=risk,
        variation=variation,
    )


def in_words(ledger: Ledger) -> list[Sentence]:
    """For the person: the risk of all of it together, and that it stays."""
    if not ledger.spendings:
        return [say("ledger.empty")]
    times = times_in_ten(ledger.risk)
    return [
        say("risk.unbounded") if times >= 10 else say("risk.together", times=times),
        say("ledger.stays"),
        *([say("ledger.apart")] if any(entry.apart for entry in ledger.spendings) else []),
    ]


def figures(ledger: Ledger, consent: Consent) -> list[Sentence]:
    """ε, δ and AUC, for those who know the words."""
    sentences, budget = [], consent.budget
    with_guarantee = [entry for entry in ledger.spendings if entry.epsilon is not None]
    without = [entry for entry in ledger.spendings if entry.epsilon is None]
    if with_guarantee:
        sentences.append(
            say(
                "ledger.epsilon",
                charged=up(ledger.charged, 100),
                epsilon=up(ledger.epsilon, 100),
                most=_limit(budget.epsilon, math.inf),
                one_in=math.floor(1 / ledger.delta),
                **_counts(with_guarantee),
            )
        )
    if without:
        auc = up(auc_of(ledger.d_squared), 1000)
        sentences.append(say("ledger.auc", auc=auc, most=_limit(budget.auc, 1.0), **_counts(without)))
    return sentences


def _limit(limit: float, none: float) -> str:
    return "∞" if limit >= none else f"{limit:g}"


def _counts(spendings: list[Spending]) -> dict[str, int]:
    return {"rounds": sum(entry.rounds for entry in spendings), "experiments": len(spendings)}


def _fits_alone(last: Spending) -> Sentence | None:
    if last.epsilon is None:
        assert last.accepted.auc is not None
        if last.d_squared is not None and last.d_squared > allowance(last.accepted.auc):
            return say("refused.accepted.auc", most=last.accepted.auc)
        return None
    assert last.accepted.epsilon is not None
    if last.epsilon > last.accepted.epsilon:
        return say("refused.accepted.epsilon", most=last.accepted.epsilon)
    return None


def finite(number: float | None) -> float | None:
    """As JSON can write it."""
    return number if number is not None and math.isfinite(number) else None
