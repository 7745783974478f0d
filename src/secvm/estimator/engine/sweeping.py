"""sweep: any number of models over the same people, sixteen at a time.

Models are taken in the order given; each comes out with its curve and its last state as soon as its group is done, so
that who is interrupted keeps what came out before. A group needs memory for its own states only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.estimator.engine.engine import Engine
from secvm.estimator.engine.lane import LANES
from secvm.learning._kernels.layout import PreparedRows, prepare
from secvm.learning.aggregate.descent import State
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows

#: After a round: models done before this group, models of the group, rounds done.
Progress = Callable[[int, int, int], None]


@dataclass(frozen=True, eq=False)
class Swept:
    """What became of one model."""

    #: Its place among the models given.
    model: int
    state: State
    #: int64, rounds x true label x predicted label, of its test people; after the evaluated rounds.
    cells: NDArray[np.int64]
    #: The rounds, counted from 1, after which ``cells`` were taken.
    evaluated: tuple[int, ...]
    #: All spells (first round, last round) of a two-cycle.
    two_cycle_spells: tuple[tuple[int, int], ...]
    #: Passes over everybody that its group took to score, for all models together.
    score_passes: float = field(repr=False)

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """Share of test people who are right, after each evaluated round."""
        right = np.trace(self.cells, axis1=1, axis2=2)
        return np.asarray(right / np.maximum(1, self.cells.sum(axis=(1, 2))))


def sweep(
    people: PreparedRows | BinnedRows,
    labels: NDArray[np.int64],
    experiments: Sequence[Experiment],
    *,
    train: NDArray[np.bool_] | None = None,
    test: NDArray[np.bool_] | None = None,
    rounds: int,
    evaluate: Sequence[int] | None = None,
    threads: int = 1,
    progress: Progress | None = None,
) -> Iterator[Swept]:
    """Train all models for ``rounds`` rounds.

    Args:
        people: binned rows, or rows laid out already.
        experiments: one for each model; they share bins and labels.
        train: people x models, True where a person trains a model; None: everybody trains all.
        test: people x models, True where a model predicts a person; None: everybody who does not train the model.
        evaluate: rounds after which test people are predicted; None: all.
    """
    if rounds < 1:
        raise BadInputError("a sweep needs at least one round")
    if train is not None and train.shape != (len(labels), len(experiments)):
        raise BadInputError("train must say of each person and each model whether the person trains it")
    if test is not None and test.shape != (len(labels), len(experiments)):
        raise BadInputError("test must say of each person and each model whether the person tests it")
    prepared = prepare(people) if isinstance(people, BinnedRows) else people
    wanted = tuple(range(1, rounds + 1)) if evaluate is None else tuple(sorted(set(evaluate)))
    if wanted and not (wanted[0] >= 1 and wanted[-1] <= rounds):
        raise BadInputError("a round to evaluate lies outside the sweep")
    for first in range(0, len(experiments), LANES):
        group = experiments[first : first + LANES]
        masks, tests = (None if table is None else table[:, first : first + LANES] for table in (train, test))
        engine = Engine(prepared, labels, group, train=masks, test=tests, threads=threads)
        cells = []
        for t in range(1, rounds + 1):
            engine.advance()
            if t in wanted:
                cells.append(engine.cells())
            if progress is not None:
                progress(first, len(group), t)
        table = np.stack(cells) if cells else np.zeros((0, len(group), 2, 2), np.int64)
        for k in range(len(group)):
            yield Swept(
                first + k,
                engine.state(k),
                np.ascontiguousarray(table[:, k]),
                wanted,
                tuple(engine.two_cycles[k].spells),
                engine.score_passes,
            )
