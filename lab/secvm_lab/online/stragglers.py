"""What arrives of devices that go away within a round's window.

The specification is ``arrived``: of a device's packages, in the order of ``individual.contribution``, package k has the
k-th throw as its time, and arrives if that is before the device goes. ``Stragglers.tally`` counts the same of many
devices at once (tested); above the budget a device's packages are made one by one. With two
relays' cover a device sends all of them in one request, at the first throw (``Stragglers.whole``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from secvm.learning import aggregate
from secvm.learning._kernels.vectorised import siphash24_words
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.contribution import Individual, contribute
from secvm.learning.individual.dice import DRAW_BITS, Purpose, UnsafeSeededDice, dice_keys
from secvm.learning.package import Cohort, Package
from secvm.learning.rows import BinnedRows
from secvm.learning.weights import Weights
from secvm_lab.online.population.attendance import Present
from secvm_lab.online.population.dice import ONE, LabDice

_ROUND_BITS, _MODEL_BITS = 44, 32


def arrived(packages: Sequence[Package], device: int, round_number: int, stays: int, times: LabDice) -> list[Package]:
    """Those packages of a device that were due before it went away."""
    numbers = np.arange(len(packages), dtype=np.int64)
    due = times.throw(np.full(len(packages), device), round_number, numbers)
    return [package for package, at in zip(packages, due.tolist(), strict=True) if at < stays]


class Stragglers:
    """Train people who go away; ``tally`` counts what arrives of them in a round."""

    def __init__(
        self, experiment: Experiment, rows: BinnedRows, ids: NDArray[np.int64], *, seed: bytes, lab: int
    ) -> None:
        self._experiment, self._rows, self._ids, self._seed = experiment, rows, ids, seed
        self._times = LabDice(lab, "times")

    def told(self, round_number: int, who: NDArray[np.int64], stays: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Of whom (by number) the participation package arrives: it is the first."""
        return np.asarray(self._times.throw(who, round_number, 0) < stays)

    def tested(self, round_number: int, who: NDArray[np.int64], stays: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Of which test people the test package arrives: it is the second."""
        return np.asarray(self._times.throw(who, round_number, 1) < stays)

    def whole(self, round_number: int, present: Present) -> Present:
        """Devices whose one request is sent, as if they stayed."""
        leaving = np.flatnonzero(present.straggle)
        here = present.finish
        here[leaving] = self.told(round_number, leaving, present.stays[leaving])
        return Present(here, np.full_like(present.stays, ONE))

    def units(
        self, round_number: int, places: NDArray[np.int64], signs: NDArray[np.int8], stays: NDArray[np.int64]
    ) -> tuple[Tally, NDArray[np.int64]]:
        """Units that arrive of train people at these places of the rows, and the places left to ``one_by_one``.

        ``signs`` is people x models, ``stays`` the share of the window for which each of them is there.
        """
        experiment = self._experiment
        some = self._rows.take(places)
        owner, bins, value_signs, unit = _units(some)
        counted = aggregate.empty_tally(experiment)
        passed = np.zeros(len(places), dtype=np.int64)
        keep = experiment.thinning.keep53(some.squared_norms.tolist())
        keys = dice_keys(self._seed, self._ids[places], Purpose.THINNING) if experiment.thinning.active else None
        kept_by_model = []
        for model in range(experiment.models.n_models):
            kept = signs[owner, model] != 0
            if keys is not None:
                counter = np.uint64(round_number << _ROUND_BITS | model << _MODEL_BITS)
                words = siphash24_words(keys[owner], counter + unit.astype(np.uint64)) >> np.uint64(64 - DRAW_BITS)
                kept &= words.astype(np.int64) < keep[owner]
            kept_by_model.append(kept)
        sent = sum((np.bincount(owner[kept], minlength=len(places)) for kept in kept_by_model), passed)
        budget = experiment.train_budget
        above = sent > budget if budget is not None else np.zeros(len(places), dtype=np.bool_)
        for model, wanted in enumerate(kept_by_model):
            kept = wanted & ~above[owner]
            whose = owner[kept]
            # Number of each unit among those that its device sends; the participation package came first.
            rank = passed[whose] + _rank(whose, len(places)) + 1
            there = self._times.throw(self._ids[places[whose]], round_number, rank) < stays[whose]
            sign = signs[whose[there], model] * value_signs[kept][there]
            np.add.at(counted.plus[model], bins[kept][there][sign > 0], 1)
            np.add.at(counted.minus[model], bins[kept][there][sign < 0], 1)
            passed = passed + np.bincount(whose, minlength=len(places))
        return counted, places[above]

    def one_by_one(
        self,
        round_number: int,
        people: Sequence[tuple[int, Individual, int]],
        training: Weights,
        evaluation: Weights,
    ) -> list[Package]:
        """What arrives of (number, person, share of the window) devices, each package made."""
        found: list[Package] = []
        for number, person, stays in people:
            packages = contribute(
                person,
                experiment=self._experiment,
                training=training,
                evaluation=evaluation,
                dice=UnsafeSeededDice(self._seed, number),
                round_number=round_number,
            )
            found += arrived(packages, number, round_number, stays, self._times)
        return found


def individual(rows: BinnedRows, place: int, label: int, cohort: Cohort) -> Individual:
    """One person of the rows, as a device holds it."""
    row = slice(int(rows.indptr[place]), int(rows.indptr[place + 1]))
    values = dict(zip(rows.bins[row].tolist(), rows.values[row].tolist(), strict=True))
    return Individual(vector=BinnedVector(values=values, n_bins=rows.n_bins), label=label, cohort=cohort)


def _units(
    rows: BinnedRows,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int8], NDArray[np.int64]]:
    """Owner, bin, sign of the value and number of every unit: through a person's bins, the bias last."""
    n = len(rows)
    lengths = np.diff(rows.indptr)
    # The bias of each row at the end of it.
    bins = np.insert(rows.bins.astype(np.int64), rows.indptr[1:], rows.n_bins)
    values = np.insert(rows.values.astype(np.int64), rows.indptr[1:], 1)
    owner = np.repeat(np.arange(n), lengths + 1)
    times = np.abs(values)
    owner, bins, signs = np.repeat(owner, times), np.repeat(bins, times), np.repeat(np.sign(values), times)
    return owner, bins, signs.astype(np.int8), _rank(owner, n)


def _rank(owner: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """The place of each entry among its owner's, owners ascending."""
    counts = np.bincount(owner, minlength=n)
    return np.asarray(np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts), dtype=np.int64)
