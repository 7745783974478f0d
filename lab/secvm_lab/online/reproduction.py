"""The paper's online evaluation: three days around the clock, two by day, with its settings and with chosen ones.

And both settings once more for people of few words, where the paper's fail: nobody's margin ever reaches one there, so
everybody violates for ever, and the class weight alone decides what is predicted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from secvm_lab.online.parameter_choice import LAMBDAS, WEIGHTS, Tried, choose
from secvm_lab.online.population.crowd import crowd
from secvm_lab.online.population.plan import Plan, daytime
from secvm_lab.online.result import MINORITY, Run
from secvm_lab.online.run import Stage, check_plan, simulate

#: Words of people of few words, and how many of those people at most.
SHORT, SHORT_PEOPLE = 10, 20_000


@dataclass(frozen=True, eq=False)
class Pair:
    """The two runs of one setting."""

    continuous: Run
    daytime: Run

    def told(self) -> dict[str, Any]:
        return {"continuous": self.continuous.told(), "daytime": self.daytime.told()}


@dataclass(frozen=True, eq=False)
class ShortRows:
    """Two days around the clock for people of few words."""

    words: int
    paper: Run
    chosen: Run
    choice: Tried

    def told(self) -> dict[str, Any]:
        return {
            "words": self.words,
            "paper": self.paper.told(rounds=False),
            "chosen": self.choice.told() | self.chosen.told(rounds=False),
        }


@dataclass(frozen=True, eq=False)
class Reproduction:
    """Everything that ``secvm reproduce online`` found."""

    plan: Plan
    paper: Pair
    #: None where nothing was to be chosen.
    chosen: Pair | None
    choice: Tried | None
    tried: tuple[Tried, ...]
    short: ShortRows | None

    def told(self) -> dict[str, Any]:
        """As stable keys."""
        told: dict[str, Any] = self.paper.told() | {"minority": self.plan.labels[MINORITY]}
        if self.chosen is not None and self.choice is not None:
            told["chosen"] = self.choice.told() | self.chosen.told()
            told["tried"] = [one.told() for one in self.tried]
        if self.short is not None:
            told["short_rows"] = self.short.told()
        plan = self.plan
        told["settings"] = {
            "people": plan.people,
            "words": plan.words.per_person,
            "bins": plan.bins,
            "signal": plan.words.signal,
            "label_noise": plan.words.label_noise,
            "minority_by_day": plan.rhythm.day_share,
            "minority_at_night": plan.rhythm.night_share,
            "zones": dict(plan.zones),
            "churn": plan.churn,
            "stragglers": plan.stragglers,
            "train_share": float(plan.train_share),
            "floor": plan.floor,
            "seed": plan.seed,
            "synthetic": plan.data is None,
        }
        return told


def reproduce(plan: Plan, watch: Stage, *, choosing: bool = True) -> Reproduction:
    """Both runs with the paper's settings and, with ``choosing``, both with settings chosen on other people."""
    check_plan(plan)
    choice: Tried | None = None
    tried: list[Tried] = []
    if choosing:
        choice, tried = _choose(plan, "choosing on other people", watch)
    watch("making people", 0, 0)
    people = crowd(plan, plan.days)
    by_day = daytime(plan)

    def pair(words: str, settings: Plan) -> Pair:
        return Pair(
            simulate(people, settings, watch=lambda done, of: watch(f"{words}, around the clock", done, of)),
            simulate(
                people,
                replace(by_day, learning=settings.learning),
                watch=lambda done, of: watch(f"{words}, by day", done, of),
            ),
        )

    paper = pair("the paper's settings", plan)
    chosen = None if choice is None else pair("chosen settings", replace(plan, learning=choice.learning))
    short = _short_rows(plan, watch) if choosing else None
    return Reproduction(people.plan, paper, chosen, choice, tuple(tried), short)


def _choose(plan: Plan, words: str, watch: Stage) -> tuple[Tried, list[Tried]]:
    done = 0
    watch(words, 0, 0)

    def advance(steps: int) -> None:
        nonlocal done
        done += steps
        watch(words, done, len(LAMBDAS) * len(WEIGHTS))

    return choose(plan, advance)


def _short_rows(plan: Plan, watch: Stage) -> ShortRows:
    """Both settings for people of few words; what is chosen for long rows need not be good for them."""
    few = replace(
        plan, people=min(plan.people, SHORT_PEOPLE), words=replace(plan.words, per_person=SHORT), days=2, begin=22
    )
    choice, _ = _choose(few, "choosing for people of few words", watch)
    people = crowd(few, few.days)
    return ShortRows(SHORT, simulate(people), simulate(people, replace(few, learning=choice.learning)), choice)
