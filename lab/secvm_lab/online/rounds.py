"""The rounds of an experiment over a population: what devices send, honest and malicious, and what becomes of it.

Malicious devices are some share of all, acting together, as in the lab's poisoning (A16). They take part when they are
there, as everybody does, and send what their plot says within the relay's quota of B packages for each. What they know
is what everybody sees, and what their own people are like.

Everything is the deployment's: verdicts and units of ``learning.individual`` by the kernels of the offline estimator,
counts of ``learning.aggregate``, the life of a round from ``protocol.round_state``. Packages are counted, not made; the
counts are those of the packages (tested), and those of a federation of the same people and dice (tested).

One round:

 1. Devices that are there take the manifest's weights: train people decide by the training weights who violates, test
    people are predicted by the evaluation weights.
 2. Those who stay send everything: one participation package each, units or a test package.
 3. Of those who go away, what was due before arrives (``stragglers``): single packages, or with two relays' cover all
    of a device or nothing, because they are sent in one request.
 4. Malicious devices send what they like, within what the relay lets through (``Malicious``); relays add their cover,
    of which the opened parts are off.
 5. The round closes. Below the floor it is abandoned, and the state stays; else the experiment takes its step. With two
    relays' cover all devices that sent count for the floor, and counts that nobody can explain are not stepped from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.estimator.fitting import Evaluator
from secvm.estimator.round_cover import CoverOrigins, net_cover, simulated_origins
from secvm.estimator.training import Population, PreparedPopulation
from secvm.learning import aggregate
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.aggregate.convergence import TwoCycle
from secvm.learning.aggregate.descent import State
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.individual.contribution import Individual
from secvm.learning.package import Cohort, Package
from secvm.learning.rows import BinnedRows
from secvm.learning.weights import Weights
from secvm.protocol.round_state import RoundEvent, RoundState, advance
from secvm_lab.attacks.poisoning.plots import PLOTS, SPREADS, Malice, guess
from secvm_lab.attacks.poisoning.poisoned import poisoned
from secvm_lab.attacks.views import ParticipantView, PublicView
from secvm_lab.online.population.attendance import Present
from secvm_lab.online.population.crowd import Crowd
from secvm_lab.online.population.dice import LabDice, threshold
from secvm_lab.online.stragglers import Stragglers, individual

#: Rounds of which they remember everything: the first, which tells the bins that say most, and the last few.
_REMEMBERED = 4


def check(plot: str, share: float) -> None:
    """Refuse a plot that there is none of, and a share that is none."""
    if plot not in PLOTS:
        known = "; ".join(f"'{name}'" for name in PLOTS)  # some have a comma in their names
        raise BadInputError(f"--attack must be one of {known}; not '{plot}'")
    if not 0 < share < 1:
        raise BadInputError("--attackers is a share: above 0 and below 1")


class Malicious:
    """The malicious devices of a population."""

    def __init__(self, people: Crowd, *, plot: str, share: float, quota: int) -> None:
        check(plot, share)
        devices = np.arange(len(people), dtype=np.int64)
        self.who: NDArray[np.bool_] = LabDice(people.plan.seed, "malicious").throw(devices) < threshold(share)
        self._plot, self._quota = plot, quota
        #: What their own people would send, and the tallies that they remember.
        self.own = _own(people, self.who)
        self.seen: list[NDArray[np.int64]] = []
        self._weights: list[NDArray[np.float64]] = []
        self._participants: list[int] = []

    def without(self, present: Present) -> Present:
        """The honest devices of a round."""
        return Present(present.here & ~self.who, present.stays)

    def poison(self, tally: Tally, present: Present, training: Weights) -> Tally:
        """The tally, with what malicious devices that are there send on top."""
        devices = int((present.here & self.who).sum())
        self._weights.append(training.values())
        public = PublicView(tuple(self.seen), tuple(self._weights), tuple(self._participants))
        view = ParticipantView(public, self._quota)
        knowing = Malice(self._plot, devices, self.own, SPREADS.get(self._plot, 0))
        return poisoned(tally, guess(view, knowing), devices, self._quota)

    def see(self, tally: Tally) -> None:
        """Read what is published of a round."""
        self.seen.append(np.stack([tally.minus, tally.plus], axis=-1))
        self._participants.append(int(tally.participants.sum()))
        kept: list[Any]
        for kept in (self.seen, self._weights, self._participants):
            del kept[1 : max(1, len(kept) - _REMEMBERED)]


def _own(people: Crowd, who: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(bins + 1) x 2: what malicious devices' own people would send without thinning, by their true label."""
    found = np.zeros((people.plan.bins + 1, 2), dtype=np.int64)
    for numbers, rows in ((people.trainers, people.train_rows), (people.testers, people.test_rows)):
        places = np.flatnonzero(who[numbers])
        labels = people.people.labels[numbers[places]]
        some: BinnedRows = rows.take(places)
        np.add.at(found, (some.bins, np.repeat(labels, np.diff(some.indptr))), some.values)
        np.add.at(found[-1], labels, 1)
    return found


@dataclass(frozen=True, eq=False)
class PlayedRound:
    """A round as the coordinator sees it, and a little that only a simulation knows."""

    number: int
    #: Where it ended.
    ended: RoundState
    #: What was counted; of an abandoned round nothing is published.
    tally: Tally
    #: Devices that took part, and those of them that went away.
    devices: int
    stragglers: int
    #: Honest ones that stayed to the end.
    steady: int
    #: Packages of devices that arrived and say something: nulls are not counted, nor what relays add.
    packages: int

    @property
    def abandoned(self) -> bool:
        return self.ended is RoundState.ABANDONED


class OnlineRounds:
    """An experiment's state, and ``play`` for one round more."""

    def __init__(
        self,
        experiment: Experiment,
        people: Crowd,
        *,
        floor: int,
        malicious: Malicious | None = None,
        origins: CoverOrigins | None = None,
    ) -> None:
        """``origins``: where two relays' cover comes from; None: from the devices' seed."""
        plan = people.plan
        self.experiment = experiment
        self.state: State = aggregate.start(experiment)
        self.number = 0
        self.two_cycle = TwoCycle()
        self._floor, self._malicious = floor, malicious
        self._labels = people.people.labels
        self._trainers, self._testers = people.trainers, people.testers
        seed = plan.device_seed
        kernel = self._kernel = kernels()
        population = Population(
            rows=people.train_rows, labels=self._labels[self._trainers], participants=self._trainers
        )
        self._train = PreparedPopulation(experiment, population, kernel, seed, plan.threads)
        self._test = Evaluator(experiment, people.test_rows, threads=plan.threads)
        self._train_rows, self._test_rows = people.train_rows, people.test_rows
        self._going = Stragglers(experiment, people.train_rows, self._trainers, seed=seed, lab=plan.seed)
        self._origins = origins
        if origins is None and experiment.cover is not None:
            self._origins = simulated_origins(experiment, seed)

    def play(self, present: Present) -> PlayedRound:
        """One round with these devices."""
        self.number += 1
        state = advance(RoundState.ANNOUNCED, RoundEvent.WINDOW_OPENED)
        training = aggregate.training_weights(self.experiment, self.state)
        evaluation = aggregate.evaluation_weights(self.experiment, self.state)
        honest = present if self._malicious is None else self._malicious.without(present)
        sending = honest if self.experiment.cover is None else self._going.whole(self.number, honest)
        tally = self._sent(sending, training, evaluation)
        devices = int(sending.here.sum()) + int((present.here & ~honest.here).sum())
        if self._malicious is not None:
            tally = self._malicious.poison(tally, present, training)  # (4)
        # Who trains tells so in a count; who tests tells it too, and nobody counts that.
        testing = int(tally.cells.sum())
        packages = int(tally.plus.sum() + tally.minus.sum()) + int(tally.participants.sum()) + 2 * testing
        if self.experiment.cover is not None and self._origins is not None:
            tally = tally.merge(net_cover(self.experiment, self._origins(self.number), self._kernel))
        state = advance(state, RoundEvent.WINDOW_CLOSED)  # (5)
        if self._can_step(tally, devices):
            self.state = aggregate.step(self.experiment, self.state, tally)
            self.two_cycle.watch(tally, self.number)
            if self._malicious is not None:
                self._malicious.see(tally)
            state = advance(advance(state, RoundEvent.FLOOR_MET), RoundEvent.MANIFEST_SIGNED)
        else:
            state = advance(state, RoundEvent.FLOOR_MISSED)
        return PlayedRound(
            number=self.number,
            ended=state,
            tally=tally,
            devices=int(present.here.sum()),
            stragglers=int(present.straggle.sum()),
            steady=int(honest.finish.sum()),
            packages=packages,
        )

    def _can_step(self, tally: Tally, devices: int) -> bool:
        """Whether the floor is met and, with two relays' cover, every count explained (docs/protocol.md §31)."""
        cover = self.experiment.cover
        if cover is None:
            return int(tally.participants.sum()) >= self._floor
        people = bool(aggregate.uncovered(cover, tally).participants.any())
        return devices >= self._floor and people and aggregate.explains(cover, tally, devices)

    def final_cells(self) -> NDArray[np.int64]:
        """The confusion matrix of the last model on all test people, there or not. No coordinator has it."""
        return self._cells(
            np.ones(len(self._testers), dtype=np.bool_),
            self._test.labels(aggregate.evaluation_weights(self.experiment, self.state)),
        ).cells

    def _sent(self, present: Present, training: Weights, evaluation: Weights) -> Tally:
        """What arrives of honest devices."""
        here, finish = present.here[self._trainers], present.finish[self._trainers]
        signs = self._train.verdicts(training, self.number, here)  # (1)
        stay = np.where(finish[:, None], signs, 0).astype(np.int8)
        tally, _ = self._train.tally(training, stay, self.number, finish)  # (2)
        predicted = self._test.labels(evaluation)
        there = present.finish[self._testers]
        leaving = present.straggle[self._testers]
        numbers = self._testers[leaving]
        there[leaving] = self._going.tested(self.number, numbers, present.stays[numbers])
        tally = tally.merge(self._cells(there, predicted))
        return self._with_stragglers(tally, present, signs, training, evaluation)  # (3)

    def _cells(self, there: NDArray[np.bool_], predicted: NDArray[np.int64]) -> Tally:
        """The test packages of these test people."""
        empty, n = aggregate.empty_tally(self.experiment), len(self.experiment.labels)
        flat = np.bincount(self._labels[self._testers][there] * n + predicted[there], minlength=n * n)
        return replace(empty, cells=flat.reshape(n, n).astype(np.int64))

    def _with_stragglers(
        self, tally: Tally, present: Present, signs: NDArray[np.int8], training: Weights, evaluation: Weights
    ) -> Tally:
        """The tally and what arrives of train people who go away."""
        places = np.flatnonzero(present.straggle[self._trainers])
        if not places.size:
            return tally
        stays = present.stays[self._trainers[places]]
        units, left_over = self._going.units(self.number, places, signs[places], stays)
        singly = np.zeros_like(present.here)
        singly[self._trainers[left_over]] = True
        vectorised = ~singly[self._trainers[places]]
        told = self._going.told(self.number, self._trainers[places], stays) & vectorised
        people = np.bincount(self._labels[self._trainers[places[told]]], minlength=len(self.experiment.labels))
        tally = tally.merge(replace(units, participants=people.astype(np.int64)))
        return tally.count(self._one_by_one(present, singly, training, evaluation))

    def _one_by_one(
        self, present: Present, who: NDArray[np.bool_], training: Weights, evaluation: Weights
    ) -> list[Package]:
        """What arrives of these devices, package by package."""
        people: list[tuple[int, Individual, int]] = []
        for numbers, rows, cohort in (
            (self._trainers, self._train_rows, Cohort.TRAIN),
            (self._testers, self._test_rows, Cohort.TEST),
        ):
            for place in np.flatnonzero(who[numbers]).tolist():
                number = int(numbers[place])
                person = individual(rows, place, int(self._labels[number]), cohort)
                people.append((number, person, int(present.stays[number])))
        return self._going.one_by_one(self.number, people, training, evaluation)
