"""A scenario: a plan with all that was asked for, beside the same people without it, so that the cost can be told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from secvm.pages.reports import ReportPage
from secvm_lab.online import figures
from secvm_lab.online.cover import Covered, Promise, covered
from secvm_lab.online.population.crowd import crowd
from secvm_lab.online.population.plan import Plan
from secvm_lab.online.result import Run
from secvm_lab.online.run import Attack, Stage, check_plan, simulate


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
    rows = [[name, _shown(told[name])] for name in ("participants_per_round", "packages_per_participant", "budget")]
    rows += [["night_drop", f"{_shown(told['night_drop'])} ± {_shown(told['night_drop_error'])}"]]
    made.table(["", ""], rows)
    made.figure(figures.recall(run, "recall", "Recall"), "With 95 % intervals; dashed, the label's share.")
    made.figure(figures.precision(run, "precision", "Precision"), "With 95 % intervals; dashed, the label's share.")
    made.figure(figures.participants(run, "participants", "Test participants"), "Those who test, by round.")
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
            figures.beside([("as asked for", run), ("without", outcome.without)], "beside", "Recall of the minority"),
            "The same people, without cover, attack and clipping.",
        )
    made.made_by(command, seconds)
    return made


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"
