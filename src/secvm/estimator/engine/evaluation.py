"""Who is right: test people under evaluation weights, from sums that training needed anyway.

Evaluation averages the last weight vectors, and the average of scores is the score of the average, but for roundings:
the published average is rounded when each sum is divided, and again when it becomes mantissas. By how much both can
move a score is known, so three looks, each at the few that the one before left open:

 1. shortened sums of the last steps;
 2. the states' own int64, without any rounding;
 3. the evaluation weights themselves, as published.

Score 0 predicts label 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from secvm.estimator.engine.people import Bits, LaidOutPeople
from secvm.learning._kernels import lanes as kernels
from secvm.learning.aggregate.descent.pegasos import AVERAGE_BITS
from secvm.learning.weights import Weights

#: Floats in which bounds are computed are off by far less than this share.
_SLACK = 1e-9
#: Of an int64 as a float, divided and added up a few times.
_ROUNDED = 2.0**-46
#: True scores of the state must fit an int64.
_MAX_SCORE = 2**62


@dataclass(frozen=True, eq=False)
class Scored:
    """Shortened sums of everybody after a step."""

    step: int
    sums: NDArray[np.int32]
    #: Per lane: bits that the mantissas leave out of the state, and shortened weights of the mantissas.
    bits: NDArray[np.int64]
    shorter: NDArray[np.int64]
    #: Per lane: greatest absolute value of the state.
    largest: NDArray[np.int64]


def confusion(
    people: LaidOutPeople,
    tests: Bits,
    scored: Sequence[Scored],
    states: Sequence[NDArray[np.int64]],
    evaluation: Callable[[int], Weights],
    n_models: int,
) -> NDArray[np.int64]:
    """Models x true label x predicted label.

    Args:
        scored: sums of the newest step and of those before it, as many as are averaged.
        states: lines of the same steps.
        evaluation: a model's evaluation weights, for the third look.
    """
    positive, left_open = _first_look(people, tests, scored)
    chosen = np.flatnonzero(left_open)
    if len(chosen):
        chosen = _second_look(people, chosen, scored, states, left_open, positive)
    if len(chosen):
        _third_look(people, chosen, evaluation, n_models, left_open, positive)
    out = np.zeros((n_models, 2, 2), np.int64)
    for label in (0, 1):
        here = np.where(people.labels == label, tests, 0).astype(np.uint16)
        for predicted, bits in ((1, positive), (0, ~positive)):
            counts = np.zeros(people.width, np.int64)
            kernels.count_lanes(bits, here, counts)
            out[:, label, predicted] = counts[:n_models]
    return out


def _roundings(scored: Sequence[Scored]) -> NDArray[np.float64]:
    """Per lane: how far the evaluation weights' roundings move a score for each unit, in units of the state."""
    greatest = sum(s.largest.astype(np.float64) / s.step for s in scored) * 2**AVERAGE_BITS + len(scored)
    # One more bit than the mantissas can leave out.
    bits = np.maximum(0, np.frexp(greatest)[1] - 30)
    return np.asarray((len(scored) / 2 + np.ldexp(0.5, bits)) / 2**AVERAGE_BITS)


def _first_look(people: LaidOutPeople, tests: Bits, scored: Sequence[Scored]) -> tuple[Bits, Bits]:
    factors = np.array([np.ldexp(1.0, s.bits + s.shorter) / s.step for s in scored])
    halves = [(np.ldexp(0.5, s.bits + s.shorter) + np.ldexp(0.5, s.bits)) / s.step for s in scored]
    misses = (np.sum(halves, axis=0) + _roundings(scored)) * (1 + _SLACK)
    # Floats round a product of a sum below 2^31 by less than a thousandth of its factor.
    floor = factors.sum(axis=0)
    positive, left_open = np.empty_like(tests), np.empty_like(tests)
    sums = tuple(s.sums for s in scored)

    def work(low: int, high: int) -> None:
        kernels.lean(
            sums,
            factors,
            misses,
            floor,
            tests,
            people.units,
            people.most_units,
            positive,
            left_open,
            low,
            high,
            people.lanes,
        )

    people.over(len(tests), work)
    return positive, left_open


def _second_look(
    people: LaidOutPeople,
    chosen: NDArray[np.int64],
    scored: Sequence[Scored],
    states: Sequence[NDArray[np.int64]],
    left_open: Bits,
    positive: Bits,
) -> NDArray[np.int64]:
    units = people.units[chosen]
    if max(int(s.largest.max()) for s in scored) * int(units.max()) >= _MAX_SCORE:
        return chosen
    whole = np.zeros(people.width, np.int64)
    parts = [people.true_scores(state, whole, chosen) / s.step for s, state in zip(scored, states, strict=True)]
    middle = np.sum(parts, axis=0)
    miss = units[:, None] * _roundings(scored) * (1 + _SLACK) + np.abs(parts).sum(axis=0) * _ROUNDED
    return _write(chosen, middle > 0, np.abs(middle) <= miss, left_open, positive)


def _third_look(
    people: LaidOutPeople,
    chosen: NDArray[np.int64],
    evaluation: Callable[[int], Weights],
    n_models: int,
    left_open: Bits,
    positive: Bits,
) -> None:
    lines = people.lines(people.n_lines, np.int64)
    table = lines.reshape(-1, people.width)
    wanted = np.bitwise_or.reduce(left_open[chosen])
    for model in range(n_models):
        if wanted >> model & 1:
            mantissas = evaluation(model).mantissas[0]
            table[people.prepared.slots, model] = mantissas[:-1]
            table[-1, model] = mantissas[-1]
    scores = people.true_scores(lines, np.zeros(people.width, np.int64), chosen)
    _write(chosen, scores >= 0, np.zeros(scores.shape, np.bool_), left_open, positive)


def _write(
    chosen: NDArray[np.int64],
    up: NDArray[np.bool_],
    unsure: NDArray[np.bool_],
    left_open: Bits,
    positive: Bits,
) -> NDArray[np.int64]:
    """Write what a look found into the open bits; gives the people who still have some."""
    places = np.arange(up.shape[1], dtype=np.uint16)
    ups, still = ((table.astype(np.uint16) << places).sum(axis=1).astype(np.uint16) for table in (up, unsure))
    was = left_open[chosen]
    positive[chosen] = (positive[chosen] & ~was) | (ups & was)
    left_open[chosen] = was & still
    return chosen[left_open[chosen] != 0]
