"""A scenario: a plan with all that was asked for, beside the same people without it, so that the cost can be told.

The cover of two relays gives a population an (ε, δ) over all rounds, whoever is there. What relays add does not depend
on how many take part. Whether the noise leaves a model does: rounds, step, ρ and swift's floor are chosen for the
fewest devices that are expected in any of the rounds (``privacy.noise_settings``); by day that is many, at night few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from secvm.errors import BadInputError
from secvm.estimator.privacy import CONTRIBUTION, PrivacyPlan, contributed
from secvm.learning.experiment import Experiment
from secvm.privacy.planning.noise_settings import MOST_ROUNDS, NoiseSettings
from secvm.privacy.planning.relay_plan import RelayPlan, plan_relays, question_for
from secvm.privacy.target import PrivacyTarget
from secvm_lab.online.population.attendance import Attendance
from secvm_lab.online.population.crowd import Crowd, crowd
from secvm_lab.online.population.plan import Plan
from secvm_lab.online.population.residents import openings
from secvm_lab.online.reproduction_page import beside, participants, shares
from secvm_lab.online.result import Run
from secvm_lab.online.run import Attack, Stage, check_plan, simulate
from secvm_lab.reports import ReportPage


@dataclass(frozen=True, slots=True)
class Promise:
    """What people are promised, and the most of a person that takes part."""

    target: PrivacyTarget
    contribution: int = CONTRIBUTION


@dataclass(frozen=True, eq=False)
class Covered:
    """An experiment that keeps a promise, and the people as it sees them."""

    people: Crowd
    experiment: Experiment
    settings: NoiseSettings
    plan: RelayPlan

    @property
    def plain(self) -> Experiment:
        """The same rule, rounds and thinning without cover: what it costs is told beside this."""
        return replace(self.experiment, cover=None)

    def told(self) -> dict[str, Any]:
        """What it costs, as stable keys."""
        return PrivacyPlan(self.settings, self.plan).content()


def fewest(plan: Plan, people: Crowd, rounds: int) -> int:
    """The fewest participants that are expected in one of the first so many rounds, stragglers not counted."""
    attendance = Attendance(plan, people.people)
    found = []
    for opening in openings(plan)[:rounds]:
        here = people.people.present(opening.at_ms)
        found.append(float(attendance.chances(opening)[here].clip(max=1.0).sum()))
    return math.floor(min(found) * (1 - plan.stragglers))


def covered(plan: Plan, people: Crowd, promise: Promise, rounds: int | None = None) -> Covered:
    """The plan's question under a promise. ``rounds``: so many, where the number is not left to the promise."""
    participants = fewest(plan, people, rounds or MOST_ROUNDS)
    if participants < 2:
        raise BadInputError("in the quietest round nobody is expected: more people, or other hours")
    features = min(promise.contribution, people.features)
    question, settings = question_for(
        target=promise.target,
        people=participants,
        bins=plan.bins,
        features=features,
        train_share=plan.train_share,
        rounds=rounds,
    )
    made = plan_relays(question)
    experiment = Experiment(
        n_bins=plan.bins,
        labels=people.plan.labels,
        rule=settings.rule,
        thinning=settings.thinning,
        class_weights=(Fraction(1), plan.learning.weight),
        features_per_person=features,
        budget=made.budget,
        cover=made.cover,
        robust=plan.learning.robust,
    )
    return Covered(_cut(people, features), experiment, settings, made)


def _cut(people: Crowd, features: int) -> Crowd:
    """At most so many bins of each person, one unit in each."""
    if people.features <= features:
        return people.one_per_bin()
    seed = people.plan.device_seed
    return replace(
        people,
        train_rows=contributed(people.train_rows, features, seed),
        test_rows=contributed(people.test_rows, features, seed),
        features=features,
    )


@dataclass(frozen=True, slots=True)
class Scenario:
    """What was asked for."""

    plan: Plan
    promise: Promise | None = None
    attack: Attack | None = None
    #: The first so many rounds; None: all of the plan's, or as many as the promise allows.
    rounds: int | None = None

    @property
    def plain(self) -> bool:
        """Whether there is nothing to be compared."""
        return self.promise is None and self.attack is None and self.plan.learning.robust is None


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of it."""

    plan: Plan
    run: Run
    #: The same people and rounds without cover, attack and clipping; None where nothing of it was asked for.
    without: Run | None
    covered: Covered | None
    attack: Attack | None

    def told(self) -> dict[str, Any]:
        """As stable keys."""
        told = self.run.told()
        told["labels"] = list(self.plan.labels)
        if self.covered is not None:
            told["privacy"] = self.covered.told()
        if self.attack is not None:
            told["attack"] = {"plot": self.attack.plot, "attackers": self.attack.share}
        if self.plan.learning.robust is not None:
            robust = self.plan.learning.robust
            told["robust"] = {"clip": None if robust.clip is None else float(robust.clip), "trim": robust.trim}
        if self.without is not None:
            told["without"] = self.without.told(rounds=False)
            told["cost"] = self.cost()
        return told

    def cost(self) -> dict[str, Any]:
        """Recall of the last model lost, and packages sent more, beside ``without``."""
        assert self.without is not None
        lost = {
            label: round(theirs.value - ours.value, 5)
            for label, ours, theirs in zip(
                self.plan.labels, self.run.final.recall, self.without.final.recall, strict=True
            )
        }
        ours, theirs = (run.told(rounds=False)["packages_per_participant"] for run in (self.run, self.without))
        return {
            "recall_lost": lost,
            "packages_per_participant_more": round(ours - theirs, 2),
            "budget_more": self.run.budget - self.without.budget,
        }


def play(scenario: Scenario, watch: Stage) -> Outcome:
    """All of it."""
    plan = scenario.plan
    check_plan(plan)
    watch("making people", 0, 0)
    people = crowd(plan, plan.days)
    found, experiment, plain, rounds = None, None, None, scenario.rounds
    if scenario.promise is not None:
        watch("planning cover", 0, 0)
        found = covered(plan, people, scenario.promise, rounds)
        people, experiment, rounds = found.people, found.experiment, found.settings.rounds
        plain = replace(found.plain, robust=None)
    run = simulate(
        people,
        plan,
        experiment=experiment,
        attack=scenario.attack,
        rounds=rounds,
        watch=lambda done, of: watch("rounds", done, of),
    )
    without = None
    if not scenario.plain:
        honest = replace(plan, learning=replace(plan.learning, robust=None))
        without = simulate(
            people,
            honest,
            experiment=plain,
            rounds=rounds,
            watch=lambda done, of: watch("the same without, for comparison", done, of),
        )
    return Outcome(replace(people.plan, learning=plan.learning), run, without, found, scenario.attack)


def page(outcome: Outcome, command: str, seconds: float) -> ReportPage:
    """The report."""
    plan, run = outcome.plan, outcome.run
    kind = "made up" if plan.data is None else "of a file"
    made = ReportPage("A population over days", f"{plan.people:,} people at any time, {kind}. {run.learning}.")
    told = outcome.told()
    rows = [[words, _shown(told[name])] for name, words in _NAMES.items()]
    made.table(["", ""], [*rows, *map(list, by_night(run))])
    for what in ("recall", "precision"):
        figure = shares(run, what, what, what.capitalize())
        made.figure(figure, "With 95 % intervals; dashed, the label's share.")
    made.figure(participants(run, "participants", "Test participants"), "Those who test, by round.")
    if outcome.without is not None:
        made.heading("What it cost")
        cost = outcome.cost()
        made.table(
            ["", ""],
            [
                *([f"recall lost, {label}", f"{100 * lost:.1f} points"] for label, lost in cost["recall_lost"].items()),
                ["packages per participant and round, more", _shown(cost["packages_per_participant_more"])],
                ["B, more", _shown(cost["budget_more"])],
            ],
        )
        made.figure(
            beside([("as asked for", run), ("without", outcome.without)], "beside", "Recall of the minority"),
            "The same people, without cover, attack and clipping.",
        )
    made.made_by(command, seconds)
    return made


#: What the page calls numbers of the run.
_NAMES = {
    "participants_per_round": "devices in a round",
    "packages_per_participant": "packages of a device in a round that say something",
    "budget": "packages of a device in a round, at most",
}


def by_night(run: Run) -> list[tuple[str, str]]:
    """How much recall of the minority falls, in words; nothing where the rounds were too few to say."""
    drop = run.night_drop
    if drop.value is None:
        return []
    where = "at night, beside the day" if run.around_the_clock else "at the edges of the day, beside its middle"
    error = "" if drop.error is None else f" ± {100 * drop.error:.1f}"
    return [(f"recall of the minority lost {where}", f"{100 * drop.value:.1f}{error} points")]


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"
