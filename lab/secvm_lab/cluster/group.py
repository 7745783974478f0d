"""A group of models as what travels to a worker of a cluster, and what the worker does with it.

What travels is small: experiments, labels as bits, and of the masks the group's own columns as bits. Modules of the
engine are imported on the worker alone: the scheduler unpacks a group too, to hand it on, and has no need of a
compiler.

**Rows** come beside it, or the way to make them. At the paper's scale rows take more than a gigabyte and are made in
less time than a network carries them. So a sweep takes a ``Recipe`` as well: a small value that says how. Each worker
process makes the rows once and keeps those of the last recipe, for a second crowd beside the first may be one too many
for its memory.

**The program**: all that runs on a machine has to be the same on each of them for results to be. A version number is
not enough: two checkouts between releases have the same. So the sources have a digest.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from distributed import get_worker
from numpy.typing import NDArray

import secvm
import secvm_lab
from secvm.errors import ClusterError
from secvm.learning.experiment import Experiment

if TYPE_CHECKING:
    from secvm.learning._kernels.layout import PreparedRows
    from secvm_lab.engine import CollapsedRows

    LaidOut = PreparedRows | CollapsedRows
    from secvm_lab.engine import Swept


#: Which arithmetic there is, and what pickles and messages look like.
_PACKAGES = ("numpy", "numba", "dask", "distributed")

Program = dict[str, str]


@cache
def _digest() -> str:
    hasher = hashlib.blake2b(digest_size=8)
    for package in (secvm, secvm_lab):
        folder = Path(*package.__path__)
        for source in sorted(folder.rglob("*.py")):
            hasher.update(f"{package.__name__} {source.relative_to(folder)}\n{source.stat().st_size}\n".encode())
            hasher.update(source.read_bytes())
    return hasher.hexdigest()


def this_program() -> Program:
    """What runs in this process, by name."""
    found = {"SecVM with the digest": _digest(), "Python": ".".join(str(n) for n in sys.version_info[:2])}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "(missing)"
    return found


def difference(there: Program, here: Program) -> str | None:
    """The first thing that is not the same, as the middle of a sentence; None: all is."""
    for name in here:
        if there.get(name) != here[name]:
            return f"runs {name} {there.get(name, '(missing)')}, and this machine {here[name]}"
    return None


_Value = TypeVar("_Value", bound=Any)


class Recipe(Protocol):
    """How to make rows. Equal recipes make equal rows on every machine; it is small, and pickle can carry it."""

    def prepared(self, *, threads: int) -> LaidOut:
        """Everybody in a layout that an engine takes."""


class SentRows:
    """Rows that were laid out elsewhere. Secret: they do not print themselves, nor does dask print them."""

    def __init__(self, rows: LaidOut) -> None:
        self.rows = rows

    def __repr__(self) -> str:
        return f"SentRows({self.rows!r})"

    def __setstate__(self, state: dict[str, LaidOut]) -> None:
        self.rows = settled(state["rows"])

    def __sizeof__(self) -> int:
        # dask asks, to know what moving them costs and when memory is short.
        rest = (table for table in vars(self.rows).values() if isinstance(table, np.ndarray))
        laid_out = getattr(self.rows, "prepared", None)
        return sum(table.nbytes for table in rest) + (laid_out.nbytes if laid_out is not None else 0)


def settled(value: _Value) -> _Value:
    """A dataclass that has travelled, with arrays as numpy makes them itself.

    dask packs small ones into one buffer, at odd addresses. Kernels would be compiled anew for those, and be slower.
    """
    found: dict[str, Any] = {}
    for field in fields(value):
        part = getattr(value, field.name)
        if isinstance(part, np.ndarray):
            found[field.name] = np.require(part, requirements=["C", "A", "W"])
        elif is_dataclass(part) and not isinstance(part, type):
            found[field.name] = settled(part)
        elif isinstance(part, dict):
            found[field.name] = {key: np.require(one, requirements=["C", "A", "W"]) for key, one in part.items()}
    return replace(value, **found)


class KeptRows:
    """The rows of the last recipe."""

    def __init__(self) -> None:
        self._last: tuple[Any, LaidOut] | None = None
        # Held while rows are made: whoever else wants them has to wait for them anyway.
        self._lock = threading.Lock()

    def get(self, recipe: Recipe, *, threads: int) -> LaidOut:
        """Its rows, made if they are not here."""
        with self._lock:
            if self._last is None or self._last[0] != recipe:
                self._last = None  # before the next are made
                self._last = recipe, recipe.prepared(threads=threads)
            return self._last[1]


#: Of this process.
KEPT = KeptRows()


def rows_of(people: SentRows | Recipe, *, threads: int) -> LaidOut:
    """On a worker: the rows themselves."""
    return people.rows if isinstance(people, SentRows) else KEPT.get(people, threads=threads)


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
