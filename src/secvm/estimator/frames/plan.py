"""FramePlan: from the columns of a data frame to a person's features, learnt once and kept with the model.

================== ====================================================================================================
a column of        becomes
================== ====================================================================================================
text, categories   the word ``city=Rome``; what is missing or empty ``city=``
free text          one word for each of its words, ``review=good``: where most values are several words long and unique
lists of words     one word for each of them, ``tags=new``
booleans           the word ``member=true`` where it is true
dates              three words: ``joined.year=2024``, ``joined.month=3``, ``joined.weekday=tuesday``
counts             themselves, ``rain`` three times: whole numbers up to 255 that are mostly zero, or all zero or one
other numbers      their place between a few knots (``knots.py``): ``age@30`` and ``age@50``; what is missing ``age=``;
                   where most are zero, zero is no feature
numbers, binned    the word of its interval, ``age=[30,40)`` (``edges.py``): where edges are given, and where every
                   feature counts once, as with ``epsilon``. On the usual grid 0 is no word, and 1 the word ``age``.
================== ====================================================================================================

Under an ε nothing of this may depend on people's values: then numbers are always binned, and text is never taken for
free text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from secvm.errors import BadInputError
from secvm.estimator.frames.columns import Values, columns_of, is_frame, names_of, word_of
from secvm.estimator.frames.edges import GRID, interval_of, interval_words, read_edges, written_number
from secvm.estimator.frames.knots import inner_knots, learn_knots, parts_of
from secvm.estimator.frames.quantise import are_counts
from secvm.estimator.frames.words import is_text
from secvm.estimator.question import weighted_quantiles
from secvm.learning.individual.binning import VocabularyBinning

#: Bins under an ε, where nobody says how many: for each column of an array or a frame, and within these limits.
BINS_A_COLUMN, LEAST_BINS, MOST_BINS = 256, 1024, 4096
#: Free text has more words than this in a value, on average.
_WORDS_IN_A_NAME = 3
#: Of fewer people nothing is said about what they share.
_FEW = 20
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
#: Of what kinds of values the kinds of columns are made.
_MADE_OF = {
    "count": "number",
    "knots": "number",
    "amounts": "number",
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
    """How often each person has each of the words: people x words, a CSR matrix. Secret: it does not print itself."""

    words: list[str]
    counts: Any

    def vocabulary(self, weight: NDArray[np.float64] | None) -> VocabularyBinning:
        """The words of those who count, as bins; where they have none, as of constant numbers, any."""
        used = np.flatnonzero(
            (self.counts if weight is None else self.counts[np.flatnonzero(weight > 0)]).getnnz(axis=0)
        )
        return VocabularyBinning(tuple(self.words[k] for k in used.tolist()) or tuple(self.words))

    def by_person(self) -> Sequence[Mapping[str, int]]:
        """Each person's features, as a device has them."""
        starts, ids, values = (part.tolist() for part in (self.counts.indptr, self.counts.indices, self.counts.data))
        return [{self.words[k]: v for k, v in zip(ids[a:b], values[a:b], strict=True)} for a, b in pairwise(starts)]


@dataclass(frozen=True, slots=True)
class Column:
    """What is made of one column."""

    name: str
    kind: str
    #: Of kind "bins" its edges; of kind "knots", and "amounts" where zero is no feature, its knots.
    edges: tuple[float, ...] = ()

    def content(self) -> dict[str, Any]:
        """As the model file has it."""
        return {"name": self.name, "kind": self.kind} | ({"edges": list(self.edges)} if self.edges else {})

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Column:
        """From the model file."""
        column = cls(str(content["name"]), str(content["kind"]), tuple(float(e) for e in content.get("edges", ())))
        rising = all(low < high for low, high in pairwise(column.edges)) and np.isfinite(column.edges).all()
        lacking = (column.kind == "bins" and not column.edges) or (column.kind == "amounts" and 0.0 not in column.edges)
        if column.kind not in _MADE_OF or not rising or lacking:
            raise BadInputError("a column is of no kind that there is")
        return column


@dataclass(frozen=True, slots=True)
class FramePlan:
    """What is made of all columns."""

    columns: tuple[Column, ...]
    #: Columns whose texts are words that hardly anybody shares, as it was seen while learning; no file has it.
    unshared: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def learn(
        cls, X: Any, weight: NDArray[np.float64] | None = None, *, edges: Any = None, public: bool = False
    ) -> Self:
        """Look at the columns of those who count; with ``public`` only at their kinds."""
        by_name = columns_of(X)
        given = read_edges(edges, list(by_name))
        numbers = [name for name, values in by_name.items() if values.kind == "number"]
        for name in set(given) - set(numbers):
            raise BadInputError(f"edges are given for '{name}', which holds {_NOUN[by_name[name].kind]}, not numbers")
        people = len(next(iter(by_name.values())))
        counted = np.ones(people) if weight is None else weight
        inner = inner_knots(float(counted.sum()), len(numbers))
        learnt = _public if public else partial(_learnt, weight=counted, inner=inner)
        columns = tuple(
            Column(name, "bins", given[name]) if name in given else learnt(name, values)
            for name, values in by_name.items()
        )
        used = np.flatnonzero(counted > 0)
        words = [column.name for column in columns if column.kind == "words"]
        return cls(
            columns, tuple(name for name in words if _is_unshared([by_name[name].data[k] for k in used.tolist()]))
        )

    def doubts(self) -> Iterator[str]:
        """What somebody should know of these columns who trains on them."""
        for name in self.unshared:
            yield (
                f"column '{name}' holds texts that hardly two people share: each is a word of its own, and tells "
                "nothing of others. Leave the column out, or give each person's words as a list (in files: JSON lines)."
            )

    @property
    def names(self) -> list[str]:
        """The columns."""
        return [column.name for column in self.columns]

    @property
    def most_words(self) -> int | None:
        """The most features that a person can have, where the kinds of the columns bound it."""
        kinds = [column.kind for column in self.columns]
        if {"text", "lists", "knots", "amounts"} & set(kinds):
            return None
        # Year, month and weekday.
        return len(kinds) + 2 * kinds.count("date")

    @property
    def of_numbers(self) -> bool:
        """Whether all columns are numbers, so that an array will do."""
        return all(_MADE_OF[column.kind] == "number" for column in self.columns)

    def features(self, X: Any) -> Features:
        """Everybody's features; columns that the plan does not know are left out."""
        columns = columns_of(X)
        lacking = [name for name in self.names if name not in columns]
        if lacking:
            raise BadInputError(f"the model was fitted on columns that are not there: {', '.join(lacking)}")
        written = _Written(len(next(iter(columns.values()))))
        for column in self.columns:
            _write(written, column, _as_learnt(column, columns[column.name]))
        return written.features()

    def content(self) -> list[dict[str, Any]]:
        """The columns, as the model file has them."""
        return [column.content() for column in self.columns]

    @classmethod
    def read(cls, content: Sequence[Mapping[str, Any]]) -> Self:
        """From the model file."""
        return cls(tuple(Column.read(column) for column in content))


def _public(name: str, values: Values) -> Column:
    """What is made of a column of this kind, whatever its values are."""
    return Column(name, "grid" if values.kind == "number" else values.kind)


def _learnt(name: str, values: Values, *, weight: NDArray[np.float64], inner: tuple[float, ...]) -> Column:
    used = np.flatnonzero(weight > 0)
    if values.kind == "words" and _is_free_text([values.data[k] for k in used.tolist()]):
        return Column(name, "text")
    if values.kind != "number":
        return Column(name, values.kind)
    data = np.asarray(values.data)[used]
    known = ~np.isnan(data)
    column, weight = data[known], weight[used][known]
    if known.all() and are_counts(column, weight):
        return Column(name, "count")
    knots = learn_knots(column, weight, inner)
    mostly_zero = bool(column.size) and weighted_quantiles(column, weight, (0.5,)) == (0.0,)
    return Column(name, "amounts" if mostly_zero else "knots", knots)


def public_bins(X: Any) -> int:
    """Bins where nobody says how many: from the number of columns, and nothing of what is in them."""
    columns = 0
    if is_frame(X):
        columns = len(names_of(X))
    elif not is_text(X) and np.ndim(X) > 1:
        columns = int(np.shape(X)[1])
    return min(max(LEAST_BINS, BINS_A_COLUMN * columns), MOST_BINS)


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
        once = np.ones(len(owners), dtype=np.int64) if values is None else values
        self._parts.append((owners, places[ids] if len(ids) else ids, once))

    def features(self) -> Features:
        owners, ids, values = (np.concatenate(part).astype(np.int64) for part in zip(*self._parts, strict=True))
        # What is there several times is added.
        counts = sp.csr_matrix((values, (owners, ids)), shape=(self._people, len(self._index)))
        counts.sum_duplicates()
        counts.eliminate_zeros()
        return Features(list(self._index), counts)


def _write(written: _Written, column: Column, data: Any) -> None:
    """The words of one column."""
    name = column.name
    match column.kind:
        case "count":
            here = np.flatnonzero(data)
            # Rounded where a later row is no whole number after all.
            written.add(
                here, [name], np.zeros_like(here), np.rint(np.clip(data[here], -(2**31), 2**31)).astype(np.int64)
            )
        case "knots" | "amounts":
            parts = parts_of(data, column.edges)
            if column.kind == "amounts":
                parts[:, column.edges.index(0.0)] = 0
            here, ids = np.nonzero(parts)
            written.add(here, [f"{name}@{written_number(knot)}" for knot in column.edges], ids, parts[here, ids])
            _write_missing(written, name, np.isnan(data))
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


def _write_missing(written: _Written, name: str, missing: NDArray[np.bool_]) -> None:
    here = np.flatnonzero(missing)
    if here.size:
        written.add(here, [f"{name}="], np.zeros_like(here), None)


def _write_words(written: _Written, name: str, data: Iterable[Any], split: Callable[[Any], Iterable[str]]) -> None:
    """A value is split once, however many people have it."""
    index: dict[str, int] = {}
    places: dict[Any, list[int]] = {None: [index.setdefault("", 0)]}
    rows = []
    for value in data:
        if value not in places:
            places[value] = [index.setdefault(word_of(word), len(index)) for word in split(value)]
        rows.append(places[value])
    ids = np.array([k for person in rows for k in person], dtype=np.int64)
    owners = np.repeat(np.arange(len(rows)), [len(person) for person in rows])
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
    _write_missing(written, name, np.isnat(days))
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
    wanted = _MADE_OF[column.kind]
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


def _is_unshared(texts: Sequence[Any]) -> bool:
    """Whether most values are there once only, as those of names and of accounts are."""
    there = [text for text in texts if text]
    return len(there) >= _FEW and 2 * len(set(there)) > len(there)


def _is_free_text(texts: Sequence[Any]) -> bool:
    """Whether most values are there once only, and are several words long."""
    there = [text for text in texts if text]
    lengths = sum(len(text.split()) for text in there)
    return bool(there) and 2 * len(set(there)) > len(there) and lengths > _WORDS_IN_A_NAME * len(there)
