"""What a baseline is: people in, a linear model out, with the guarantee that it gives.

All baselines see the same people: rows of bins, *clipped*. Whatever a person's counts are, each bin is there or not,
and at most ``contribution`` of a person's bins take part, drawn once by dice that follow from the seed alone: two
baselines with the same seed and contribution train on the very same rows. Prediction looks at every bin of a person.
Baselines that reckon in real numbers have ``UnitRows``.

Dice are numpy's, seeded: good for measuring, not for protecting anybody.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels.dispatch import kernels
from secvm.learning.arithmetic import mantissas, power_of_two
from secvm.learning.label_models import LabelModels
from secvm.learning.rows import BinnedRows
from secvm.learning.weights import Weights

Floats = NDArray[np.float64]

#: Which dice of a seed: nothing that is drawn for one purpose is drawn again for another.
CLIPPING, NOISE, PARTICIPATION, SAMPLING, GROUPS, REPORTS = range(6)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """An (ε, δ) over the whole training, of one person's data against the same person without, and whom it binds."""

    epsilon: float
    delta: float
    #: Who must be trusted, and how ε was counted: one phrase each.
    trust: str
    accounting: str


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained model."""

    name: str
    weights: Weights
    models: LabelModels
    #: None: no formal guarantee.
    guarantee: Guarantee | None = None
    #: Figures of this baseline's own, such as its noise.
    notes: dict[str, float] = field(default_factory=dict)

    def predict(self, rows: BinnedRows) -> NDArray[np.int64]:
        """The index of each person's label."""
        quick = kernels()
        return self.models.predict(quick.scores(quick.prepare(rows.present()), self.weights.mantissas))

    def evaluate(self, rows: BinnedRows, labels: NDArray[np.int64]) -> float:
        """Accuracy over these people. It is no part of any guarantee: measure on people who did not train."""
        return float((self.predict(rows) == labels).mean())


class Baseline(Protocol):
    """A way to learn from people."""

    @property
    def name(self) -> str:
        """What tables call it."""

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        """Train. Labels are 0, 1, …; all dice follow from the seed."""


def dice(seed: int, purpose: int, number: int = 0) -> np.random.Generator:
    """Seeded dice for one purpose."""
    return np.random.default_rng([seed, purpose, number])


def clipped(rows: BinnedRows, contribution: int, *, seed: int) -> BinnedRows:
    """One unit a bin, and at most ``contribution`` bins of each person, drawn once."""
    if contribution < 1:
        raise BadInputError("a person contributes one bin at least")
    lengths = np.diff(rows.indptr)
    owners = np.repeat(np.arange(len(rows)), lengths)
    # A random order inside each person; whoever stands behind place ``contribution`` is left out.
    order = np.lexsort((dice(seed, CLIPPING).random(len(rows.bins)), owners))
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order)) - np.repeat(rows.indptr[:-1], lengths)
    kept = places < contribution
    indptr = np.concatenate([[0], np.cumsum(np.minimum(lengths, contribution))]).astype(np.int64)
    bins = rows.bins[kept]
    return BinnedRows(indptr=indptr, bins=bins, values=np.ones_like(bins), n_bins=rows.n_bins)


def two_labels(labels: NDArray[np.int64]) -> Floats:
    """Labels 0 and 1 as -1 and +1."""
    if labels.size == 0 or labels.min() < 0 or labels.max() > 1:
        raise BadInputError("this baseline takes people of the labels 0 and 1")
    return np.asarray(2 * labels - 1, dtype=np.float64)


def as_weights(values: Floats) -> Weights:
    """One model of real weights (bins, then the bias), published as ours are."""
    integers, e = mantissas(np.ascontiguousarray(values[None, :], dtype=np.float64))
    return Weights(mantissas=integers, unit=power_of_two(e), normalised=True)


class UnitRows:
    """Rows with the bias as their last bin, every entry of a row the same: 1, or 1/‖x‖."""

    def __init__(self, rows: BinnedRows, *, normalised: bool = True) -> None:
        lengths = np.diff(rows.indptr)
        #: Bins of all people one after another, the bias at the end of each person's.
        self.bins: NDArray[np.int64] = np.insert(rows.bins.astype(np.int64), rows.indptr[1:], rows.n_bins)
        #: Bins of each person, the bias counted.
        self.lengths: NDArray[np.int64] = lengths + 1
        self.starts: NDArray[np.int64] = np.concatenate([[0], np.cumsum(self.lengths)[:-1]]).astype(np.int64)
        self.entries: Floats = 1 / np.sqrt(self.lengths) if normalised else np.ones(len(rows), dtype=np.float64)
        #: Bins in all, the bias counted.
        self.n_cells = rows.n_bins + 1
        self._owners = np.repeat(np.arange(len(rows)), self.lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def scores(self, weights: Floats) -> Floats:
        """Everybody's w · x."""
        sums = np.bincount(self._owners, weights=weights[self.bins], minlength=len(self))
        return np.asarray(sums * self.entries, dtype=np.float64)

    def combined(self, coefficients: Floats) -> Floats:
        """Σ c x over everybody."""
        each = (coefficients * self.entries)[self._owners]
        return np.bincount(self.bins, weights=each, minlength=self.n_cells).astype(np.float64)

    def dense(self, people: NDArray[np.int64]) -> Floats:
        """The rows of some people, written out."""
        out = np.zeros((len(people), self.n_cells), dtype=np.float64)
        lengths = self.lengths[people]
        rows = np.repeat(np.arange(len(people)), lengths)
        out[rows, self.bins[self.places(people)]] = np.repeat(self.entries[people], lengths)
        return out

    def places(self, people: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the bins of some people stand in ``bins``, one person after another."""
        lengths = self.lengths[people]
        first = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        found: NDArray[np.int64] = np.repeat(self.starts[people] - first, lengths) + np.arange(int(lengths.sum()))
        return found

    def own(self, people: NDArray[np.int64], cells: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of these people has the bin named for it."""
        keys = self._owners * self.n_cells + self.bins  # ascending: people in order, bins in order inside a person
        asked = people * self.n_cells + cells
        found = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        return np.asarray(keys[found] == asked)
