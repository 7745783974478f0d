"""A group of models as what travels to a worker, and what the worker does with it.

What travels is small: experiments, labels as bits, and of the masks the group's own columns as bits. Rows come
beside it (``recipe``). Modules of the engine are imported on the worker alone: the scheduler unpacks a group too, to
hand it on, and has no need of a compiler.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from distributed import get_worker
from numpy.typing import NDArray

from secvm.errors import ClusterError
from secvm.learning.experiment import Experiment
from secvm_lab.cluster.program import Program, difference, this_program
from secvm_lab.cluster.recipe import Recipe, SentRows, rows_of

if TYPE_CHECKING:
    from secvm_lab.engine import Swept

#: A worker tells of its rounds at most so often.
_TELL_EVERY_S = 0.2


@dataclass(frozen=True, eq=False, repr=False)
class Bits:
    """A table of bools, an eighth as large. It does not print itself: it is of people."""

    packed: NDArray[np.uint8]
    n_rows: int

    @classmethod
    def of(cls, table: NDArray[np.bool_]) -> Bits:
        """Pack the columns."""
        return cls(np.packbits(table, axis=0), len(table))

    def table(self) -> NDArray[np.bool_]:
        """The bools again."""
        return np.unpackbits(self.packed, axis=0, count=self.n_rows).astype(np.bool_)


@dataclass(frozen=True, eq=False, repr=False)
class Group:
    """Models that are trained together."""

    #: Models before them.
    first: int
    experiments: Sequence[Experiment]
    labels: Bits
    train: Bits | None
    test: Bits | None
    rounds: int
    evaluate: Sequence[int] | None
    threads: int
    states: bool | None
    #: Who is told of rounds.
    topic: str
    #: What a worker has to run.
    program: Program

    def __repr__(self) -> str:
        return f"Group(<{len(self.experiments)} models>, first={self.first})"


def cut(
    experiments: Sequence[Experiment],
    train: NDArray[np.bool_] | None,
    test: NDArray[np.bool_] | None,
    *,
    lanes: int,
) -> list[slice]:
    """Groups of models that follow each other, as many as ``sweep`` takes into a pass.

    Models with the same people, loss and class weights may share a lane there for a while, so they stay together.
    """
    firsts: list[int] = []
    ways: set[Any] = set()
    for model, experiment in enumerate(experiments):
        masks = (None if table is None else np.packbits(table[:, model]).tobytes() for table in (train, test))
        way = (experiment.loss, experiment.class_weights, *masks)
        if not firsts or (way not in ways and len(ways) == lanes):
            firsts.append(model)
            ways = set()
        ways.add(way)
    return [slice(first, end) for first, end in itertools.pairwise([*firsts, len(experiments)])]


class _NoLongerWantedError(Exception):
    """The client has gone, or has cancelled."""


class _Teller:
    """Tells the client of rounds, and ends the work if nobody wants it any more: dask itself cannot stop a task."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._worker: Any = get_worker()
        self._key = self._worker.get_current_task()
        self._told = time.monotonic()

    def __call__(self, before: int, models: int, rounds: int) -> None:
        group = self._group
        task = self._worker.state.tasks.get(self._key)
        if task is None or task.state == "cancelled":
            raise _NoLongerWantedError
        now = time.monotonic()
        if now - self._told >= _TELL_EVERY_S:
            self._told = now
            # A group may take several passes: some of its models may find no lane in the first.
            of_all = (before * group.rounds + models * rounds) // len(group.experiments)
            self._worker.log_event(group.topic, [group.first, of_all])


def train_group(group: Group, people: SentRows | Recipe) -> list[Swept] | None:
    """Runs on a worker; None where the work was given up because nobody wanted it."""
    if (what := difference(this_program(), group.program)) is not None:
        raise other_program(f"worker {get_worker().address}", what)
    from secvm_lab.engine import sweep  # noqa: PLC0415  (not on the scheduler)

    train, test = (None if bits is None else bits.table() for bits in (group.train, group.test))
    swept = sweep(
        rows_of(people, threads=group.threads),
        group.labels.table()[:, 0].astype(np.int64),
        group.experiments,
        train=train,
        test=test,
        rounds=group.rounds,
        evaluate=group.evaluate,
        threads=group.threads,
        states=group.states,
        progress=_Teller(group),
    )
    try:
        return [replace(one, model=group.first + one.model) for one in swept]
    except _NoLongerWantedError:
        return None


def other_program(who: str, what: str) -> ClusterError:
    """A machine that would give other results, or none."""
    return ClusterError(
        f"{who} {what}", next_step="Install the same SecVM, with the same requirements, on all of them."
    )
