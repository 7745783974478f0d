"""Two relays' cover for a population: an (ε, δ) over all rounds, whoever is there.

What relays add does not depend on how many take part. Whether the noise leaves a model does: rounds, step, ρ and
swift's floor are chosen for the fewest devices that are expected in any of the rounds (``privacy.noise_settings``); by
day that is many, at night few.
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
from secvm_lab.online.population.calendar import openings
from secvm_lab.online.population.crowd import Crowd
from secvm_lab.online.population.plan import Plan


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
