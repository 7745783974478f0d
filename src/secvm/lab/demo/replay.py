"""The same experiment once more, offline: the same people, dice and attendance, and so the same bytes.

What the federation counted is compared with this, tally by tally. It is also where the demonstration learns what a
coordinator cannot know: how many devices sent an update, which the leakage of labels depends on.

With cover every device's round is played package by package, as a device does it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.fitting import Evaluator
from secvm.estimator.training import OfflineTraining, Population
from secvm.lab.demo.result import Leakage
from secvm.learning.aggregate.descent import State
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.contribution import Individual, contribute
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.package import Cohort, Package
from secvm.learning.thinning import ALWAYS
from secvm.privacy.label_leakage import law


@dataclass(frozen=True, eq=False)
class ReplayedRound:
    """A round as it should have been."""

    number: int
    #: None: abandoned.
    tally: Tally | None
    #: Packages of everybody who was there.
    packages: int
    violators: tuple[tuple[int, int], ...]


class Replay:
    """The experiment's rounds over everybody who took part."""

    def __init__(
        self,
        experiment: Experiment,
        people: Population,
        *,
        dice_seed: bytes,
        floor: int,
        further: Evaluator,
        further_codes: NDArray[np.int64],
    ) -> None:
        assert people.train is not None
        self.experiment = experiment
        self._people = people
        self._training = OfflineTraining(experiment, seed=dice_seed, floor=floor)
        self._covered = None if experiment.cover is None else _Covered(experiment, people, dice_seed, floor)
        self._testers = np.flatnonzero(~people.train)
        self._further, self._further_codes = further, further_codes
        self.rounds: list[ReplayedRound] = []

    @property
    def state(self) -> bytes:
        """The bytes of the state after the last round."""
        return self._state.to_bytes()

    @property
    def _state(self) -> State:
        return self._training.state if self._covered is None else self._covered.state

    def advance(self, here: NDArray[np.bool_]) -> ReplayedRound:
        """One more round, with these people."""
        if self._covered is not None:
            self.rounds.append(self._covered.advance(here))
            return self.rounds[-1]
        weights = self.experiment.rule.evaluation_weights(self._training.state)
        report = self._training.advance(self._people, lambda _: here)
        tally = None
        if not report.abandoned:
            assert self._training.tally is not None
            tested = self._testers[here[self._testers]]
            cells = np.zeros_like(self._training.tally.cells)
            if len(tested):
                evaluator = Evaluator(self.experiment, self._people.rows.take(tested))
                cells = evaluator.cells(weights, self._people.labels[tested])
            tally = replace(self._training.tally, cells=cells)
        budget = self.experiment.budget or 0
        self.rounds.append(
            ReplayedRound(report.number, tally, packages=int(here.sum()) * budget, violators=report.violators)
        )
        return self.rounds[-1]

    def further_cells(self) -> NDArray[np.int64]:
        """The confusion matrix of the present model on people who took no part."""
        weights = self.experiment.rule.evaluation_weights(self._state)
        return self._further.cells(weights, self._further_codes)

    def leakage(self) -> Leakage:
        """What the tallies give away, by the law alone (docs/privacy.md); of the model that gives away most."""
        assert self._people.train is not None
        norms = self._people.rows.squared_norms[self._people.train].tolist()
        q = float((self.experiment.thinning.keep53(norms) / ALWAYS).mean()) if norms else 1.0
        total, summed = 0.0, []
        for one in self.rounds:
            models = [law(q=q, bins=self.experiment.n_bins, senders=sides) for sides in one.violators if any(sides)]
            total += max(models, default=0.0)
            summed.append(total)
        return Leakage(q=q, summed=tuple(summed))


class _Covered:
    """The rounds of an experiment with cover, package by package."""

    def __init__(self, experiment: Experiment, people: Population, dice_seed: bytes, floor: int) -> None:
        self.state = experiment.start()
        self._experiment, self._floor = experiment, floor
        self._devices = [(one, UnsafeSeededDice(dice_seed, number)) for number, one in enumerate(_individuals(people))]
        self._round = 0

    def advance(self, here: NDArray[np.bool_]) -> ReplayedRound:
        experiment, cover = self._experiment, self._experiment.cover
        assert cover is not None
        self._round += 1
        training = experiment.rule.training_weights(self.state)
        evaluation = experiment.rule.evaluation_weights(self.state)
        packages: list[Package] = []
        for number in np.flatnonzero(here).tolist():
            person, dice = self._devices[number]
            packages += contribute(
                person,
                experiment=experiment,
                training=training,
                evaluation=evaluation,
                dice=dice,
                round_number=self._round,
            )
        tally: Tally | None = experiment.empty_tally().count(packages)
        assert tally is not None
        if cover.people(tally.participants.tolist()) < self._floor:
            tally = None
        else:
            self.state = experiment.step(self.state, tally)
        return ReplayedRound(self._round, tally, packages=len(packages), violators=())


def _individuals(people: Population) -> Iterator[Individual]:
    assert people.train is not None
    rows = people.rows
    for number, (label, train) in enumerate(zip(people.labels.tolist(), people.train.tolist(), strict=True)):
        row = slice(int(rows.indptr[number]), int(rows.indptr[number + 1]))
        values = dict(zip(rows.bins[row].tolist(), rows.values[row].tolist(), strict=True))
        yield Individual(
            vector=BinnedVector(values=values, n_bins=rows.n_bins),
            label=label,
            cohort=Cohort.TRAIN if train else Cohort.TEST,
        )


def counted_twice(counted: Sequence[Tally | None], expected: Sequence[Tally | None]) -> int:
    """How much the federation counted beyond what was sent, summed over all rounds and cells."""
    return sum(_beyond(found, should) for found, should in zip(counted, expected, strict=True))


def missing(counted: Sequence[Tally | None], expected: Sequence[Tally | None]) -> int:
    """How much was sent and not counted, summed over all rounds and cells."""
    return sum(_beyond(should, found) for found, should in zip(counted, expected, strict=True))


def _beyond(one: Tally | None, other: Tally | None) -> int:
    if one is None:
        return 0
    fields: tuple[Any, ...] = ("plus", "minus", "participants", "cells")
    return sum(int(np.maximum(getattr(one, name) - (getattr(other, name) if other else 0), 0).sum()) for name in fields)
