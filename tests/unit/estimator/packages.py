"""A deployment without its network: every person's packages, one by one, in any order, some of them twice."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.learning import aggregate
from secvm.learning.aggregate.descent import State
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.individual.contribution import Individual, contribute
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.package import Package, ParticipationPackage


@dataclass
class PackagePath:
    """An experiment run package by package."""

    experiment: Experiment
    people: Sequence[Individual]
    #: Seed of the people's dice.
    seed: bytes
    #: Dice of the network: order, repetition, grouping. They must not matter.
    network: random.Random

    def run(self, rounds: int, attendance: NDArray[np.bool_] | None = None) -> State:
        """The state after so many rounds."""
        state = aggregate.start(self.experiment)
        for number in range(1, rounds + 1):
            everybody = range(len(self.people))
            row = None if attendance is None else attendance[(number - 1) % len(attendance)]
            here = [i for i in everybody if row is None or row[i]]
            tally = self.tally(state, number, here)
            if not self._seen(tally).participants.any():
                continue  # abandoned: the number is spent, the state stays
            state = aggregate.step(self.experiment, state, tally)
        return state

    def _seen(self, tally: Tally) -> Tally:
        return aggregate.uncovered(self.experiment.cover, tally)

    def tally(self, state: State, number: int, here: Sequence[int]) -> Tally:
        """One round's packages, named, shuffled, sent again, told apart, counted in groups."""
        training = aggregate.training_weights(self.experiment, state)
        evaluation = aggregate.evaluation_weights(self.experiment, state)
        sent: list[tuple[int, Package]] = []
        for i in here:
            packages = contribute(
                self.people[i],
                experiment=self.experiment,
                training=training,
                evaluation=evaluation,
                dice=UnsafeSeededDice(self.seed, i),
                round_number=number,
            )
            if self.experiment.cover is None:
                assert sum(isinstance(p, ParticipationPackage) for p in packages) == 1
            if self.experiment.budget is not None:
                assert len(packages) == self.experiment.budget
            sent += [(len(sent) + k, package) for k, package in enumerate(packages)]
        sent += self.network.choices(sent, k=len(sent) // 3) if sent else []
        self.network.shuffle(sent)
        once = list(dict(sent).items())
        tallies = []
        while once:
            size = self.network.randint(1, max(1, len(once)))
            group, once = once[:size], once[size:]
            tallies.append(aggregate.empty_tally(self.experiment).count(package for _, package in group))
        self.network.shuffle(tallies)
        total = aggregate.empty_tally(self.experiment)
        for tally in tallies:
            total = total.merge(tally)
        return total
