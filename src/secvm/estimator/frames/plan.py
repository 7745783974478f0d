"""FramePlan: from the columns of a data frame to a person's features, learnt once and kept with the model.

================== ====================================================================================================
a column of        becomes
================== ====================================================================================================
text, categories   the word ``city=Rome``; what is missing or empty ``city=``
free text          one word for each of its words, ``review=good``: where most values are several words long and unique
lists of words     one word for each of them, ``tags=new``
booleans           the word ``member=true`` where it is true
dates              three words: ``joined.year=2024``, ``joined.month=3``, ``joined.weekday=tuesday``
numbers            a level (``quantise.py``), so that all have one scale; what is missing is level 0 and ``age=``
numbers, binned    the word of its interval, ``age=[30,40)`` (``edges.py``): where edges are given, and where every
                   feature counts once, as with ``epsilon``. On the usual grid 0 is no word, and 1 the word ``age``.
================== ====================================================================================================

Under an ε nothing of this may depend on people's values: then numbers are always binned, and text is never taken for
free text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.estimator.frames.columns import Values, columns_of, word_of
from secvm.estimator.frames.edges import GRID, interval_of, interval_words, read_edges
from secvm.estimator.frames.quantise import Quantiser
from secvm.estimator.frames.words import vocabulary
from secvm.learning.individual.binning import VocabularyBinning

#: Free text has more words than this in a value, on average.
_WORDS_IN_A_NAME = 3
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
#: Of what column kinds are read.
_READ_FROM = {
    "number": "number",
    "bins": "number",
    "grid": "number",
    "flag": "flag",
    "words": "words",
    "text": "words",
    "lists": "lists",
    "date": "date",
}
_NOUN = {"number": "numbers", "flag": "booleans", "words": "text", "lists": "lists of words", "date": "dates"}
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, eq=False, repr=False)
class Features:
    """People's features: person i has ``words[ids[k]]``, ``values[k]`` times, for k from starts[i] to starts[i + 1]."""

    words: list[str]
    starts: NDArray[np.int64]
    ids: NDArray[np.int64]
    values: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def vocabulary(self, weight: NDArray[np.float64] | None) -> VocabularyBinning:
        """The words of those who count, as bins."""
        ids = self.ids if weight is None else self.ids[np.repeat(weight > 0, np.diff(self.starts))]
        return VocabularyBinning(vocabulary([[self.words[k] for k in np.unique(ids).tolist()]]))

    def by_person(self) -> Sequence[Mapping[str, int]]:
        """Each person's features, as a device has them."""
        people: list[Counter[str]] = [Counter() for _ in range(len(self))]
        owners = np.repeat(np.arange(len(self)), np.diff(self.starts)).tolist()
        for owner, k, value in zip(owners, self.ids.tolist(), self.values.tolist(), strict=True):
            people[owner][self.words[k]] += value
        return people


@dataclass(frozen=True, slots=True)
class Column:
    """What is made of one column."""

    name: str
    kind: str
    #: Of kind "bins".
    edges: tuple[float, ...] = ()

    def content(self) -> dict[str, Any]:
        """As the model file has it."""
        return {"name": self.name, "kind": self.kind} | ({"edges": list(self.edges)} if self.edges else {})

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Column:
        """From the model file."""
        column = cls(str(content["name"]), str(content["kind"]), tuple(float(e) for e in content.get("edges", ())))
        if column.kind not in _READ_FROM or (column.kind == "bins") != bool(column.edges):
            raise BadInputError("a column is of no kind that there is")
        return column


@dataclass(frozen=True, eq=False)
class FramePlan:
    """What is made of all columns, and the levels of those that are numbers."""

    columns: tuple[Column, ...]
    #: Of the columns of kind "number", in their order.
    quantiser: Quantiser

    @classmethod
    def learn(
        cls, X: Any, weight: NDArray[np.float64] | None = None, *, edges: Any = None, public: bool = False
    ) -> Self:
        """Look at the columns of those who count; with ``public`` only at their kinds."""
        found = columns_of(X)
        given = read_edges(edges, list(found))
        used = slice(None) if weight is None else np.flatnonzero(weight > 0)
        columns = []
        for name, values in found.items():
            kind = values.kind
            if name in given and kind != "number":
                raise BadInputError(f"edges are given for '{name}', which holds {_NOUN[kind]}; edges are for numbers")
            if kind == "number" and (public or name in given):
                kind = "bins" if name in given else "grid"
            elif kind == "words" and not public and _is_free_text(np.array(values.data, dtype=object)[used]):
                kind = "text"
            columns.append(Column(name, kind, given.get(name, ())))
        numbers = [found[c.name].data for c in columns if c.kind == "number"]
        x = np.array(numbers, dtype=np.float64).reshape(len(numbers), len(next(iter(found.values())))).T
        return cls(tuple(columns), Quantiser.learn(x, weight))

    @property
    def names(self) -> list[str]:
        """The columns."""
        return [column.name for column in self.columns]

    def features(self, X: Any) -> Features:
        """Everybody's features; columns that the plan does not know are left out."""
        found = columns_of(X)
        lacking = [name for name in self.names if name not in found]
        if lacking:
            raise BadInputError(f"the model was fitted on columns that are not there: {', '.join(lacking)}")
        people = len(next(iter(found.values())))
        written = _Written(people)
        for column in self.columns:
            _write(written, column, _as_learnt(column, found[column.name]))
        numbers = [column.name for column in self.columns if column.kind == "number"]
        if numbers:
            x = np.array([_as_learnt(Column(n, "number"), found[n]) for n in numbers]).T
            levels = self.quantiser.levels(x).tocoo()
            written.add(levels.row.astype(np.int64), numbers, levels.col.astype(np.int64), levels.data)
        return written.features()

    def content(self) -> list[dict[str, Any]]:
        """The columns, as the model file has them."""
        return [column.content() for column in self.columns]

    @classmethod
    def read(cls, content: Sequence[Mapping[str, Any]], quantiser: Quantiser) -> Self:
        """From the model file."""
        plan = cls(tuple(Column.read(column) for column in content), quantiser)
        if sum(c.kind == "number" for c in plan.columns) != len(quantiser.centre):
            raise BadInputError("columns of numbers and their levels do not fit")
        return plan


class _Written:
    """Features as they are collected, column by column."""

    def __init__(self, people: int) -> None:
        self._people = people
        self._index: dict[str, int] = {}
        self._parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []

    def add(
        self, owners: NDArray[np.int64], words: Sequence[str], ids: NDArray[np.int64], values: NDArray[np.int64] | None
    ) -> None:
        """The words ``words[ids]`` of these people; ``values`` where they are not 1."""
        places = np.array([self._index.setdefault(word, len(self._index)) for word in words], dtype=np.int64)
        once = np.ones(len(owners), dtype=np.int64) if values is None else values.astype(np.int64)
        self._parts.append((owners, places[ids] if len(words) else ids, once))

    def features(self) -> Features:
        owners, ids, values = (np.concatenate(part).astype(np.int64) for part in zip(*self._parts, strict=True))
        order = np.argsort(owners, kind="stable")
        starts = np.searchsorted(owners[order], np.arange(self._people + 1)).astype(np.int64)
        return Features(list(self._index), starts, ids[order], values[order])


def _write(written: _Written, column: Column, data: Any) -> None:
    """The words of one column. Numbers as levels come later, all at once."""
    name = column.name
    match column.kind:
        case "number":
            missing = np.flatnonzero(np.isnan(data))
            written.add(missing, [f"{name}="], np.zeros_like(missing), None)
        case "bins" | "grid":
            _write_intervals(written, column, data)
        case "date":
            _write_dates(written, name, data)
        case "flag":
            true = np.array([k for k, value in enumerate(data) if value is not None and value], dtype=np.int64)
            written.add(true, [f"{name}=true"], np.zeros_like(true), None)
        case "words":
            _write_words(written, name, data, lambda text: (word_of(text),))
        case "text":
            _write_words(written, name, data, lambda text: _WORD.findall(text.lower()) or ("",))
        case "lists":
            _write_words(written, name, [None if v is None else tuple(v) for v in data], lambda words: words)


def _write_words(written: _Written, name: str, data: Iterable[Any], split: Callable[[Any], Iterable[str]]) -> None:
    """A value is split once, however many people have it."""
    index: dict[str, int] = {}
    places: dict[Any, list[int]] = {None: [index.setdefault("", 0)]}
    found = []
    for value in data:
        if value not in places:
            places[value] = [index.setdefault(word_of(word), len(index)) for word in split(value)]
        found.append(places[value])
    ids = np.array([k for person in found for k in person], dtype=np.int64)
    owners = np.repeat(np.arange(len(found)), [len(person) for person in found])
    written.add(owners, [f"{name}={word}" for word in index], ids, None)


def _write_intervals(written: _Written, column: Column, data: NDArray[np.float64]) -> None:
    edges = column.edges or GRID
    words = [*interval_words(column.name, edges), f"{column.name}=", column.name]
    places = np.where(np.isnan(data), len(words) - 2, interval_of(data, edges))
    here = np.arange(len(data))
    if column.kind == "grid":
        places = np.where(data == 1, len(words) - 1, places)
        here = np.flatnonzero(data != 0)
    written.add(here, words, places[here], None)


def _write_dates(written: _Written, name: str, days: NDArray[np.datetime64]) -> None:
    missing = np.flatnonzero(np.isnat(days))
    written.add(missing, [f"{name}="], np.zeros_like(missing), None)
    here = np.flatnonzero(~np.isnat(days))
    known = days[here]
    years = known.astype("datetime64[Y]").astype(np.int64) + 1970
    there, places = np.unique(years, return_inverse=True)
    written.add(here, [f"{name}.year={year}" for year in there.tolist()], places.astype(np.int64), None)
    months = known.astype("datetime64[M]").astype(np.int64) % 12
    written.add(here, [f"{name}.month={month + 1}" for month in range(12)], months, None)
    # 1970 began on a Thursday.
    written.add(here, [f"{name}.weekday={day}" for day in _WEEKDAYS], (known.astype(np.int64) + 3) % 7, None)


def _as_learnt(column: Column, values: Values) -> Any:
    """The values, if they are what the plan learnt of; a column of gaps is anything, and any value can be a word."""
    wanted = _READ_FROM[column.kind]
    if values.kind == wanted:
        return values.data
    if wanted == "words" and values.kind in ("number", "flag"):
        numbers = values.data.tolist() if isinstance(values.data, np.ndarray) else values.data
        return [None if v is None or v != v else word_of(v) for v in numbers]  # noqa: PLR0124 - NaN
    if values.kind == "words" and all(v is None for v in values.data):
        if wanted in ("number", "date"):
            return np.full(len(values), np.nan) if wanted == "number" else np.full(len(values), "NaT", "datetime64[D]")
        return values.data
    raise BadInputError(
        f"column '{column.name}' held {_NOUN[wanted]} when the model was fitted, and {_NOUN[values.kind]} now"
    )


def _is_free_text(texts: NDArray[Any]) -> bool:
    """Whether most values are there once only, and are several words long."""
    there = [text for text in texts.tolist() if text]
    lengths = sum(len(text.split()) for text in there)
    return bool(there) and 2 * len(set(there)) > len(there) and lengths > _WORDS_IN_A_NAME * len(there)
