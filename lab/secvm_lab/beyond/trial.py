"""Every way on the same splits of the same people, told by rounds and by packages.

Of each split 60 % train, 20 % choose the number of rounds, 20 % test. Choosing is fair in a deployment too: test counts
are public, a coordinator may stop by them. All ways are given the same people, the same splits and the same number of
rounds to choose from.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm_lab.beyond.methods import KINDS, LINEAR, ByPackages, Kind
from secvm_lab.beyond.problems import Parts, Problem


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over splits with its standard error; 0 for one split, of which nobody knows it."""

    value: float
    error: float
    known: bool = True

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        spread = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
        return cls(statistics.fmean(values), spread, len(values) > 1)

    def told(self, digits: int = 4) -> dict[str, float | None]:
        return {"mean": round(self.value, digits), "standard_error": round(self.error, digits) if self.known else None}


@dataclass(frozen=True, eq=False)
class Run:
    """One way on one split; arrays have one place for each round."""

    #: Accuracy on the people who choose, and on those who test.
    choose: NDArray[np.float64]
    test: NDArray[np.float64]
    #: Packages of a train person so far.
    packages: NDArray[np.float64]
    #: Shares of entries that are beyond their bound, and of violators with such an entry, over all rounds.
    entries_clipped: float = 0.0
    people_clipped: float = 0.0

    @property
    def chosen(self) -> int:
        """The first round, counted from 1, of those that did best on the people who choose."""
        return int(np.argmax(self.choose)) + 1


@dataclass(frozen=True, eq=False)
class Outcome:
    """One way over all splits of one problem."""

    kind: Kind
    runs: tuple[Run, ...]

    @property
    def accuracy(self) -> Mean:
        """On the people who test, at the chosen rounds."""
        return Mean.of(self.at_chosen("test"))

    @property
    def rounds(self) -> Mean:
        return Mean.of([float(run.chosen) for run in self.runs])

    @property
    def packages(self) -> Mean | None:
        """Packages of a person until the chosen round; none where nothing could be sent."""
        return Mean.of(self.at_chosen("packages")) if self.kind.sends else None

    def at_chosen(self, field: str) -> list[float]:
        return [float(getattr(run, field)[run.chosen - 1]) for run in self.runs]

    def ahead_of(self, other: Outcome) -> Mean:
        """How much more accurate, split by split."""
        return Mean.of([a - b for a, b in zip(self.at_chosen("test"), other.at_chosen("test"), strict=True)])

    def curve(self, field: str) -> NDArray[np.float64]:
        """The mean over splits, round by round."""
        return np.asarray(np.mean([getattr(run, field) for run in self.runs], axis=0))

    def clipped(self, field: str) -> float:
        return statistics.fmean(getattr(run, field) for run in self.runs)


def run_way(kind: Kind, problem: Problem, parts: Parts, *, rounds: int, seed: bytes) -> Run:
    """One way on one split."""
    rows, labels = problem.rows, problem.labels
    way = kind.make(rows.take(parts.train), labels[parts.train], problem.n_labels, problem.hidden, seed)
    judges = [(rows.take(part), labels[part]) for part in (parts.choose, parts.test)]
    found = np.zeros((2, rounds))
    sent = np.zeros(rounds)
    for t in range(rounds):
        sent[t] = way.advance() / len(parts.train)
        for judge, (people, truth) in enumerate(judges):
            found[judge, t] = np.mean(way.predict(people) == truth)
    entries = people_clipped = 0.0
    if isinstance(way, ByPackages):
        entries = sum(one.clipped for one in way.seen) / max(1, sum(one.entries for one in way.seen))
        people_clipped = sum(one.people_clipped for one in way.seen) / max(1, sum(one.violators for one in way.seen))
    return Run(found[0], found[1], np.cumsum(sent), entries, people_clipped)


def compare(
    problem: Problem,
    *,
    splits: int,
    rounds: int,
    seed: int,
    kinds: Sequence[Kind] = KINDS,
    advance: Callable[[int], None] | None = None,
) -> list[Outcome]:
    """All ways over all splits; ``advance`` is called with 1 after each run."""
    found: dict[str, list[Run]] = {kind.name: [] for kind in kinds}
    for split in range(splits):
        dice = f"{seed} {problem.name} {split}".encode()
        parts = Parts.drawn(len(problem.labels), dice)
        for kind in kinds:
            found[kind.name].append(run_way(kind, problem, parts, rounds=rounds, seed=dice))
            if advance is not None:
                advance(1)
    return [Outcome(kind, tuple(found[kind.name])) for kind in kinds]


def told(problem: Problem, outcomes: Sequence[Outcome]) -> dict[str, object]:
    """A problem's results as stable keys."""
    linear = next(one for one in outcomes if one.kind is LINEAR)
    return {
        "people": len(problem.labels),
        "bins": problem.rows.n_bins,
        "labels": problem.n_labels,
        "hidden": problem.hidden,
        "told": problem.told,
        "largest_label_share": round(float(np.bincount(problem.labels).max()) / len(problem.labels), 4),
        "ways": {one.kind.name: _told(one, linear) for one in outcomes},
    }


def _told(one: Outcome, linear: Outcome) -> dict[str, object]:
    packages = one.packages
    return {
        "accuracy": one.accuracy.told(),
        "ahead_of_linear": None if one is linear else one.ahead_of(linear).told(),
        "rounds": one.rounds.told(1),
        "packages_per_person": None if packages is None else packages.told(1),
        "entries_clipped": round(one.clipped("entries_clipped"), 5),
        "people_clipped": round(one.clipped("people_clipped"), 5),
        "curve": [round(float(x), 4) for x in one.curve("test")],
        "packages_curve": [round(float(x), 1) for x in one.curve("packages")] if one.kind.sends else None,
    }
