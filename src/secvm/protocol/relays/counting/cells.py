"""Cells of all kinds, numbered through: train, participation, test (docs/protocol.md §26, §31).

    train            model · (bins + 1) · 2 + bin · 2 + (0 for +1, 1 for −1), the bias bin last
    participation    cohort · labels + label, cohort 0 train, 1 test
    test             true · labels + predicted; none where the label is a number

A null package is in no cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.errors import LocalProtocolError
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, TestPackage, TrainPackage

_COHORTS = (Cohort.TRAIN, Cohort.TEST)


@dataclass(frozen=True, slots=True)
class Cells:
    """How many cells an experiment has of each kind, and which package is in which."""

    models: int
    #: Without the bias.
    bins: int
    labels: int
    #: False where the label is a number.
    tested: bool

    @classmethod
    def of(cls, experiment: Experiment) -> Cells:
        """Those of an experiment."""
        tested = not experiment.loss.regression
        return cls(experiment.models.n_models, experiment.n_bins, len(experiment.labels), tested)

    @property
    def train(self) -> int:
        """Train cells; the first participation cell has this number."""
        return self.models * (self.bins + 1) * 2

    @property
    def participation(self) -> int:
        """Participation cells."""
        return len(_COHORTS) * self.labels

    @property
    def test(self) -> int:
        """Test cells."""
        return self.labels**2 if self.tested else 0

    @property
    def count(self) -> int:
        """All of them."""
        return self.train + self.participation + self.test

    def cell_of(self, package: Package) -> int | None:
        """The cell of a package that belongs to the experiment; None for a null."""
        match package:
            case TrainPackage(model=model, bin_index=bin_index, sign=sign):
                return (model * (self.bins + 1) + bin_index) * 2 + (0 if sign == 1 else 1)
            case ParticipationPackage(cohort=cohort, class_index=label):
                return self.train + _COHORTS.index(cohort) * self.labels + label
            case TestPackage(true_class=true, predicted_class=predicted):
                return self.train + self.participation + true * self.labels + predicted
            case NullPackage():
                return None

    def package_of(self, cell: int) -> Package:
        """The package that is in a cell."""
        if not 0 <= cell < self.count:
            raise LocalProtocolError(f"there is no cell {cell} among {self.count}")
        if cell < self.train:
            bins, minus = divmod(cell, 2)
            model, bin_index = divmod(bins, self.bins + 1)
            return TrainPackage(model=model, bin_index=bin_index, sign=-1 if minus else 1)
        first, second = divmod(cell - self.train, self.labels)
        if cell < self.train + self.participation:
            return ParticipationPackage(cohort=_COHORTS[first], class_index=second)
        return TestPackage(true_class=first - len(_COHORTS), predicted_class=second)

    def tally(self, counts: NDArray[np.int64]) -> Tally:
        """The tally of so many packages per cell. Participation of the test cohort stands in none."""
        if counts.shape != (self.count,):
            raise LocalProtocolError(f"counts of {self.count} cells are needed, and these are {len(counts)}")
        tally = Tally.empty(n_models=self.models, n_bins=self.bins, n_labels=self.labels)
        signs = counts[: self.train].reshape(self.models, self.bins + 1, 2)
        tally.plus[:], tally.minus[:] = signs[..., 0], signs[..., 1]
        tally.participants[:] = counts[self.train : self.train + self.labels]
        if self.tested:
            tally.cells[:] = counts[self.train + self.participation :].reshape(self.labels, self.labels)
        return tally
