"""The same network trained on whole, real-valued gradients: the upper limit, which nobody could send.

Same first weights, same step; everybody's exact gradient instead of coins, weights that are not rounded. A person's
real numbers would link all that it sends (docs/attacks.md, A19): this is a yardstick, not a way.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from secvm.learning.rows import BinnedRows
from secvm_lab.beyond import descent
from secvm_lab.beyond.network import Question, Shape

Floats = NDArray[np.float64]


class RealValued:
    """A network's state, and ``advance`` by one round over everybody."""

    def __init__(
        self, question: Question, rule: descent.Step, rows: BinnedRows, labels: NDArray[np.int64], *, seed: bytes
    ) -> None:
        self.question = question
        self._rule = rule
        self._x = unit_rows(rows)
        self._labels = labels
        self.state = descent.start(question, rule, seed)

    def advance(self) -> None:
        direction = mean_update(self.question, self.state.weights, self._x, self._labels)
        self.state = descent.step(self._rule, self.state, direction)

    def predict(self, x: sp.csr_matrix) -> NDArray[np.int64]:
        """The label that wins, of each row of ``unit_rows``."""
        _, scores = passes(self.question.shape, self.state.average, x)
        if self.question.shape.outputs == 1:
            return np.asarray(scores[:, 0] >= 0, dtype=np.int64)
        return np.asarray(np.argmax(scores, axis=1), dtype=np.int64)


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
    """Each person's hinge, times the weight of its label."""
    _, scores = passes(question.shape, parameters, x)
    _, margins = _rivals(scores, labels)
    return np.asarray(question.weights_of_labels[labels] * np.maximum(0.0, 1.0 - margins), dtype=np.float64)


def mean_update(question: Question, parameters: Floats, x: sp.csr_matrix, labels: NDArray[np.int64]) -> Floats:
    """Minus the gradient of the mean loss."""
    z, scores = passes(question.shape, parameters, x)
    rivals, margins = _rivals(scores, labels)
    weights = question.weights_of_labels[labels].astype(np.float64)
    violators = np.where(margins < 1.0, weights, 0.0)
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
    return np.asarray(np.concatenate([part.ravel() for part in parts]) / weights.sum())


def _rivals(scores: Floats, labels: NDArray[np.int64]) -> tuple[NDArray[np.int64] | None, Floats]:
    """The strongest rival of each person's label, none for two labels, and the margin."""
    if scores.shape[1] == 1:
        return None, (2 * labels - 1) * scores[:, 0]
    everybody = np.arange(len(labels))
    others = scores.copy()
    others[everybody, labels] = -np.inf
    rivals = np.argmax(others, axis=1)
    return rivals, scores[everybody, labels] - scores[everybody, rivals]
