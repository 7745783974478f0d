"""Replay: an experiment's rounds offline, over all its people: the same people, dice and attendance, so the same bytes.

With two relays' cover, ``origins`` has what the openings of a federation's rounds say of it, from which its parts are
derived again (``estimator.round_cover``); without, cover is drawn from the people's seed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.fitting import Evaluator
from secvm.estimator.round_cover import CoverOrigins
from secvm.estimator.training import OfflineTraining, Population
from secvm.learning import aggregate
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.weights import Weights


@dataclass(frozen=True, eq=False)
class ReplayedRound:
    """A round as it should have been."""

    number: int
    #: None: abandoned. With two relays' cover a round is counted also where nothing is learnt from it.
    tally: Tally | None
    #: Packages of everybody who was there.
    packages: int
    violators: tuple[tuple[int, int], ...]
    #: Whether a step was taken.
    learnt: bool


class Replay:
    """The experiment's rounds over everybody who took part."""

    def __init__(
        self,
        experiment: Experiment,
        people: Population,
        *,
        dice_seed: bytes,
        floor: int,
        origins: CoverOrigins | None = None,
    ) -> None:
        assert people.train is not None
        self.experiment = experiment
        self.people = people
        self._training = OfflineTraining(experiment, seed=dice_seed, floor=floor, origins=origins)
        self._testers = np.flatnonzero(~people.train)
        self.rounds: list[ReplayedRound] = []
        #: What devices compared themselves with, round by round.
        self.training_weights: list[Weights] = []

    @property
    def state(self) -> bytes:
        """The bytes of the state after the last round."""
        return self._training.state.to_bytes()

    def advance(self, here: NDArray[np.bool_]) -> ReplayedRound:
        """One more round, with these people."""
        weights = self.evaluation_weights
        self.training_weights.append(aggregate.training_weights(self.experiment, self._training.state))
        report = self._training.advance(self.people, lambda _: here, devices=int(here.sum()))
        tally = None
        if not report.abandoned or self.experiment.cover is not None:
            assert self._training.tally is not None
            tested = self._testers[here[self._testers]]
            cells = np.zeros_like(self._training.tally.cells)
            if len(tested):
                evaluator = Evaluator(self.experiment, self.people.rows.take(tested))
                cells = evaluator.cells(weights, self.people.labels[tested])
            tally = replace(self._training.tally, cells=self._training.tally.cells + cells)
        budget = self.experiment.budget or 0
        self.rounds.append(
            ReplayedRound(
                report.number,
                tally,
                packages=int(here.sum()) * budget,
                violators=report.violators,
                learnt=not report.abandoned,
            )
        )
        return self.rounds[-1]

    @property
    def evaluation_weights(self) -> Weights:
        """By which people are predicted after the last round."""
        return aggregate.evaluation_weights(self.experiment, self._training.state)
