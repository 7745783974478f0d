"""EngineTraining: ``OfflineTraining`` by an engine of one model, for those who train it alone.

The same rounds, reports and states; only the tally of a round is not written down.
"""

from __future__ import annotations

from secvm.errors import BadInputError
from secvm.estimator.training import Attendance, OfflineTraining, Population, TrainingRound
from secvm.learning.experiment import Experiment
from secvm_lab.engine.engine import Engine
from secvm_lab.engine.lane import why_not, why_not_single
from secvm_lab.engine.single import SingleTraining


class EngineTraining(OfflineTraining):
    """One model's rounds over people who are all there every time."""

    def __init__(self, experiment: Experiment, people: Population, *, seed: bytes = b"", threads: int = 1) -> None:
        super().__init__(experiment, seed=seed, threads=threads)
        self._trained_on = people
        train = None if people.train is None else people.train[:, None]
        self._engine = Engine(people.rows, people.labels, [experiment], train=train, threads=threads)
        self._present = len(people) if people.train is None else int(people.train.sum())

    def advance(
        self, people: Population, attendance: Attendance | None = None, *, devices: int | None = None
    ) -> TrainingRound:
        """One round over the people it was made for."""
        if people is not self._trained_on or attendance is not None or devices is not None:
            raise BadInputError("an engine trains on all the people it was made for; use OfflineTraining for others")
        found = self._engine.advance()
        self.round_number += 1
        self.state = self._engine.state(0)
        self.two_cycle = self._engine.two_cycles[0]
        packages = int(people.rows.units[self._engine.violates(0)].sum())
        self.packages_sent += packages
        return TrainingRound(
            self.round_number,
            abandoned=False,
            packages=packages,
            participants=self._present,
            violators=found.violators,
        )


def quickest(experiment: Experiment, people: Population, *, seed: bytes, threads: int) -> OfflineTraining | None:
    """The training of one model that reads people least; None: neither can do what is asked."""
    if why_not(experiment) is None:
        return EngineTraining(experiment, people, seed=seed, threads=threads)
    if why_not_single(experiment) is None:
        return SingleTraining(experiment, people, seed=seed, threads=threads)
    return None
