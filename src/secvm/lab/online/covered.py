"""Cover for a population: an (ε, δ) over all rounds, planned for the quietest of them.

What a device must add depends on how many others add it too, so the plan is for the fewest participants that are
expected in any of the rounds: by day that is many, at night few. Rounds, ρ and swift's floor follow from public numbers
(``privacy.noise_settings``); the cover from ``privacy.shuffle_dp``, as a coordinator plans it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from secvm.errors import BadInputError
from secvm.estimator.privacy import contributed
from secvm.lab.online.attendance import Attendance
from secvm.lab.online.calendar import openings
from secvm.lab.online.crowd import Crowd
from secvm.lab.online.plan import Plan
from secvm.learning.arithmetic import exact
from secvm.learning.experiment import Experiment
from secvm.privacy.noise_settings import MOST_ROUNDS, NoiseSettings, noise_settings
from secvm.privacy.shuffle_dp import CoverPlan
from secvm.privacy.shuffle_dp import plan as plan_cover

#: r of the train cells' cover, as ``secvm train --epsilon`` has it.
SHAPE = 90
#: The largest ε that a plan is made for (``privacy.shuffle_dp``).
MAX_EPSILON = 32


@dataclass(frozen=True, slots=True)
class Promise:
    """What people are promised."""

    epsilon: float
    delta: float = 1e-6
    #: The share of devices that must be honest, and deliver.
    gamma: float = 0.9
    #: At most so many of a person's features take part.
    contribution: int = 300

    def __post_init__(self) -> None:
        if not (0 < self.epsilon <= MAX_EPSILON and 0 < self.delta < 1 and 0 < self.gamma <= 1):
            raise BadInputError(
                f"--epsilon must lie above 0 and at most at {MAX_EPSILON}, --delta between 0 and 1, --gamma above 0 and"
                " at most at 1"
            )


@dataclass(frozen=True, eq=False)
class Covered:
    """An experiment that keeps a promise, and the people as it sees them."""

    people: Crowd
    experiment: Experiment
    settings: NoiseSettings
    plan: CoverPlan

    @property
    def plain(self) -> Experiment:
        """The same rule, rounds and thinning without cover: what it costs is told beside this."""
        return replace(self.experiment, cover=None)

    def told(self) -> dict[str, Any]:
        """What it costs, as stable keys."""
        return {
            "epsilon": self.plan.epsilon,
            "delta": self.plan.delta,
            "epsilon_achieved": round(self.plan.achieved, 4),
            "gamma": float(self.plan.gamma),
            "planned_participants": self.plan.participants,
            "participants_needed": math.ceil(self.plan.gamma * self.plan.participants),
            "contribution": self.experiment.features_per_person,
            "rounds": self.settings.rounds,
            "rho": float(self.settings.rho),
            "budget_per_device_round": self.plan.cover.budget,
            "cover_mean": round(float(self.plan.cover.mean_packages), 2),
            "noise_to_signal": float(f"{self.settings.noise_to_signal:.3g}"),
        }


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
    settings = noise_settings(
        people=participants,
        bins=plan.bins,
        contribution=features,
        epsilon=promise.epsilon,
        delta=promise.delta,
        gamma=exact(promise.gamma),
        rounds=rounds,
    )
    made = plan_cover(
        epsilon=promise.epsilon,
        delta=promise.delta,
        rounds=settings.rounds,
        features=features,
        bins=plan.bins,
        thinning=settings.thinning,
        participants=participants,
        gamma=exact(promise.gamma),
        shape=SHAPE,
        labels=2,
        train_share=plan.train_share,
    )
    experiment = Experiment(
        n_bins=plan.bins,
        labels=people.plan.labels,
        rule=settings.rule,
        thinning=settings.thinning,
        class_weights=(Fraction(1), plan.learning.weight),
        features_per_person=features,
        budget=made.cover.budget,
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
