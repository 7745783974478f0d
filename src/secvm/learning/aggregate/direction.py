"""Tally → direction: class weights, the loss's factor, thinning's divisor and the right normaliser, in exact numbers.

For each model the direction is

    (a f⁺ N⁺ - b f⁻ N⁻) / (divisor * (a n⁺ + b n⁻))

with a, b the weights of the positive and the negative side, f± the loss's factors, n± the participants of each side:
the normaliser is the *weighted* number of participants. With one-vs-rest the negative side is a mixture that the tally
cannot take apart; its weight is the participants' mean of its labels' weights. It is kept as integers and one rational
per model, so that every rule starts from the same exact numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.aggregate.tally import Tally
from secvm.learning.arithmetic import common_integers
from secvm.learning.label_models import LabelModels


@dataclass(frozen=True, eq=False)
class Direction:
    """Integer numerators, models x (bins + 1), and for each model the exact factor that turns them into a mean."""

    #: int64; Python's integers (dtype object) where class weights are too long for 64 bits.
    numerators: NDArray[Any]
    scales: tuple[Fraction, ...]
    #: N⁺ + N⁻, unweighted, and its factor: the popularity of bins in a round where everybody violates.
    totals: NDArray[np.int64]
    total_scales: tuple[Fraction, ...]
    #: |a n⁺ - b n⁻| / (a n⁺ + b n⁻) of each model: 0 for equal sides, 1 when one side is empty.
    imbalances: tuple[Fraction, ...]


def direction_of(
    tally: Tally,
    *,
    models: LabelModels,
    class_weights: Sequence[Fraction],
    factors: tuple[Fraction, Fraction],
    divisor: Fraction,
    weighted_updates: bool = False,
) -> Direction:
    """The direction of a tally. ``class_weights`` has one entry per label.

    With ``weighted_updates`` the counts already carry class weights and factors, as the integers of
    ``common_integers``.
    """
    numerators: list[NDArray[Any]] = []
    scales: list[Fraction] = []
    total_scales: list[Fraction] = []
    imbalances: list[Fraction] = []
    counts = tally.participants.tolist()
    for model in range(models.n_models):
        column = models.signs[:, model].tolist()
        sides = [_side(counts, class_weights, column, sign) for sign in (1, -1)]
        (n_plus, a), (n_minus, b) = sides
        if n_plus + n_minus == 0:
            # A one-vs-one pair may have nobody in a round: its counts are zero too, and the model stands still.
            numerators.append(np.zeros_like(tally.plus[model]))
            scales.append(Fraction(0))
            total_scales.append(Fraction(0))
            imbalances.append(Fraction(0))
            continue
        weight_plus, weight_minus = common_integers([a * factors[0], b * factors[1]])
        if weighted_updates:
            weight_plus = weight_minus = 1
        numerators.append(_weighted(tally.plus[model], weight_plus) - _weighted(tally.minus[model], weight_minus))
        if weighted_updates:
            shrunk = _unit(class_weights) * _unit(factors)
        else:
            shrunk = (a * factors[0] / weight_plus) if weight_plus else (b * factors[1] / (weight_minus or 1))
        weighted = a * n_plus + b * n_minus
        scales.append(shrunk / (divisor * weighted) if weighted else Fraction(0))
        imbalances.append(abs(a * n_plus - b * n_minus) / weighted if weighted else Fraction(0))
        total_scales.append(1 / (divisor * (n_plus + n_minus)))
    return Direction(
        numerators=np.stack(numerators),
        scales=tuple(scales),
        totals=tally.plus + tally.minus,
        total_scales=tuple(total_scales),
        imbalances=tuple(imbalances),
    )


def side_weights(
    tally: Tally, *, models: LabelModels, class_weights: Sequence[Fraction], factors: tuple[Fraction, Fraction]
) -> list[tuple[int, int]]:
    """Of each model the integers that multiply N⁺ and N⁻ in its direction."""
    counts = tally.participants.tolist()
    weights = []
    for column in models.signs.T.tolist():
        (_, a), (_, b) = (_side(counts, class_weights, column, sign) for sign in (1, -1))
        up, down = common_integers([a * factors[0], b * factors[1]])
        weights.append((up, down))
    return weights


def _weighted(counts: NDArray[np.int64], weight: int) -> NDArray[Any]:
    """Counts times a weight, as Python's integers where 64 bits might not do."""
    # Counts from which cover was taken off may be negative.
    fits = weight < 1 << 62 and int(np.abs(counts).max()) * weight < 1 << 62
    return counts * weight if fits else counts.astype(object) * weight


def _unit(weights: Sequence[Fraction]) -> Fraction:
    """What one of the integers of ``common_integers`` stands for."""
    integers = common_integers(weights)
    return next((w / i for w, i in zip(weights, integers, strict=True) if i), Fraction(1))


def _side(counts: list[int], class_weights: Sequence[Fraction], column: list[int], sign: int) -> tuple[int, Fraction]:
    """Participants of one side of a model and their mean weight."""
    members = [label for label, s in enumerate(column) if s == sign]
    n = sum(counts[label] for label in members)
    if n == 0:
        return 0, Fraction(1) if not members else class_weights[members[0]]
    return n, sum((class_weights[label] * counts[label] for label in members), Fraction(0)) / n


def check_participants(tally: Tally) -> None:
    """A step needs somebody: a round with nobody is abandoned, not divided by zero."""
    if int(tally.participants.sum()) == 0:
        raise BadInputError("nobody took part in this round")
