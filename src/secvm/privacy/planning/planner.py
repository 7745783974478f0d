"""The planner: an experiment in numbers → what it would tell, cost and learn, before anybody is asked.

``quick`` answers in milliseconds: a plain experiment whole, exactly as its statement will say it; of one with a
guarantee what is wrong with it, and what a device sends. ``guaranteed`` takes seconds: it makes the very plan that the
coordinator would make (``private_plan``), with the statement that people will read. Both say what is wrong
(``wish``); what accuracy to expect comes from a table (``accuracy_cost``).

Plans are kept: somebody who moves a slider back waits for nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from secvm.errors import BadExperimentError, BadInputError
from secvm.learning.aggregate.descent import Swift
from secvm.learning.cover_law import relay_budget
from secvm.learning.declared import MAX_BUDGET
from secvm.learning.experiment import Experiment, default_budget
from secvm.privacy.leakage import WANTED_AUC, PlannedLeak, keep_share, planned_leak
from secvm.privacy.planning.accuracy_cost import AccuracyTable, ExpectedCost
from secvm.privacy.planning.private_plan import AskedPrivately, Outlook, PrivatePlan, plan_private
from secvm.privacy.planning.wish import (
    DEVICE_DAILY_BYTES,
    Remark,
    Wish,
    operators_of,
    refusals,
    warnings,
)
from secvm.privacy.risk import times_in_ten
from secvm.privacy.statements.plain import PrivacyStatement, Terms, state, words
from secvm.privacy.statements.relayed import RelayedStatement
from secvm.privacy.statements.relayed_text import holds
from secvm.privacy.statements.relayed_text import words as relayed_words

#: Up to here an AUC is a hint, not a good guess.
_HINT_AUC = 0.7
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
                "risk": None if statement is None else statement.risk,
                "times": None if statement is None else times_in_ten(statement.risk),
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
        return self.cost.content()


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
    return [*(relayed_words(statement) if isinstance(statement, RelayedStatement) else words(statement))]


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


def quick(wish: Wish, table: AccuracyTable, *, bytes_per_package: int = 0) -> Planned:
    """At once; of a guarantee, what needs no plan."""
    refused = refusals(wish)
    if refused:
        return Planned(wish=wish, refused=tuple(refused), exact=wish.guarantee is None)
    try:
        experiment = experiment_of(wish)
        if wish.guarantee is not None:
            return _unplanned(wish, experiment, bytes_per_package)
        usual = None if wish.features is None else _usual(wish, experiment)
        budget = usual if wish.budget is None else wish.budget
    except BadInputError as fault:
        return Planned(wish=wish, refused=(Remark("", _sentence(fault)),), exact=wish.guarantee is None)
    assert budget is not None
    planned = _plain(wish, replace(experiment, budget=budget), table, bytes_per_package)
    if usual is not None and budget < usual:
        short = Remark("budget", f"Updates are cut: nearly all of them would fit into {usual:,} packages.")
        return replace(planned, warned=(*planned.warned, short))
    return planned


def guaranteed(wish: Wish, table: AccuracyTable, *, bytes_per_package: int = 0) -> Planned:
    """With the plan that the coordinator would make, and what it is worth. Takes seconds where there is a guarantee."""
    first = quick(wish, table, bytes_per_package=bytes_per_package)
    if wish.guarantee is None or first.refused:
        return first
    try:
        made = private_plan(wish)
        statement = made.statement(operators_of(wish), floor=wish.floor, bytes_per_package=bytes_per_package)
    except BadInputError as fault:
        return Planned(wish=wish, refused=(Remark("privacy.epsilon", _sentence(fault)),))
    best = statement.planned
    train, experiment = wish.train_participants, made.experiment
    cost, no_cost = cost_of_plan(made, table)
    planned = replace(
        first,
        exact=True,
        rounds=made.rounds,
        leak=planned_leak(
            experiment, train_participants=train, rounds=made.rounds, hashes=wish.hashes, shares=wish.shares
        ),
        floor_leak=statement.leak,
        auc=None if best is None else best.auc,
        cost=cost,
        no_cost=no_cost,
        private=made,
        statement=statement,
    )
    return replace(planned, warned=(*warnings(wish), *_outlook(made), *_about(planned, bytes_per_package)))


def private_plan(wish: Wish) -> PrivatePlan:
    """The plan for a wish with a guarantee: what the coordinator would make of the same numbers."""
    asked = wish.guarantee
    if asked is None:
        raise BadExperimentError("no guarantee is wished for")
    paces = {relay.role: relay.seconds_per_million for relay in wish.relays}
    return plan_private(
        AskedPrivately(
            experiment=replace(experiment_of(wish), budget=None),
            target=asked,
            people=wish.people,
            hashes=wish.hashes,
            train_share=wish.train_share,
            rounds=wish.rounds,
            given=wish.descent.given,
            entry_pace=paces["entry"],
            mix_pace=paces["mix"],
        )
    )


def _unplanned(wish: Wish, experiment: Experiment, bytes_per_package: int) -> Planned:
    """Of a guarantee that is still to be planned."""
    assert wish.features is not None
    budget = relay_budget(violable=experiment.models.most_per_person, features=wish.features, hashes=wish.hashes)
    if wish.budget not in (None, budget):
        needed = f"With a guarantee every device sends {budget:,} packages in a round: leave it empty."
        return Planned(wish=wish, refused=(Remark("budget", needed),), exact=False)
    if budget > MAX_BUDGET:
        most = f"{budget:,} packages would be needed, and {MAX_BUDGET:,} are the most: take fewer features."
        return Planned(wish=wish, refused=(Remark("features.per_participant", most),), exact=False)
    planned = Planned(wish=wish, refused=(), exact=False, rounds=wish.rounds, budget=budget)
    return replace(planned, warned=(*warnings(wish), *_about(planned, bytes_per_package)))


def _outlook(made: PrivatePlan) -> list[Remark]:
    useful = made.useful
    return [] if useful.outlook is Outlook.USABLE else [Remark("people", useful.sentence)]


def _usual(wish: Wish, experiment: Experiment) -> int | None:
    if not wish.presence and experiment.thinning.rho is None:
        return None
    return default_budget(experiment, hashes=wish.hashes, presence=wish.presence)


def _plain(wish: Wish, experiment: Experiment, table: AccuracyTable, bytes_per_package: int) -> Planned:
    rounds = wish.rounds
    assert rounds is not None, "a plain experiment has a number of rounds"
    leak = planned_leak(
        experiment,
        train_participants=wish.train_participants,
        rounds=rounds,
        hashes=wish.hashes,
        shares=wish.shares,
    )
    at_floor = planned_leak(experiment, train_participants=wish.floor, rounds=rounds, hashes=wish.hashes)
    cost, no_cost = expected_cost(experiment, table, people=wish.train_participants, rounds=rounds, hashes=wish.hashes)
    planned = Planned(
        wish=wish, refused=(), rounds=rounds, leak=leak, floor_leak=at_floor, auc=None if leak is None else leak.auc,
        budget=experiment.budget, cost=cost, no_cost=no_cost,
        statement=_statement(wish, experiment, rounds, bytes_per_package),
    )  # fmt: skip
    return replace(planned, warned=(*warnings(wish), *_about(planned, bytes_per_package)))


def _statement(wish: Wish, experiment: Experiment, rounds: int, bytes_per_package: int) -> PrivacyStatement:
    """What a device would say of a plain experiment."""
    terms = Terms(
        experiment=experiment,
        rounds=rounds,
        hashes=wish.hashes,
        floor=wish.floor,
        train_share=wish.train_share,
        relays=len(wish.relays),
        logged=wish.logged,
    )
    return state(terms, bytes_per_package=bytes_per_package)


def cost_of_plan(made: PrivatePlan, table: AccuracyTable) -> tuple[ExpectedCost | None, str | None]:
    """What accuracy to expect of a plan with a guarantee, or why there is no number."""
    train = float(made.asked.people * made.asked.train_share)
    # Noise of both signs in each bin of a round's mean direction, where a person's own row has length 1.
    per_bin = math.sqrt(2) * made.plan.noise_per_cell / (float(made.experiment.thinning.divisor) * train)
    return expected_cost(
        made.experiment, table, people=train, rounds=made.rounds, hashes=made.asked.hashes, per_bin=per_bin
    )


def expected_cost(
    experiment: Experiment, table: AccuracyTable, *, people: float, rounds: int, hashes: int, per_bin: float = 0.0
) -> tuple[ExpectedCost | None, str | None]:
    """What accuracy to expect if so many people train under noise of this deviation in each bin, or why there is no
    number.
    """
    rule = experiment.rule
    if not isinstance(rule, Swift):
        return None, f"The table of accuracies was measured with {Swift.name}; there is none for {rule.name}."
    cost = table.expected(
        people=people,
        bins=experiment.n_bins,
        features=experiment.features_per_person,
        rounds=rounds,
        noise=per_bin * math.sqrt(experiment.n_bins + 1),
        q=keep_share(experiment, hashes=hashes),
    )
    return cost, None


def _about(planned: Planned, bytes_per_package: int) -> list[Remark]:
    remarks: list[Remark] = []
    auc, plain = planned.auc, planned.wish.guarantee is None
    if auc is not None and auc > (WANTED_AUC if plain else _HINT_AUC):
        attacker = "whoever knows a person's features" if plain else "the best attacker"
        can = (
            "can tell the label"
            if auc > 0.9
            else "can make a good guess at the label"
            if auc > _HINT_AUC
            else "has a hint"
        )
        remarks.append(Remark("", f"AUC {auc:.2f}: {attacker} {can}."))
    if plain:
        at_floor = "" if planned.floor_leak is None else f" (AUC {planned.floor_leak.auc:.2f} at the floor)"
        remarks.append(
            Remark(
                "",
                f"Devices refuse it, unless their people say otherwise{at_floor}: it has no guarantee, and whoever"
                " chooses the weights can tell every label.",
            )
        )
    days, budget = planned.wish.rounds_per_day, planned.budget
    if days is not None and budget is not None:
        daily = budget * (days if planned.rounds is None else min(days, planned.rounds)) * bytes_per_package
        if daily > DEVICE_DAILY_BYTES:
            remarks.append(
                Remark(
                    "windows.length_s",
                    f"Devices send {DEVICE_DAILY_BYTES // 10**6} MB a day at most, and skip the rest.",
                )
            )
    return remarks


def _sentence(fault: Exception) -> str:
    text = str(fault)
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
