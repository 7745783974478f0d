"""Pegasos beside swift, by rounds and by packages: rounds cost everybody's day, packages cost traffic and leak.

Nothing of the engine is used here: every rule runs through ``OfflineTraining``, which counts packages. A large crowd is
cut to some of its people, and few splits are taken; the result says how many. Swift without thinning counts x / |x|,
which no package can carry, so it has no number of packages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.fitting import Evaluator
from secvm.estimator.question import ask
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning import aggregate
from secvm.learning.aggregate.descent import DescentRule, Pegasos, Swift
from secvm.learning.arithmetic import exact
from secvm.learning.losses import Loss
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning
from secvm_lab.paper.offline.models import Stored, Trained, as_json, from_json
from secvm_lab.paper.offline.results import series
from secvm_lab.paper.offline.settings import AVERAGING, Job, Parts, Sample, Settings

#: Splits, and people at most.
SPLITS = 3
MOST_PEOPLE = 20_000
#: Swift needs no more.
SWIFT_ROUNDS = 30
#: Units that are sent of a row of norm 1, on average.
RHOS = ("10", "3", "1")


@dataclass(frozen=True)
class Contestant:
    """A rule and how much of an update is sent."""

    name: str
    rho: str | None = None

    def rounds(self, settings: Settings) -> int:
        return settings.rounds if self.name == "pegasos" else min(settings.rounds, SWIFT_ROUNDS)

    def rule(self, settings: Settings) -> DescentRule:
        return Pegasos(exact(settings.lambda_), AVERAGING) if self.name == "pegasos" else Swift()

    @property
    def thinning(self) -> Thinning:
        return Thinning() if self.rho is None else Thinning(rho=exact(self.rho))


CONTESTANTS = (Contestant("pegasos"), Contestant("swift"), *(Contestant("swift", rho) for rho in RHOS))


def _jobs(settings: Settings) -> tuple[Sample, dict[tuple[Contestant, int], Job]]:
    sample = Sample(settings, MOST_PEOPLE, SPLITS, settings.rule_bins)
    jobs = {}
    for contestant in CONTESTANTS:
        rounds = contestant.rounds(settings)
        lambda_ = settings.lambda_ if contestant.name == "pegasos" else None
        for split in sample.splits:
            key = sample.key(split, lambda_, rule=[contestant.name, contestant.rho, rounds])
            jobs[contestant, split] = Job(key, split, rounds, partial(_run, settings, contestant))
    return sample, jobs


def work(settings: Settings, stored: Stored) -> int:
    """Rounds still to be run."""
    sample, jobs = _jobs(settings)
    return sample.work(jobs, stored)


def result(
    settings: Settings, labels: NDArray[np.int64], stored: Stored, advance: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Each rule's curve by rounds and packages, and what it needs to be as good as Pegasos is in its last round."""
    sample, jobs = _jobs(settings)
    found = sample.values(jobs, labels, stored, advance)
    entries: list[dict[str, Any]] = []
    tests = [settings.splits.tests[split] for split in sample.splits]
    tested = len(np.intersect1d(sample.people, np.concatenate(tests)))
    for contestant in CONTESTANTS:
        values = [found[contestant, split] for split in sample.splits]
        packages = None
        if contestant.name == "pegasos" or contestant.rho is not None:
            packages = np.mean([np.cumsum(value["packages"]) for value in values], axis=0).tolist()
        point = series([from_json(value) for value in values], labels=settings.crowd.label_names, tested=tested)
        point["curve"]["packages_per_person"] = packages
        entries.append({"rule": contestant.name, "rho": contestant.rho, **point})
    target = entries[0]["mean"]
    for point in entries:
        point["as_good_as_pegasos"] = _reached(point["curve"], target)
    return {**sample.described(), "target": target, "entries": entries}


def _reached(curve: dict[str, Any], target: float) -> dict[str, Any] | None:
    """The first round whose mean accuracy is the target's, and packages per person up to it."""
    there = np.flatnonzero(np.array(curve["mean"]) >= target)
    if not len(there):
        return None
    packages = curve["packages_per_person"]
    return {"round": int(there[0]) + 1, "packages_per_person": None if packages is None else packages[there[0]]}


def _run(
    settings: Settings, contestant: Contestant, rows: BinnedRows, labels: NDArray[np.int64], parts: Parts
) -> dict[str, Any]:
    train, test = parts
    inside = rows.take(train)
    experiment = ask(
        inside,
        labels=settings.crowd.label_names,
        rule=contestant.rule(settings),
        loss=Loss("hinge"),
        thinning=contestant.thinning,
    )
    people = Population(rows=inside, labels=labels[train])
    training = OfflineTraining(experiment, seed=settings.seed, threads=settings.threads)
    evaluator = Evaluator(experiment, rows.take(test), threads=settings.threads)
    cells, packages = [], []
    for _ in range(contestant.rounds(settings)):
        report = training.advance(people)
        cells.append(evaluator.cells(aggregate.evaluation_weights(experiment, training.state), labels[test]))
        packages.append(report.packages / len(train))
    trained = Trained(np.stack(cells), tuple(training.two_cycle.spells))
    return {**as_json(trained), "packages": packages}
