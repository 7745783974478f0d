"""A population's days, round after round, and what the test people say of the model."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from secvm.errors import BadInputError
from secvm.learning import aggregate
from secvm.learning.aggregate.scoring import score_cells
from secvm.learning.experiment import Experiment
from secvm_lab.online.population.attendance import Attendance
from secvm_lab.online.population.crowd import Crowd
from secvm_lab.online.population.plan import Plan
from secvm_lab.online.population.residents import Opening, openings
from secvm_lab.online.result import Line, Run
from secvm_lab.online.rounds import Malicious, OnlineRounds, PlayedRound, check

#: Told (rounds done, rounds in all) after each of them.
Watch = Callable[[int, int], None]
#: Told what is being done, and how much of how much is done; of none, where nobody knows.
Stage = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Attack:
    """Devices that lie."""

    plot: str
    #: Share of all devices.
    share: float = 0.01

    def __post_init__(self) -> None:
        check(self.plot, self.share)


def check_plan(plan: Plan) -> None:
    """Refuse what would be refused only after everybody was made, which may take minutes."""
    if not openings(plan):
        raise BadInputError("no round opens in these hours and days")
    if plan.data is None:
        plan.experiment()


def simulate(
    people: Crowd,
    plan: Plan | None = None,
    *,
    experiment: Experiment | None = None,
    attack: Attack | None = None,
    rounds: int | None = None,
    watch: Watch | None = None,
) -> Run:
    """All rounds of a plan over these people.

    ``plan``: another one than theirs, with other hours or another way of learning. ``experiment``: another one than the
    plan's, with cover for instance. ``rounds``: the first so many.
    """
    begun = time.monotonic()
    plan = _fitting(people, plan)
    experiment = experiment or plan.experiment(people.features)
    if experiment.cover is not None:
        people = people.one_per_bin()
    assert experiment.budget is not None
    malicious = None
    if attack is not None:
        malicious = Malicious(people, plot=attack.plot, share=attack.share, quota=experiment.budget)
    played = OnlineRounds(experiment, replace(people, plan=plan), floor=plan.floor, malicious=malicious)
    attendance = Attendance(plan, people.people)
    check_plan(plan)
    calendar = openings(plan)[:rounds]
    lines, seen = [], np.zeros((calendar[-1].day + 1, len(people)), dtype=np.bool_)
    for opening in calendar:
        present = attendance.round(opening)
        seen[opening.day] |= present.here
        lines.append(_line(experiment, opening, played.play(present)))
        if watch is not None:
            watch(opening.number, len(calendar))
    return Run(
        labels=plan.labels,
        lines=tuple(lines),
        learning=in_words(experiment),
        final=score_cells(played.final_cells()),
        state=played.state.to_bytes(),
        daily_active=tuple(seen.sum(axis=1).tolist()),
        devices=len(people),
        budget=experiment.budget,
        two_cycle=played.two_cycle.caught,
        seconds=time.monotonic() - begun,
    )


def in_words(experiment: Experiment) -> str:
    """How an experiment learns."""
    rule, thinned = experiment.rule, experiment.thinning
    told = ", ".join(f"{name} {float(Fraction(value)):g}" for name, value in rule.parameters().items())
    weights = "/".join(f"{float(weight):g}" for weight in experiment.class_weights)
    parts = [f"{rule.name} ({told})", f"class weights {weights}"]
    parts += [f"thinned by {thinned}"] if thinned.active else []
    return ", ".join(parts)


def _fitting(people: Crowd, plan: Plan | None) -> Plan:
    """The plan, with what a file has decided; its people must be these."""
    if plan is None:
        return people.plan
    plan = replace(plan, labels=people.plan.labels, rhythm=people.plan.rhythm)
    same = ("people", "words", "data", "zones", "churn", "bins", "train_share", "seed")
    if any(getattr(plan, name) != getattr(people.plan, name) for name in same):
        raise BadInputError("this plan is for other people")
    return plan


def _line(experiment: Experiment, opening: Opening, played: PlayedRound) -> Line:
    tally = played.tally
    shown = aggregate.uncovered(experiment.cover, tally)
    return Line(
        opening=opening,
        abandoned=played.abandoned,
        devices=played.devices,
        stragglers=played.stragglers,
        steady=played.steady,
        packages=played.packages,
        trained=tuple(shown.participants.tolist()),
        tested=tuple(shown.cells.sum(axis=1).tolist()),
        score=aggregate.score(experiment, tally),
        weighted_share=_weighted_share(experiment, shown.participants.tolist()),
    )


def _weighted_share(experiment: Experiment, participants: list[int]) -> float:
    """The minority's share of the training, class weights included."""
    weights = experiment.class_weights or (Fraction(1),) * len(participants)
    weighed = [count * float(weight) for count, weight in zip(participants, weights, strict=True)]
    return weighed[1] / sum(weighed) if sum(weighed) else 0.0
