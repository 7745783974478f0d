"""Small networks and people for tests."""

import numpy as np
from numpy.typing import NDArray

from secvm.learning.aggregate.tally import Tally
from secvm.learning.individual.binning import BinnedVector
from secvm.learning.individual.dice import UnsafeSeededDice
from secvm.learning.rows import BinnedRows
from secvm_lab.beyond.network import Bounds, Question, Shape, quantised
from tests.rigs.network_device import packages

BINS = 12


def some_rows(rng: np.random.Generator, n: int, *, largest: int = 3, empty: bool = True) -> BinnedRows:
    """People with some bins each, values of both signs."""
    dense = rng.integers(-largest, largest + 1, (n, BINS)) * (rng.random((n, BINS)) < 0.5)
    if not empty:
        dense[:, 0] = 1
    people, bins = np.nonzero(dense)
    indptr = np.searchsorted(people, np.arange(n + 1)).astype(np.int64)
    return BinnedRows(indptr, bins.astype(np.int32), dense[people, bins].astype(np.int32), BINS)


def vector(rows: BinnedRows, i: int) -> BinnedVector:
    row = slice(rows.indptr[i], rows.indptr[i + 1])
    return BinnedVector(dict(zip(rows.bins[row].tolist(), rows.values[row].tolist(), strict=True)), rows.n_bins)


def some_question(n_labels: int, hidden: int = 4) -> Question:
    return Question(Shape(BINS, hidden, n_labels), Bounds(0.3, 0.8, 1.5, 2.0))


def some_weights(rng: np.random.Generator, question: Question, *, coarse: bool = False) -> NDArray[np.int32]:
    """Weights; coarse ones are multiples of a half, so that scores land exactly on margins and kinks."""
    drawn = rng.normal(0.0, 0.7, question.shape.n_parameters)
    return quantised(np.rint(2 * drawn) / 2 if coarse else drawn)


def package_by_package(
    question: Question,
    weights: NDArray[np.int32],
    rows: BinnedRows,
    labels: NDArray[np.int64],
    seed: bytes,
    round_: int,
) -> Tally:
    """A round as devices have it."""
    shape = question.shape
    tally = Tally.empty(n_models=1, n_bins=shape.n_parameters - 1, n_labels=shape.n_labels)
    for i, label in enumerate(labels.tolist()):
        dice = UnsafeSeededDice(seed, i)
        tally = tally.count(packages(question, weights, vector(rows, i), label, dice=dice, round_number=round_))
    return tally
