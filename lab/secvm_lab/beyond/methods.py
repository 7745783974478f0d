"""Ways to train on the same people: the linear model, the network by packages, and the network nobody could send.

A way advances by a round, says how many packages everybody sent together, and predicts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.training import OfflineTraining, Population
from secvm.learning import aggregate
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.aggregate.descent import Swift
from secvm.learning.aggregate.tally import Tally
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning
from secvm_lab.beyond import descent
from secvm_lab.beyond.crowds import Crowd, Seen, predict
from secvm_lab.beyond.network import Bounds, Question, Shape
from secvm_lab.beyond.real_valued import RealValued, unit_rows

#: Of the linear model's thinning; the default of swift.
RHO = 3
#: Bounds of entries for words: of a network that sends much, and of one that sends as much as the linear model or less.
MANY, FEW = 0.5, 2.0


class Way(Protocol):
    """One training under way."""

    def advance(self) -> int:
        """One round; gives the packages that everybody sent in it, together."""
        ...

    def predict(self, rows: BinnedRows) -> NDArray[np.int64]:
        """The label of each person, by the weights that predict."""
        ...


#: (people who train, their labels, number of labels, hidden units, seed) → a training.
Maker = Callable[[BinnedRows, NDArray[np.int64], int, int, bytes], Way]


@dataclass(frozen=True, slots=True)
class Kind:
    """A way by its name."""

    name: str
    #: Whether it could be sent: else packages are not counted.
    sends: bool
    make: Maker = field(repr=False)


class Linear:
    """SecVM as it is deployed: swift, thinned."""

    def __init__(
        self, rows: BinnedRows, labels: NDArray[np.int64], n_labels: int, hidden: int, seed: bytes, *, rho: int = RHO
    ) -> None:
        del hidden
        names = tuple(str(label) for label in range(n_labels))
        self._experiment = Experiment(
            n_bins=rows.n_bins, labels=names, rule=Swift(), thinning=Thinning(rho=Fraction(rho))
        )
        self._people = Population(rows=rows, labels=labels)
        self._training = OfflineTraining(self._experiment, seed=seed)

    def advance(self) -> int:
        return self._training.advance(self._people).packages

    def predict(self, rows: BinnedRows) -> NDArray[np.int64]:
        quick = kernels()
        weights = aggregate.evaluation_weights(self._experiment, self._training.state)
        scores = quick.scores(quick.prepare(rows), weights.mantissas, threads=1)
        return self._experiment.models.predict(scores)


class ByPackages:
    """The network by ternarised packages. It keeps its tallies: they are all that the state comes from."""

    def __init__(
        self, rows: BinnedRows, labels: NDArray[np.int64], n_labels: int, hidden: int, seed: bytes, *, bound: float
    ) -> None:
        self.question = Question(Shape(rows.n_bins, hidden, n_labels), Bounds(words=bound))
        self.rule = descent.Step()
        self.state = descent.start(self.question, self.rule, seed)
        self.tallies: list[Tally] = []
        self.seen: list[Seen] = []
        self._crowd = Crowd(self.question, rows, labels, seed=seed)

    def advance(self) -> int:
        tally, seen = self._crowd.tally(self.state.training_weights, self.state.step + 1)
        self.state = descent.step(self.rule, self.state, descent.direction(self.question, tally))
        self.tallies.append(tally)
        self.seen.append(seen)
        return int(tally.plus.sum() + tally.minus.sum())

    def predict(self, rows: BinnedRows) -> NDArray[np.int64]:
        return predict(self.question.shape, self.state.evaluation_weights, rows)


class Unsendable:
    """The network on whole gradients."""

    def __init__(self, rows: BinnedRows, labels: NDArray[np.int64], n_labels: int, hidden: int, seed: bytes) -> None:
        question = Question(Shape(rows.n_bins, hidden, n_labels))
        self._training = RealValued(question, descent.Step(), rows, labels, seed=seed)

    def advance(self) -> int:
        self._training.advance()
        return 0

    def predict(self, rows: BinnedRows) -> NDArray[np.int64]:
        return self._training.predict(unit_rows(rows))


LINEAR = Kind("linear", sends=True, make=Linear)
REAL = Kind("network, real-valued", sends=False, make=Unsendable)
NETWORK = Kind("network, packages", sends=True, make=partial(ByPackages, bound=MANY))
THINNED = Kind("network, fewer packages", sends=True, make=partial(ByPackages, bound=FEW))
KINDS = (LINEAR, REAL, NETWORK, THINNED)
