"""Swept: what becomes of one model of a sweep, on processors or on a GPU; and what every sweep is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning.aggregate.descent import State

#: After a round: models done before this group, models of the group, rounds done.
Progress = Callable[[int, int, int], None]


@dataclass(frozen=True, eq=False)
class Swept:
    """What became of one model."""

    #: Its place among the models given.
    model: int
    #: Without vectors where states were not asked for.
    state: State
    #: int64, rounds x true label x predicted label, of its test people; after the evaluated rounds.
    cells: NDArray[np.int64]
    #: The rounds, counted from 1, after which ``cells`` were taken.
    evaluated: tuple[int, ...]
    #: All spells (first round, last round) of a two-cycle.
    two_cycle_spells: tuple[tuple[int, int], ...]
    #: Passes over everybody that its group took to score, for all models together.
    score_passes: float = field(repr=False)
    #: Rounds for which it needed no lane of its own, because another model went the same way.
    shared_rounds: int = 0

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """Share of test people who are right, after each evaluated round."""
        right = np.trace(self.cells, axis1=1, axis2=2)
        return np.asarray(right / np.maximum(1, self.cells.sum(axis=(1, 2))))


def rounds_to_evaluate(
    rounds: int,
    evaluate: Sequence[int] | None,
    tables: Mapping[str, NDArray[np.bool_] | None],
    shape: tuple[int, int],
) -> tuple[int, ...]:
    """The rounds after which test people are predicted, ascending; the tables of people x models are checked."""
    if rounds < 1:
        raise BadInputError("a sweep needs at least one round")
    for name, table in tables.items():
        if table is not None and table.shape != shape:
            raise BadInputError(f"{name} must say of each person and each model whether the person {name}s it")
    wanted = tuple(range(1, rounds + 1)) if evaluate is None else tuple(sorted(set(evaluate)))
    if wanted and not (wanted[0] >= 1 and wanted[-1] <= rounds):
        raise BadInputError("a round to evaluate lies outside the sweep")
    return wanted
