"""From people in memory to the experiment that asks them: what their values change about the question.

Negative values change two things. A package's sign no longer tells its side, so class weights and uneven losses
multiply people's updates (``Experiment.weighted_updates``). And swift's popularity is no longer the mean person, so
nothing is held back of its steps (``Swift.mean_move``).

Where the label is a number, its centre and spread are public, and the label is compared in fixed point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.aggregate.descent import DescentRule, Swift
from secvm.learning.arithmetic import exact
from secvm.learning.experiment import Experiment
from secvm.learning.individual.update import fixed_target
from secvm.learning.losses import Loss
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning

#: Rounds of swift on data that somebody holds: they cost neither traffic nor, without an ε, anybody's privacy.
SWIFT_ROUNDS = 50
#: A mean move that nothing reaches.
_NOT_HELD = Fraction(10**6)


def has_negative_values(rows: BinnedRows) -> bool:
    """Whether anybody has a feature of negative value."""
    return bool(rows.values.size) and int(rows.values.min()) < 0


def is_uneven(loss: Loss, class_weights: Sequence[Fraction]) -> bool:
    """Whether positive and negative counts weigh differently."""
    return bool(class_weights) or loss.factors[0] != loss.factors[1]


def check_signs(experiment: Experiment, rows: BinnedRows) -> None:
    """Refuse negative values in a later ``partial_fit`` where the first call decided that there are none."""
    uneven = is_uneven(experiment.loss, experiment.class_weights)
    if uneven and not experiment.weighted_updates and has_negative_values(rows):
        raise BadInputError("with class weights or pinball, negative values must be there on the first call already")


def ask(
    rows: BinnedRows,
    *,
    labels: tuple[str, ...],
    rule: DescentRule,
    loss: Loss,
    thinning: Thinning,
    class_weights: Sequence[Fraction] = (),
    **more: Any,
) -> Experiment:
    """The experiment for people who train with these rows."""
    signed = has_negative_values(rows)
    if signed and isinstance(rule, Swift):
        rule = replace(rule, mean_move=_NOT_HELD)
    return Experiment(
        n_bins=rows.n_bins,
        labels=labels,
        rule=rule,
        loss=loss,
        thinning=thinning,
        class_weights=tuple(class_weights),
        fixed_point_rows=rule.normalised and not thinning.active,
        weighted_updates=signed and is_uneven(loss, class_weights),
        **more,
    )


def target_scale(y: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[Fraction, Fraction]:
    """Centre and spread of a number as the label: the median, and half the distance of the 16 % and 84 % quantiles."""
    low, middle, high = weighted_quantiles(y, weight, (0.16, 0.5, 0.84))
    spread = (high - low) / 2 or float(y.max() - y.min()) / 2 or 1.0
    return exact(float(middle)), exact(float(spread))


def range_scale(label_range: tuple[float, float] | None) -> tuple[Fraction, Fraction]:
    """Centre and spread from a public range alone: its middle, and a quarter of its width."""
    if label_range is None or not label_range[0] < label_range[1]:
        raise BadInputError("with epsilon a number as the label needs label_range=(lowest, highest)")
    low, high = (exact(float(end)) for end in label_range)
    return (low + high) / 2, (high - low) / 4


def right_within(values: NDArray[np.float64], targets: NDArray[np.int64]) -> int:
    """How many scores lie within half a spread of the fixed target: a count, as a deployment could collect it."""
    return int((np.abs(values - targets / 2.0**32) <= 0.5).sum())


def fixed_targets(y: NDArray[np.float64], experiment: Experiment) -> NDArray[np.int64]:
    """Every label, centred, scaled and in fixed point."""
    centre, spread = experiment.target_centre, experiment.target_spread
    return np.array([fixed_target(v, centre=centre, spread=spread) for v in y.tolist()], dtype=np.int64)


def weighted_quantiles(
    values: NDArray[np.float64], weight: NDArray[np.float64], shares: tuple[float, ...]
) -> tuple[float, ...]:
    """For each share the smallest value at which the cumulative weight reaches it."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weight[order])
    where = np.searchsorted(cumulative, np.array(shares) * cumulative[-1], side="left")
    return tuple(float(v) for v in values[order][np.minimum(where, len(values) - 1)])
