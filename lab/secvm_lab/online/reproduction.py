"""The paper's online evaluation: three days around the clock, two by day, with its settings and with chosen ones.

λ and the minority's class weight, chosen on a pilot: other people, two days around the clock.

The procedure:

 1. The pilot has as many people as the population, at most 40,000, of another seed, so that nobody who is measured
    later has had a say. Everything else is the plan's. (Few people want other settings than many.)
 2. Every pair of ``LAMBDAS`` and ``WEIGHTS`` is run for two days; the first is a warm-up.
 3. A pair's merit is the smallest of four mean recalls over the second day: of each label, by day and at night. The
    pair with the largest merit is taken; of equal ones the first.

The smallest of four, because each of the other obvious merits hides somebody: accuracy forgets the minority, the mean
of both recalls forgets one of two, and a mean over the day forgets the night.

Both settings are run once more for people of few words, where the paper's fail: nobody's margin ever reaches one there,
so everybody violates for ever, and the class weight alone decides what is predicted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from secvm.learning.aggregate.descent import Pegasos
from secvm_lab.online.population.crowd import crowd
from secvm_lab.online.population.plan import AVERAGING, Learning, Plan, daytime
from secvm_lab.online.result import MINORITY, Run
from secvm_lab.online.run import Stage, check_plan, simulate

LAMBDAS = (Fraction(1, 10), Fraction(1, 100), Fraction(1, 1000))
WEIGHTS = (Fraction(4), Fraction(5), Fraction(6), Fraction(7))
DAYS = 2
MOST_PEOPLE = 40_000
#: Added to the seed.
_OTHER_SEED = 7_919


@dataclass(frozen=True, slots=True)
class Tried:
    """One pair on the pilot."""

    lambda_: Fraction
    weight: Fraction
    #: Mean recalls of the second day: (majority, minority) by day, and at night.
    by_day: tuple[float, float]
    at_night: tuple[float, float]

    @property
    def merit(self) -> float:
        return min(*self.by_day, *self.at_night)

    @property
    def learning(self) -> Learning:
        return Learning(rule=Pegasos(lambda_=self.lambda_, averaging=AVERAGING), weight=self.weight)

    def told(self) -> dict[str, Any]:
        """As stable keys."""
        return {
            "lambda": float(self.lambda_),
            "weight": float(self.weight),
            "recall_day": [round(value, 4) for value in self.by_day],
            "recall_night": [round(value, 4) for value in self.at_night],
            "merit": round(self.merit, 4),
        }


def pilot(plan: Plan) -> Plan:
    """The plan of the pilot."""
    return replace(
        plan,
        people=min(plan.people, MOST_PEOPLE),
        seed=(plan.seed + _OTHER_SEED) % 2**32,
        days=DAYS,
        hours=(0, 24),
        begin=22,
    )


def choose(plan: Plan, advance: Callable[[int], None] | None = None) -> tuple[Tried, list[Tried]]:
    """The best pair, and all that were tried."""
    small = pilot(plan)
    people = crowd(small, DAYS)
    tried = []
    for lambda_ in LAMBDAS:
        for weight in WEIGHTS:
            learning = Learning(rule=Pegasos(lambda_=lambda_, averaging=AVERAGING), weight=weight)
            run = simulate(people, replace(small, learning=learning))
            tried.append(Tried(lambda_, weight, _recalls(run, night=False), _recalls(run, night=True)))
            if advance is not None:
                advance(1)
    return max(tried, key=lambda one: one.merit), tried


def _recalls(run: Run, *, night: bool) -> tuple[float, float]:
    first, second = (
        run.mean(lambda line: line.score.recall[i].value, night=night) or 0.0  # noqa: B023  (called at once)
        for i in (0, 1)
    )
    return first, second


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
