"""From people in memory to the experiment that asks them: what their values change about the question.

Negative values change two things. A package's sign no longer tells its side, so class weights and uneven losses
multiply people's updates (``Experiment.weighted_updates``). And swift's popularity is no longer the mean person, so
nothing is held back of its steps (``Swift.mean_move``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from secvm.learning.aggregate.descent import DescentRule, Swift
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.learning.rows import BinnedRows
from secvm.learning.thinning import Thinning

#: A mean move that nothing reaches.
_NOT_HELD = Fraction(10**6)


def has_negative_values(rows: BinnedRows) -> bool:
    """Whether anybody has a feature of negative value."""
    return bool(rows.values.size) and int(rows.values.min()) < 0


def is_uneven(loss: Loss, class_weights: Sequence[Fraction]) -> bool:
    """Whether positive and negative counts weigh differently."""
    return bool(class_weights) or loss.factors[0] != loss.factors[1]


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
