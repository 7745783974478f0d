"""Ways to train on the same people: the linear model, the network by packages, and the network nobody could send.

A way advances by a round, says how many packages everybody sent together, and predicts.

*The network nobody could send* is trained on whole, real-valued gradients: the upper limit. Same first weights, same
step; everybody's exact gradient instead of coins, weights that are not rounded. A person's real numbers would link all
that it sends (docs/attacks.md, A19): this is a yardstick, not a way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Protocol

import numpy as np
import scipy.sparse as sp
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

Floats = NDArray[np.float64]


def unit_rows(rows: BinnedRows) -> sp.csr_matrix:
    """Rows of length one; an empty one stays empty. The bias is not among them."""
    squares = np.maximum(1, rows.squared_norms - 1)
    scales = np.repeat(1.0 / np.sqrt(squares.astype(np.float64)), np.diff(rows.indptr))
    return sp.csr_matrix((rows.values * scales, rows.bins, rows.indptr), shape=(len(rows), rows.n_bins))


def passes(shape: Shape, parameters: Floats, x: sp.csr_matrix) -> tuple[Floats, Floats]:
    """z, people x units, and s, people x outputs."""
    from_words, hidden_biases, to_outputs, output_biases = shape.blocks(parameters)
    z = x @ from_words + hidden_biases
    return z, np.maximum(z, 0.0) @ to_outputs + output_biases


def losses(question: Question, parameters: Floats, x: sp.csr_matrix, labels: NDArray[np.int64]) -> Floats:
    """Each person's hinge."""
    _, scores = passes(question.shape, parameters, x)
    _, margins = _rivals(scores, labels)
    return np.asarray(np.maximum(0.0, 1.0 - margins), dtype=np.float64)


def mean_update(question: Question, parameters: Floats, x: sp.csr_matrix, labels: NDArray[np.int64]) -> Floats:
    """Minus the gradient of the mean loss."""
    z, scores = passes(question.shape, parameters, x)
    rivals, margins = _rivals(scores, labels)
    violators = np.where(margins < 1.0, 1.0, 0.0)
    errors = np.zeros_like(scores)
    everybody = np.arange(len(labels))
    if rivals is None:
        errors[:, 0] = violators * (2 * labels - 1)
    else:
        errors[everybody, labels] = violators
        errors[everybody, rivals] = -violators
    _, _, to_outputs, _ = question.shape.blocks(parameters)
    slopes = np.where(z > 0, errors @ to_outputs.T, 0.0)
    parts = (x.T @ slopes, slopes.sum(axis=0), np.maximum(z, 0.0).T @ errors, errors.sum(axis=0))
    return np.asarray(np.concatenate([part.ravel() for part in parts]) / len(labels))


def _rivals(scores: Floats, labels: NDArray[np.int64]) -> tuple[NDArray[np.int64] | None, Floats]:
    """The strongest rival of each person's label, none for two labels, and the margin."""
    if scores.shape[1] == 1:
        return None, (2 * labels - 1) * scores[:, 0]
    everybody = np.arange(len(labels))
    others = scores.copy()
    others[everybody, labels] = -np.inf
    rivals = np.argmax(others, axis=1)
    return rivals, scores[everybody, labels] - scores[everybody, rivals]


#: Of the linear model's thinning; the default of swift.
RHO = 3
#: Bounds of entries for words: of a network that sends much, and of one that sends as much as the linear model or less.
MANY, FEW = 0.5, 2.0


class Way(Protocol):
    """One training under way."""

    def advance(self) -> int:
        """One round; gives the packages that everybody sent in it, together."""

    def predict(self, rows: BinnedRows) -> NDArray[np.int64]:
        """The label of each person, by the weights that predict."""


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

    def __init__(self, rows: BinnedRows, labels: NDArray[np.int64], n_labels: int, hidden: int, seed: bytes) -> None:
        del hidden
        names = tuple(str(label) for label in range(n_labels))
        self._experiment = Experiment(
            n_bins=rows.n_bins, labels=names, rule=Swift(), thinning=Thinning(rho=Fraction(RHO))
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


class RealValued:
    """The network on whole gradients: its state, and ``advance`` by one round over everybody."""

    def __init__(self, rows: BinnedRows, labels: NDArray[np.int64], n_labels: int, hidden: int, seed: bytes) -> None:
        self._question, self._rule = Question(Shape(rows.n_bins, hidden, n_labels)), descent.Step()
        self._x, self._labels = unit_rows(rows), labels
        self._state = descent.start(self._question, self._rule, seed)

    def advance(self) -> int:
        direction = mean_update(self._question, self._state.weights, self._x, self._labels)
        self._state = descent.step(self._rule, self._state, direction)
        return 0

    def predict(self, rows: BinnedRows) -> NDArray[np.int64]:
        """The label that wins."""
        _, scores = passes(self._question.shape, self._state.average, unit_rows(rows))
        if self._question.shape.outputs == 1:
            return np.asarray(scores[:, 0] >= 0, dtype=np.int64)
        return np.asarray(np.argmax(scores, axis=1), dtype=np.int64)


LINEAR = Kind("linear", sends=True, make=Linear)
REAL = Kind("network, real-valued", sends=False, make=RealValued)
NETWORK = Kind("network, packages", sends=True, make=partial(ByPackages, bound=MANY))
THINNED = Kind("network, fewer packages", sends=True, make=partial(ByPackages, bound=FEW))
KINDS = (LINEAR, REAL, NETWORK, THINNED)
