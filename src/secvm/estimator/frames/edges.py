"""Numbers as words, by edges that nobody had to look at people for: ``age=[30,40)``.

Edges are given for a column, as a list or as a pair (low, high) that is cut into ``PARTS`` equal parts, or they are
those of ``GRID``: 1, 1.5, 2, 3, … 9 times every power of ten from a thousandth on, and the same below zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError

#: Parts of a range that is given by its two ends.
PARTS = 10
_STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
_ABOVE = tuple(float(f"{step}e{power}") for power in range(-3, 13) for step in _STEPS)
#: The edges of a column for which none are given.
GRID: tuple[float, ...] = (*(-edge for edge in reversed(_ABOVE)), *_ABOVE)


def read_edges(edges: Mapping[Any, Any] | None, names: list[str]) -> dict[str, tuple[float, ...]]:
    """The edges that are given, by the names of their columns."""
    by_column = {str(name): _edges_of(str(name), given) for name, given in (edges or {}).items()}
    for name in by_column:
        if name not in names:
            raise BadInputError(f"edges are given for '{name}', and there is no such column")
    return by_column


def _edges_of(name: str, given: Any) -> tuple[float, ...]:
    try:
        numbers = [float(edge) for edge in given]
    except (TypeError, ValueError):
        numbers = []
    rising = all(low < high for low, high in pairwise(numbers))
    if not numbers or not rising or not np.isfinite(numbers).all() or (isinstance(given, tuple) and len(numbers) != 2):
        raise BadInputError(
            f"edges of '{name}' must be a rising list of numbers, or a pair (low, high)",
            next_step=f"For example edges={{'{name}': [20, 30, 40]}} or edges={{'{name}': (0, 100)}}.",
        )
    if isinstance(given, tuple):
        low, high = numbers
        return tuple(low + (high - low) * k / PARTS for k in range(PARTS + 1))
    return tuple(numbers)


def interval_words(name: str, edges: tuple[float, ...]) -> list[str]:
    """The words of all intervals, from below the first edge to above the last."""
    written = [written_number(edge) for edge in edges]
    between = [f"{name}=[{low},{high})" for low, high in pairwise(written)]
    return [f"{name}<{written[0]}", *between, f"{name}>={written[-1]}"]


def interval_of(values: NDArray[np.float64], edges: tuple[float, ...]) -> NDArray[np.int64]:
    """The place of each value's interval among ``interval_words``."""
    return np.searchsorted(np.array(edges), values, side="right").astype(np.int64)


def written_number(edge: float) -> str:
    """A number as it stands in a word."""
    return str(int(edge)) if edge.is_integer() else repr(edge)
