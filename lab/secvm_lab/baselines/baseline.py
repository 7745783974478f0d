"""What a baseline is: people in, a linear model out, with the guarantee that it gives.

All baselines see the same people: rows of bins, *clipped*. Whatever a person's counts are, each bin is there or not,
and at most ``contribution`` of a person's bins take part, drawn once by dice that follow from the seed alone: two
baselines with the same seed and contribution train on the very same rows. Prediction looks at every bin of a person.

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
        ...

    def fit(self, rows: BinnedRows, labels: NDArray[np.int64], *, seed: int) -> Fitted:
        """Train. Labels are 0, 1, …; all dice follow from the seed."""
        ...


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
