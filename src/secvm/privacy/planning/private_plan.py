"""PrivatePlan: an experiment with (ε, δ) by two relays' cover, all of it, from public numbers alone.

``plan_private`` chooses what nobody has given (rounds, ρ, step size and floor of swift: ``noise_settings``), plans the
cover (``relay_plan``) and the times of a round (``relay_plan``). Whoever makes an experiment and whoever only thinks
of one ask here, and get the same.

**Usefulness.** A plan leaves a model or not: the noise of a cell stands against the people in it. A cell of the train
tally holds, on average, the units of all people who train over all cells; at most, because people whose margin is not
violated send none. Both relays' cover gives it noise of a known deviation. Measured on made-up people (the table of
``accuracy_cost``, 1,000 bins, ten rounds): of what a model would learn without noise about a third is left where the
noise of a cell is as large as its people, an eighth where it is three times as large, three quarters where it is a
third; of people whose words are fewer, more. That is an expectation, no promise.

``plan_lines`` puts a plan in words for the operator; what devices tell their people is ``relayed_text``'s.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from secvm.errors import BadExperimentError
from secvm.learning.aggregate.descent import Swift
from secvm.learning.declared import USUAL_TRAIN_SHARE
from secvm.learning.experiment import Experiment, PublishedRule
from secvm.privacy.planning.noise_settings import NoiseSettings
from secvm.privacy.planning.relay_plan import (
    ENTRY_PACE,
    MIX_PACE,
    PlannedTimes,
    RelayPlan,
    plan_relays,
    question_for,
    round_times,
)
from secvm.privacy.statements.operators import Operators
from secvm.privacy.statements.relayed import CoveredTerms, RelayedStatement, state_relayed
from secvm.privacy.target import PrivacyTarget

#: People of a cell over its noise: below the first there is no usable model, from the second on noise costs little.
LEAST_SIGNAL, GOOD_SIGNAL = 1.0, 3.0


class Outlook(enum.Enum):
    """What is left to learn."""

    USABLE = "usable"
    POOR = "poor"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usefulness:
    """Noise and people of a mean train cell, and what to change where they do not fit."""

    outlook: Outlook
    people_per_cell: float
    noise_per_cell: float
    #: The fewest people, or the most bins, with which it would be usable, all else as it is.
    people_needed: int
    bins_possible: int

    @property
    def sentence(self) -> str:
        """For the operator: what to expect, and the next step."""
        seen = (
            f"a train cell holds {self.people_per_cell:,.1f} people's units on average, and the noise of both relays is"
            f" {self.noise_per_cell:,.1f}"
        )
        change = (
            f"Plan with {self.people_needed:,} people or more, with {self.bins_possible:,} bins or fewer, or ask for a"
            " larger ε."
        )
        if self.outlook is Outlook.USABLE:
            return f"Private, and usable: {seen}."
        if self.outlook is Outlook.POOR:
            return f"Private, and the noise costs much of the accuracy: {seen}. {change}"
        return f"Private, and no usable model: {seen}. {change}"


def usefulness(plan: RelayPlan) -> Usefulness:
    """What a plan leaves to learn for the people it expects."""
    question, noise = plan.question, plan.noise_per_cell
    sent = question.contribution.mean_units
    people = float(question.people * question.train_share) * sent / question.train_cells
    signal = people / noise
    outlook = Outlook.NONE if signal < LEAST_SIGNAL else Outlook.POOR if signal < GOOD_SIGNAL else Outlook.USABLE
    return Usefulness(
        outlook=outlook,
        people_per_cell=people,
        noise_per_cell=noise,
        people_needed=math.ceil(question.people * GOOD_SIGNAL / signal),
        # A person has no fewer units in fewer bins, down to as many as the features.
        bins_possible=max(1, math.floor((question.bins + 1) * signal / GOOD_SIGNAL) - 1),
    )


#: What of an experiment by swift a plan chooses where nobody has given it.
CHOSEN = frozenset({"thinning", "step_size", "floor"})
_MILLION = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPrivately:
    """What is asked for. Public."""

    #: Without cover, and without a budget.
    experiment: Experiment
    target: PrivacyTarget
    #: Devices that are expected in a round, those that test included.
    people: int
    hashes: int = 1
    train_share: Fraction = USUAL_TRAIN_SHARE
    #: None: chosen.
    rounds: int | None = None
    #: What of ``CHOSEN`` somebody has given: it stands in the experiment.
    given: frozenset[str] = frozenset()
    #: Seconds for a million packages of the entry relay, and of the mixing relay.
    entry_pace: float = ENTRY_PACE
    mix_pace: float = MIX_PACE


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivatePlan:
    """An experiment that keeps it, and what that takes."""

    asked: AskedPrivately
    plan: RelayPlan
    #: With cover, budget, and all that was chosen.
    experiment: Experiment
    times: PlannedTimes

    @property
    def rounds(self) -> int:
        return self.plan.question.rounds

    @property
    def useful(self) -> Usefulness:
        """Whether it leaves a model."""
        return usefulness(self.plan)

    def statement(self, operators: Operators, *, floor: int, bytes_per_package: int = 0) -> RelayedStatement:
        """What devices will say of it. Takes seconds."""
        asked = self.asked
        terms = CoveredTerms(
            experiment=self.experiment,
            rounds=self.rounds,
            hashes=asked.hashes,
            floor=floor,
            train_share=asked.train_share,
            claimed=asked.target,
            operators=operators,
            people=asked.people,
        )
        delta = float(asked.target.delta)
        return state_relayed(terms, delta=delta, bytes_per_package=bytes_per_package)

    def content(self, statement: RelayedStatement) -> dict[str, Any]:
        """As JSON: stable keys."""
        plan, cover, rule = self.plan, self.plan.cover, self.experiment.rule
        rho = self.experiment.thinning.rho
        useful = self.useful
        return {
            "epsilon": float(self.asked.target.epsilon),
            "delta": float(self.asked.target.delta),
            "people": self.asked.people,
            "rounds": self.rounds,
            "rho": None if rho is None else str(rho),
            "step_size": str(rule.step_size) if isinstance(rule, Swift) else None,
            "floor": str(rule.floor) if isinstance(rule, Swift) else None,
            "budget": plan.budget,
            "parts": cover.parts,
            "packages": cover.packages,
            "noise_per_cell": plan.noise_per_cell,
            "outlook": useful.outlook.value,
            "outlook_sentence": useful.sentence,
            "times": asdict(self.times),
            "terms": self._terms(),
            "statement": statement.content(),
        }

    def _terms(self) -> dict[str, int]:
        """What both relays' terms must allow at the least; seconds at the most."""
        cover = self.plan.cover
        return {
            "cells": sum(noise.cells for noise in cover.kinds),
            "packages": cover.packages,
            "capsules": self.plan.budget * self.asked.people + cover.packages,
            "entry_seconds_per_million": self.times.batch_s * _MILLION // cover.packages,
            "mix_seconds_per_million": self.times.mix_s * _MILLION // (2 * cover.packages),
        }


@lru_cache(maxsize=64)
def plan_private(asked: AskedPrivately) -> PrivatePlan:
    """The plan. Takes a second or some, and is kept: who looks at a plan first and then publishes it waits once.

    Raises
    ------
    BadExperimentError
        One sentence about what cannot be kept.
    """
    experiment = asked.experiment
    if experiment.features_per_person is None:
        raise BadExperimentError("a guarantee needs a limit on features per person: set features.per_participant")
    swift = isinstance(experiment.rule, Swift)
    free = CHOSEN - asked.given if swift else frozenset[str]()
    question, chosen = question_for(
        target=asked.target,
        people=asked.people,
        bins=experiment.n_bins,
        features=experiment.features_per_person,
        labels=len(experiment.labels),
        models=experiment.models.n_models,
        violable=experiment.models.most_per_person,
        hashes=asked.hashes,
        train_share=asked.train_share,
        rounds=asked.rounds if swift or asked.rounds is not None else experiment.rule.usual_rounds(),
        rho=None if "thinning" in free else experiment.thinning.rho,
    )
    thinning = chosen.thinning if "thinning" in free else experiment.thinning
    plan = plan_relays(replace(question, thinning=thinning))
    covered = replace(
        experiment,
        thinning=thinning,
        rule=_rule(experiment.rule, chosen, free),
        budget=plan.budget,
        cover=plan.cover,
    )
    return PrivatePlan(
        asked=asked, plan=plan, experiment=covered, times=round_times(plan, entry=asked.entry_pace, mix=asked.mix_pace)
    )


def _rule(rule: PublishedRule, chosen: NoiseSettings, free: frozenset[str]) -> PublishedRule:
    if not isinstance(rule, Swift):
        return rule
    own = {"step_size": chosen.step_size, "floor": chosen.floor}
    return replace(rule, **{name: value for name, value in own.items() if name in free})


def plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """``PrivatePlan.content`` for a terminal."""
    times, terms, reached = plan["times"], plan["terms"], plan["statement"]["planned"]
    chosen = "" if plan["step_size"] is None else f", step size {plan['step_size']}, floor {plan['floor']} of swift"
    thinned = "" if plan["rho"] is None else f", thinned by ρ = {plan['rho']}"
    return [
        (
            f"guarantee   ε = {plan['epsilon']:g} at δ = {plan['delta']:g} over all {plan['rounds']} rounds"
            f"{_reached(reached)}"
        ),
        f"rounds      {plan['rounds']}{thinned}{chosen}",
        f"device      B = {plan['budget']:,} packages in every round, in one request",
        f"relays      D = {plan['packages']:,} cover packages of each in every round, in S = {plan['parts']} parts",
        (
            f"terms       both relays' must allow {terms['cells']:,} cells, {terms['packages']:,} packages and"
            f" {terms['capsules']:,} capsules; seconds_per_million is at most"
            f" {terms['entry_seconds_per_million']:,} at the entry relay and {terms['mix_seconds_per_million']:,} at"
            " the mixing relay"
        ),
        (
            f"times       after a window's grace {times['batch_s']} s at the entry relay, {times['mix_s']} s at the"
            f" mixing relay, {times['reveal_s']} s for reveals, {times['open_s']} s for the opening"
        ),
        f"noise       {plan['noise_per_cell']:.1f} in each count of a bin and a sign (standard deviation)",
        f"model       {plan['outlook_sentence']}",
    ]


def _reached(reached: Mapping[str, Any] | None) -> str:
    if reached is None or reached["epsilon"] is None:
        return ""
    label = "none" if reached["epsilon_flip"] is None else f"{reached['epsilon_flip']:.2f}"
    return f"; reached: {reached['epsilon']:.2f}, and of another label in place of a person's: {label}"
