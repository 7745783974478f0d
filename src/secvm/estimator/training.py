"""OfflineTraining: the rounds of an experiment over people held in memory, many at once.

The tallies are those of ``learning.individual.contribution``, package by package, computed by kernels instead: the same
state bytes come out (tested). It takes the same dice, cohorts, budget and attendance as a deployment.

One round:

 1. Who is here? Train people who attend. Fewer than the floor: the round is abandoned, its number is spent.
 2. Training weights from the state; integer scores of all who are here.
 3. Bands from loss, labels, coins and norms; verdicts +1, 0, -1.
 4. The tally: whole, thinned, or in fixed point; people above the budget package by package; cover on top. With two
    relays' cover that is a *net* tally: the opened parts are off.
 5. The experiment's step. If cover hides that anybody was there, or does not explain a count, the round is abandoned.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.estimator.round_cover import CoverOrigins, net_cover, simulated_origins
from secvm.learning import aggregate
from secvm.learning._kernels import vectorised
from secvm.learning._kernels.dispatch import Kernels, Name, kernels
from secvm.learning._kernels.reference import Thinned
from secvm.learning.aggregate.convergence import TwoCycle
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.contribution import Individual, train_packages
from secvm.learning.individual.dice import DRAW_BITS, Purpose, UnsafeSeededDice, dice_keys
from secvm.learning.individual.update import bands, fixed_epsilon, fixed_norm, verdicts
from secvm.learning.rows import BinnedRows
from secvm.learning.weights import Weights

#: What is added to a tally before the step of this number, counted from 1, where a trusted server adds noise.
AddNoise = Callable[[Tally, int], Tally]
#: Who attends a round: a function of the round number, counted from 1, to a boolean per person.
Attendance = Callable[[int], NDArray[np.bool_]]


@dataclass(frozen=True, eq=False, repr=False)
class Population:
    """People in memory. Secret: it does not print itself."""

    rows: BinnedRows
    #: Index of each person's label; zeros when the label is a number.
    labels: NDArray[np.int64]
    #: Fixed targets (``update.fixed_target``) when the label is a number.
    targets: NDArray[np.int64] | None = None
    #: How often each person counts; None: once.
    multiplicity: NDArray[np.int64] | None = None
    #: The number each person throws its dice under; None: 0, 1, 2, …
    participants: NDArray[np.int64] | None = None
    #: True for the train cohort; None: all.
    train: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class TrainingRound:
    """What became of one round."""

    number: int
    abandoned: bool
    #: Train packages sent by all devices together: with their cover, where devices add it.
    packages: int
    participants: int
    #: Per model, how many people sent an update for the positive and for the negative side.
    violators: tuple[tuple[int, int], ...] = ()


class OfflineTraining:
    """An experiment's state, and ``advance`` to go on by one round."""

    def __init__(
        self,
        experiment: Experiment,
        *,
        seed: bytes = b"",
        threads: int = 1,
        kernel: Name | None = None,
        floor: int = 1,
        origins: CoverOrigins | None = None,
        noise: AddNoise | None = None,
    ) -> None:
        """``origins``: where two relays' cover comes from; None: from the people's seed."""
        self.experiment = experiment
        self.state = aggregate.start(experiment)
        #: Rounds begun so far, abandoned ones included.
        self.round_number = 0
        self.packages_sent = 0
        self.two_cycle = TwoCycle()
        #: Of the last round that was counted; with two relays' cover also where nothing was learnt from it.
        self.tally: Tally | None = None
        self._seed = seed
        # More threads than processors only wait for each other.
        self._threads = min(threads, os.cpu_count() or 1)
        self._kernels: Kernels = kernels(kernel)
        self._floor = floor
        self._origins = origins
        self._noise = noise
        if origins is None and experiment.cover is not None:
            self._origins = simulated_origins(experiment, seed)
        self._prepared: PreparedPopulation | None = None

    def advance(
        self, people: Population, attendance: Attendance | None = None, *, devices: int | None = None
    ) -> TrainingRound:
        """One round over these people.

        ``devices``: M, where others than those who train send too; with two relays' cover it decides whether a round is
        stepped (docs/protocol.md §31).
        """
        self.round_number += 1
        prepared = self._prepare(people)
        here = np.ones(len(people), dtype=np.bool_) if people.train is None else people.train.copy()
        if attendance is not None:
            here &= attendance(self.round_number)
        if people.multiplicity is not None:
            here &= people.multiplicity > 0
        n_here = int(here.sum())
        devices = n_here if devices is None else devices
        if self.experiment.cover is None and n_here < self._floor:  # (1)
            return TrainingRound(self.round_number, abandoned=True, packages=0, participants=n_here)
        weights = aggregate.training_weights(self.experiment, self.state)  # (2)
        signs = prepared.verdicts(weights, self.round_number, here)  # (3)
        tally, packages = prepared.tally(weights, signs, self.round_number, here)  # (4)
        if self.experiment.cover is not None and self._origins is not None:
            tally = tally.merge(net_cover(self.experiment, self._origins(self.round_number), self._kernels))
        self.tally = tally = self.received(tally)
        if not self._can_step(tally, devices):
            return TrainingRound(self.round_number, abandoned=True, packages=packages, participants=n_here)
        shown = tally if self._noise is None else self._noise(tally, self.state.step + 1)
        self.state = aggregate.step(self.experiment, self.state, shown)  # (5)
        self.packages_sent += packages
        self.two_cycle.watch(shown, self.round_number)
        sides = zip((signs > 0).sum(axis=0).tolist(), (signs < 0).sum(axis=0).tolist(), strict=True)
        return TrainingRound(
            self.round_number, abandoned=False, packages=packages, participants=n_here, violators=tuple(sides)
        )

    def _can_step(self, tally: Tally, devices: int) -> bool:
        """Whether enough devices sent, and cover leaves somebody to learn from and explains every count (§31)."""
        cover = self.experiment.cover
        if cover is None:
            return True
        if devices < self._floor or not aggregate.explains(cover, tally, devices):
            return False
        return bool(aggregate.uncovered(cover, tally).participants.any())

    def received(self, tally: Tally) -> Tally:
        """What reaches the coordinator, where these people sent this much. In a lab others send too."""
        return tally

    def _prepare(self, people: Population) -> PreparedPopulation:
        if self._prepared is None or self._prepared.people is not people:
            self._prepared = PreparedPopulation(self.experiment, people, self._kernels, self._seed, self._threads)
        return self._prepared


class PreparedPopulation:
    """What of a population does not change from round to round, and the two halves of a round: verdicts and tally."""

    def __init__(self, experiment: Experiment, people: Population, kernel: Kernels, seed: bytes, threads: int) -> None:
        if people.rows.n_bins != experiment.n_bins:
            raise BadInputError("the people were binned for another number of bins")
        if people.multiplicity is not None and experiment.thinning.active:
            raise BadInputError("sample weights and thinning do not go together: a package is sent once or not at all")
        if people.multiplicity is not None and experiment.budget is not None:
            raise BadInputError("sample weights and a budget do not go together: a budget counts one person's packages")
        if experiment.cover is not None and people.multiplicity is not None:
            raise BadInputError("sample weights and cover do not go together: the guarantee is about one unit")
        if experiment.cover is not None and (people.rows.values != 1).any():
            raise BadInputError("with cover a person has one unit in a bin, or none")
        self.people = people
        self._experiment = experiment
        self._kernels = kernel
        self._seed = seed
        self._threads = threads
        self._laid_out = kernel.prepare(people.rows)
        n = len(people)
        self._ids = np.arange(n, dtype=np.int64) if people.participants is None else people.participants
        self._norms = None
        if experiment.rule.normalised:
            self._norms = np.array([fixed_norm(s) for s in people.rows.squared_norms.tolist()], dtype=np.int64)
        self._keep53 = experiment.thinning.keep53(people.rows.squared_norms.tolist())
        self._thin_keys = dice_keys(seed, self._ids, Purpose.THINNING) if experiment.thinning.active else None
        self._coin_keys = dice_keys(seed, self._ids, Purpose.COIN) if experiment.loss.tosses_coins else None
        self._once = np.ones(n, dtype=np.int64) if people.multiplicity is None else people.multiplicity
        self._row_weights = self._once
        if experiment.fixed_point_rows:
            inverse = (np.float64(2**32) / np.sqrt(people.rows.squared_norms.astype(np.float64))).astype(np.int64)
            self._row_weights = self._once * inverse

    def verdicts(self, weights: Weights, round_number: int, here: NDArray[np.bool_]) -> NDArray[np.int8]:
        """People x models: the sign of each person's update."""
        models, loss, people = self._experiment.models, self._experiment.loss, self.people
        label_signs = models.signs[people.labels]
        if weights.first:
            first = label_signs if not loss.regression else np.sign(self._targets())[:, None].astype(np.int8)
            return np.where(here[:, None], first, 0).astype(np.int8)
        scores = self._kernels.scores(self._laid_out, weights.mantissas, threads=self._threads)
        out = np.zeros(scores.shape, dtype=np.int8)
        width = fixed_epsilon(loss, self._experiment.target_spread) if loss.regression else 0
        for model in range(models.n_models):
            thresholds = self._targets() if loss.regression else loss.thresholds(self._coins(round_number, model))
            lower, upper = bands(thresholds=thresholds, width=width, norms=self._norms, unit=weights.unit)
            signs = None if loss.regression else label_signs[:, model]
            out[:, model] = verdicts(scores[:, model], signs, lower, upper)
        out[~here] = 0
        return out

    def tally(
        self, weights: Weights, signs: NDArray[np.int8], round_number: int, here: NDArray[np.bool_]
    ) -> tuple[Tally, int]:
        """The round's tally and the number of packages behind it."""
        participants = np.zeros(len(self._experiment.labels), dtype=np.int64)
        np.add.at(participants, self.people.labels[here], self._once[here])
        # Whose update exceeds the budget is trimmed: those few are done package by package.
        budget = self._experiment.train_budget
        most = np.iinfo(np.int64).max if budget is None else budget
        if self._thin_keys is not None:
            plus, minus, units = self._thinned(np.arange(len(signs)), signs, self._thin_keys, round_number)
            trimmed = np.flatnonzero(units > most)
            if trimmed.size:
                theirs_plus, theirs_minus, _ = self._thinned(trimmed, signs, self._thin_keys, round_number)
                plus, minus = plus - theirs_plus, minus - theirs_minus
        else:
            units = np.abs(signs).sum(axis=1, dtype=np.int64) * self.people.rows.units
            trimmed = np.flatnonzero(units > most)
            kept = np.where((units <= most)[:, None], signs, 0) if trimmed.size else signs
            coefficients = self._weighted(kept * self._row_weights[:, None])
            plus, minus = self._kernels.tally(self._laid_out, coefficients, threads=self._threads)
        packages = int(units.sum() - units[trimmed].sum())
        cells = np.zeros((len(participants), len(participants)), dtype=np.int64)
        tally = Tally(plus=plus, minus=minus, participants=participants, cells=cells)
        for i in trimmed.tolist():
            sent = train_packages(
                self._individual(i),
                experiment=self._experiment,
                training=weights,
                dice=UnsafeSeededDice(self._seed, int(self._ids[i])),
                round_number=round_number,
            )
            packages += len(sent)
            tally = tally.count(sent)
        return tally, packages

    def _weighted(self, coefficients: NDArray[np.int64]) -> NDArray[np.int64]:
        if not self._experiment.weighted_updates:
            return coefficients
        by_label, (positive, negative) = self._experiment.update_weights
        weighted = coefficients * np.array(by_label, dtype=np.int64)[self.people.labels][:, None]
        return np.where(weighted > 0, weighted * positive, weighted * negative)

    def _thinned(
        self, some: NDArray[np.int64], signs: NDArray[np.int8], keys: NDArray[np.uint64], round_number: int
    ) -> Thinned:
        """What some people send of their updates, before any budget."""
        rows = self.people.rows if len(some) == len(signs) else self.people.rows.take(some)
        return self._kernels.thinned_tally(
            rows, signs[some], keys[some], self._keep53[some], round_number, threads=self._threads
        )

    def _individual(self, i: int) -> Individual:
        rows = self.people.rows
        row = slice(int(rows.indptr[i]), int(rows.indptr[i + 1]))
        values = dict(zip(rows.bins[row].tolist(), rows.values[row].tolist(), strict=True))
        target = 0 if self.people.targets is None else int(self.people.targets[i])
        vector = BinnedVector(values=values, n_bins=rows.n_bins)
        return Individual(vector=vector, label=int(self.people.labels[i]), target=target)

    def _targets(self) -> NDArray[np.int64]:
        if self.people.targets is None:
            raise BadInputError("a loss for numbers needs numbers as labels")
        return self.people.targets

    def _coins(self, round_number: int, model: int) -> NDArray[np.int64]:
        if self._coin_keys is None:
            return np.zeros(len(self.people), dtype=np.int64)
        words = vectorised.dice_words(self._coin_keys, round_number, model, 0)
        return (words >> np.uint64(64 - DRAW_BITS)).astype(np.int64)
