"""Small populations for tests, and their rounds played package by package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from secvm.estimator.round_cover import CoverOrigin, net_cover
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import Pegasos, State
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.individual.contribution import contribute
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.package import Cohort, Package
from secvm_lab.online.population.attendance import Attendance, Present
from secvm_lab.online.population.crowd import Crowd
from secvm_lab.online.population.dice import LabDice
from secvm_lab.online.population.plan import Learning, Plan, Rhythm
from secvm_lab.online.population.residents import openings
from secvm_lab.online.population.words import TitleWords
from secvm_lab.online.stragglers import arrived, individual

SMALL: dict[str, Any] = {
    "people": 60,
    "words": TitleWords(per_person=12, vocabulary=2**10),
    "rhythm": Rhythm(peak=1.0),
    "days": 2,
    "begin": 12,
    "bins": 30,
    "floor": 2,
    "learning": Learning(rule=Pegasos(lambda_=Fraction(1, 3))),
}


def small(**changes: Any) -> Plan:
    """A plan of few people, most of whom are there at noon."""
    return Plan(**{**SMALL, **changes})


def strong(**changes: Any) -> Plan:
    """Few people, whose words say their label: two days take a second."""
    words = TitleWords(per_person=40, vocabulary=2**12, signal=1.0, label_noise=0.0)
    return small(**{"people": 400, "rhythm": Rhythm(0.5), "words": words, "bins": 300, "begin": 22, **changes})


def present(plan: Plan, people: Crowd, rounds: int) -> list[Present]:
    """Who is there in the first rounds."""
    attendance = Attendance(plan, people.people)
    return [attendance.round(opening) for opening in openings(plan)[:rounds]]


@dataclass(frozen=True, eq=False)
class ByPackages:
    """A round as its packages make it."""

    tally: Tally
    state: bytes
    packages: int


def _parts(experiment: Experiment) -> int:
    assert experiment.cover is not None
    return experiment.cover.parts


def by_packages(people: Crowd, experiment: Experiment, rounds: Sequence[Present]) -> list[ByPackages]:
    """Every device makes its packages, and those that arrive are counted one by one."""
    state: State = aggregate.start(experiment)
    plan, times = people.plan, LabDice(people.plan.seed, "times")
    place = np.zeros(len(people), dtype=np.int64)
    for numbers in (people.trainers, people.testers):
        place[numbers] = np.arange(len(numbers))
    found = []
    for number, one in enumerate(rounds, start=1):
        packages: list[Package] = []
        devices = 0
        for device in np.flatnonzero(one.here).tolist():
            trains = bool(people.train[device])
            person = individual(
                people.train_rows if trains else people.test_rows,
                int(place[device]),
                int(people.people.labels[device]),
                Cohort.TRAIN if trains else Cohort.TEST,
            )
            sent = contribute(
                person,
                experiment=experiment,
                training=aggregate.training_weights(experiment, state),
                evaluation=aggregate.evaluation_weights(experiment, state),
                dice=UnsafeSeededDice(plan.device_seed, device),
                round_number=number,
            )
            if one.straggle[device] and experiment.cover is not None:
                # One request with everything, at the first throw.
                sent = sent if arrived(sent[:1], device, number, int(one.stays[device]), times) else []
            elif one.straggle[device]:
                sent = arrived(sent, device, number, int(one.stays[device]), times)
            packages += sent
            devices += bool(sent)
        tally = aggregate.empty_tally(experiment).count(packages)
        people_there = int(tally.participants.sum())
        if experiment.cover is not None:
            people_there = devices
            tally = tally.merge(
                net_cover(experiment, CoverOrigin.from_dice(plan.device_seed, number, _parts(experiment)))
            )
        if people_there >= plan.floor:
            state = aggregate.step(experiment, state, tally)
        found.append(ByPackages(tally, state.to_bytes(), len(packages)))
    return found
