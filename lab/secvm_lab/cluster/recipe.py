"""Rows as the way to make them, and the rows that a worker keeps.

At the paper's scale rows take more than a gigabyte and are made in less time than a network carries them. So a sweep
takes a recipe as well: a small value that says how. Each worker process makes the rows once and keeps those of the
last recipe, for a second crowd beside the first may be one too many for its memory.
"""

from __future__ import annotations

import threading
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from secvm.learning._kernels.layout import PreparedRows
    from secvm_lab.engine import CollapsedRows

    LaidOut = PreparedRows | CollapsedRows

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
