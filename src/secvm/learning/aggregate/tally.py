"""Tally: what a round counted. Counts of +1 and -1 per model and bin, of participants, and of test cells.

Counts add in any order and in any grouping; the empty tally is the zero of ``merge``. Many nodes, one answer.

Relays' cover in a net tally: what is taken off it (``uncovered``), and which counts it cannot explain (``explains``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.cover_law import RelayCover
from secvm.learning.package import Cohort, NullPackage, Package, ParticipationPackage, TestPackage, TrainPackage


@dataclass(frozen=True, eq=False)
class Tally:
    """The counts of one round. Public."""

    #: int64, models x (bins + 1): positive units.
    plus: NDArray[np.int64]
    #: The same of negative units.
    minus: NDArray[np.int64]
    #: int64 per label: train participants.
    participants: NDArray[np.int64]
    #: int64, labels x labels: true label by predicted label, of test participants.
    cells: NDArray[np.int64]

    @classmethod
    def empty(cls, *, n_models: int, n_bins: int, n_labels: int) -> Tally:
        """Nothing counted yet."""
        shape = (n_models, n_bins + 1)
        return cls(
            plus=np.zeros(shape, dtype=np.int64),
            minus=np.zeros(shape, dtype=np.int64),
            participants=np.zeros(n_labels, dtype=np.int64),
            cells=np.zeros((n_labels, n_labels), dtype=np.int64),
        )

    def merge(self, other: Tally) -> Tally:
        """Both together."""
        if self.plus.shape != other.plus.shape or self.cells.shape != other.cells.shape:
            raise BadInputError("tallies of different experiments cannot be merged")
        return Tally(
            plus=self.plus + other.plus,
            minus=self.minus + other.minus,
            participants=self.participants + other.participants,
            cells=self.cells + other.cells,
        )

    def count(self, packages: Iterable[Package]) -> Tally:
        """These packages counted on top. That each is counted once is the caller's work: a package has no name."""
        plus, minus = self.plus.copy(), self.minus.copy()
        participants, cells = self.participants.copy(), self.cells.copy()
        for package in packages:
            match package:
                case TrainPackage(model=model, bin_index=bin_index, sign=sign):
                    _check(0 <= model < plus.shape[0] and 0 <= bin_index < plus.shape[1] and sign in (-1, 1))
                    (plus if sign > 0 else minus)[model, bin_index] += 1
                case ParticipationPackage(cohort=cohort, class_index=label):
                    _check(0 <= label < len(participants))
                    participants[label] += cohort is Cohort.TRAIN
                case TestPackage(true_class=true, predicted_class=predicted):
                    _check(0 <= true < len(cells) and 0 <= predicted < len(cells))
                    cells[true, predicted] += 1
                case NullPackage():
                    pass
        return Tally(plus=plus, minus=minus, participants=participants, cells=cells)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and all(
            np.array_equal(mine, theirs)
            for mine, theirs in (
                (self.plus, other.plus),
                (self.minus, other.minus),
                (self.participants, other.participants),
                (self.cells, other.cells),
            )
        )

    __hash__ = None  # type: ignore[assignment]  # arrays inside: a tally is compared, never a key


def means(cover: RelayCover, like: Tally) -> Tally:
    """What is taken off each cell of a net tally, as a tally of this shape (docs/protocol.md §31)."""
    train = np.full_like(like.plus, cover.train.known_mean)
    return replace(
        like,
        plus=train,
        minus=train,
        participants=np.full_like(like.participants, cover.participation.known_mean),
        cells=np.full_like(like.cells, 0 if cover.test is None else cover.test.known_mean),
    )


def uncovered(cover: RelayCover | None, tally: Tally) -> Tally:
    """A *net* tally, from which both opened parts are off already, without the mean of all other parts.

    Whole numbers. Counts of train cells may be negative: noise is. Numbers of people are not. Without cover the tally
    stays as it is.
    """
    if cover is None:
        return tally
    known = means(cover, tally)
    return replace(
        tally,
        plus=tally.plus - known.plus,
        minus=tally.minus - known.minus,
        participants=np.maximum(tally.participants - known.participants, 0),
        cells=np.maximum(tally.cells - known.cells, 0),
    )


def explains(cover: RelayCover, tally: Tally, devices: int) -> bool:
    """Whether no cell of a net tally is above ``RelayCover.most_in_a_cell``."""
    train, participation, *test = cover.most_in_a_cell(devices)
    highest = [(tally.plus, train), (tally.minus, train), (tally.participants, participation)]
    highest += [(tally.cells, most) for most in test]
    return all(int(counts.max(initial=0)) <= most for counts, most in highest)


def _check(fits: bool) -> None:
    if not fits:
        raise BadInputError("a package names a model, bin, sign or label that the experiment does not have")
