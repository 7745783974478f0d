"""λ and the minority's class weight, chosen on a pilot: other people, two days around the clock.

The procedure:

 1. The pilot has as many people as the population, at most 40,000, of another seed, so that nobody who is measured
    later has had a say. Everything else is the plan's. (Few people want other settings than many.)
 2. Every pair of ``LAMBDAS`` and ``WEIGHTS`` is run for two days; the first is a warm-up.
 3. A pair's merit is the smallest of four mean recalls over the second day: of each label, by day and at night. The
    pair with the largest merit is taken; of equal ones the first.

The smallest of four, because each of the other obvious merits hides somebody: accuracy forgets the minority, the mean
of both recalls forgets one of two, and a mean over the day forgets the night.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from secvm.learning.aggregate.descent import Pegasos
from secvm_lab.online.population.crowd import crowd
from secvm_lab.online.population.plan import AVERAGING, Learning, Plan
from secvm_lab.online.result import Run
from secvm_lab.online.run import simulate

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
