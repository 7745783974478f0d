"""ClusterSweep: ``engine.sweep`` by the workers of a dask cluster. The same results, byte for byte.

A model's bytes do not depend on its neighbours, on threads or on the machine (ADR 4, 37), so neither on which worker
trained it, nor on whether another one had begun.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
from distributed import Client
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.learning._kernels.layout import PreparedRows, prepare
from secvm.learning.experiment import Experiment
from secvm.learning.rows import BinnedRows
from secvm_lab.cluster import connection as connecting
from secvm_lab.cluster.execution import Notice, Progress, Rows, Run
from secvm_lab.cluster.group import Bits, Group, Recipe, SentRows, cut, this_program
from secvm_lab.engine import LANES, CollapsedRows, Swept

#: How long to wait for a scheduler to answer, and for a worker to come or come back.
CONNECT_S = 10.0
PATIENCE_S = 300.0


def _no_notice(_: str) -> None:
    pass


class ClusterSweep:
    """Sweeps on one cluster, one after the other."""

    def __init__(
        self,
        scheduler: str | Client,
        *,
        connect_s: float = CONNECT_S,
        patience_s: float = PATIENCE_S,
        notice: Notice = _no_notice,
    ) -> None:
        """Connect, or say within about ``connect_s`` why not.

        Args:
            scheduler: its address, or a client, which stays its owner's to close.
            patience_s: how long to wait for workers where there are none, at the start or later.
            notice: is told, in a sentence, of what a person may want to see to.
        """
        self._owned = isinstance(scheduler, str)
        self._client = connecting.connect(scheduler, within_s=connect_s) if isinstance(scheduler, str) else scheduler
        self._patience_s, self._notice = patience_s, notice
        self._numbers = itertools.count()
        self._last: tuple[Any, Rows] | None = None
        if connecting.is_exposed(self._client.scheduler.address):
            notice("the scheduler speaks plain TCP: everybody on its network can read, and tell its workers what to do")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of rows that were sent, and of the connection."""
        self._last = None
        if self._owned:
            connecting.disconnect(self._client)

    def __call__(
        self,
        people: PreparedRows | BinnedRows | CollapsedRows | Recipe,
        labels: NDArray[np.int64],
        experiments: Sequence[Experiment],
        *,
        train: NDArray[np.bool_] | None = None,
        test: NDArray[np.bool_] | None = None,
        rounds: int,
        evaluate: Sequence[int] | None = None,
        threads: int = 1,
        progress: Progress | None = None,
        states: bool | None = None,
    ) -> Iterator[Swept]:
        """Train all models for ``rounds`` rounds; see ``sweep``.

        Args:
            people: rows, which are sent once and kept there until others come, or a recipe.
            threads: of each worker, for each group.
            progress: as for ``sweep``, each round of each group once; groups take turns.
            states: whether states come back too, which are much to send where bins are many.
        """
        if rounds < 1:
            raise BadInputError("a sweep needs at least one round")
        if evaluate is not None and not all(1 <= t <= rounds for t in evaluate):
            raise BadInputError("a round to evaluate lies outside the sweep")
        if len(labels) and not (labels.min() >= 0 and labels.max() <= 1):
            raise BadInputError("the engine trains two labels")
        for name, table in (("train", train), ("test", test)):
            if table is not None and table.shape != (len(labels), len(experiments)):
                raise BadInputError(f"{name} must say of each person and each model whether the person {name}s it")
        packed = Bits.of((labels == 1)[:, None])
        topic = f"secvm-sweep-{self._client.id}-{next(self._numbers)}"
        program = this_program()

        def make(some: slice) -> Group:
            return Group(
                first=some.start,
                experiments=experiments[some],
                labels=packed,
                train=None if train is None else Bits.of(train[:, some]),
                test=None if test is None else Bits.of(test[:, some]),
                rounds=rounds,
                evaluate=evaluate,
                threads=threads,
                states=states,
                topic=topic,
                program=program,
            )

        run = Run(
            self._client,
            self._rows(people),
            cut(experiments, train, test, lanes=LANES),
            make,
            topic=topic,
            patience_s=self._patience_s,
            notice=self._notice,
            progress=progress,
        )
        connecting.check_programs(self._client)
        yield from run.results()

    def _rows(self, people: PreparedRows | BinnedRows | CollapsedRows | Recipe) -> Rows:
        """Where they are; the last ones stay there."""
        if self._last is None or self._last[0] is not people:
            self._last = None  # before others come
            rows = prepare(people) if isinstance(people, BinnedRows) else people
            travels = SentRows(rows) if isinstance(rows, PreparedRows | CollapsedRows) else rows
            self._last = people, Rows(self._client, travels)
        return self._last[1]
