"""Data frames as people have them: what each column holds, whoever made the frame.

A frame is anything with named columns: a data frame of pandas, polars or another library, or a dict of columns. Only
its columns are asked for (``X[name]``), so that none of these libraries is needed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secvm.errors import BadInputError

#: Of a value that nobody has, by the names that libraries give its type.
_MISSING = {"NAType", "NaTType", "NoneType"}
_CATEGORIES = ("category", "categorical", "enum", "dictionary")
#: A day, where there is none.
_NO_DAY = np.datetime64("NaT", "D")


@dataclass(frozen=True, eq=False, repr=False)
class Values:
    """One column. Secret: it does not print itself.

    ``kind`` says what ``data`` is: "number" (float64, NaN where missing), "flag" (bools or None), "words" (texts or
    None), "lists" (lists of words or None), "date" (datetime64[D], NaT where missing).
    """

    kind: str
    data: NDArray[Any] | list[Any]

    def __len__(self) -> int:
        return len(self.data)


def is_frame(X: Any) -> bool:
    """Whether it has named columns. (A sparse matrix may be a dict of its entries.)"""
    if hasattr(X, "tocsr"):
        return False
    return isinstance(X, Mapping) or (hasattr(X, "columns") and hasattr(X, "__getitem__"))


def holds_numbers_only(X: Any) -> bool:
    """Whether all columns of a frame are plain numbers without a gap, so that it is as good as an array."""
    if isinstance(X, Mapping):
        return False
    kinds = {getattr(getattr(X[name], "dtype", None), "kind", "O") for name in names_of(X)}
    return kinds <= set("iufb") and not any(bool(np.isnan(X[name].to_numpy()).any()) for name in names_of(X))


def columns_of(X: Any) -> dict[str, Values]:
    """The columns of a frame by their names; one that cannot be used is named, with the way out."""
    names = names_of(X)
    texts = [str(name) for name in names]
    if not texts:
        raise BadInputError("the data frame has no columns")
    twice = next((text for k, text in enumerate(texts) if text in texts[:k]), None)
    if twice is not None:
        raise BadInputError(f"two columns are called '{twice}'; rename one of them")
    columns = {text: _values(text, X[name]) for text, name in zip(texts, names, strict=True)}
    first = texts[0]
    for text, values in columns.items():
        if len(values) != len(columns[first]):
            raise BadInputError(
                f"column '{text}' has {len(values)} values, column '{first}' {len(columns[first])}; give as many"
            )
    return columns


def names_of(X: Any) -> list[Any]:
    """What its columns are called."""
    if isinstance(X, Mapping):
        return list(X)
    return list(getattr(X, "column_names", X.columns))


def _values(name: str, column: Any) -> Values:
    dtype = str(getattr(column, "dtype", getattr(column, "type", ""))).lower()
    if dtype.startswith(_CATEGORIES):
        return Values("words", [None if is_missing(v) else word_of(v) for v in _listed(column)])
    array = column.to_numpy() if hasattr(column, "to_numpy") else column
    kind = array.dtype.kind if isinstance(array, np.ndarray) else "O"
    if getattr(array, "ndim", 1) != 1:
        raise BadInputError(f"column '{name}' has more than one value for a person; give each a column of its own")
    if kind == "M":
        return Values("date", array.astype("datetime64[D]"))
    if kind == "m":
        return Values("number", array / np.timedelta64(1, "D"))
    if kind == "b":
        return Values("flag", array)
    if kind in "iuf":
        return _numbers(name, array.astype(np.float64))
    return _objects(name, list(array))


def _listed(column: Any) -> list[Any]:
    for method in ("to_list", "to_pylist"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


def _numbers(name: str, array: NDArray[np.float64]) -> Values:
    if np.isinf(array).any():
        raise BadInputError(f"column '{name}' holds infinity; replace it by a number, or by nothing")
    return Values("number", array)


def _objects(name: str, values: list[Any]) -> Values:
    """A column of Python's objects: of what kind they are."""
    kinds = {_kind_of(v) for v in values} - {""}
    if len(kinds) > 1:
        mixed = " and ".join(sorted(kinds))
        # As text, a list of words would be one word.
        plain = kinds <= {"words", "number", "flag", "date"}
        way_out = "make it one of them, for example with astype(str)" if plain else "give lists of words to everybody"
        raise BadInputError(f"column '{name}' mixes {mixed}; {way_out}")
    kind = kinds.pop() if kinds else "words"
    if kind == "number":
        return _numbers(name, np.array([np.nan if is_missing(v) else float(v) for v in values], dtype=np.float64))
    if kind == "date":
        days = [_NO_DAY if is_missing(v) else np.datetime64(v.date() if isinstance(v, datetime) else v) for v in values]
        return Values("date", np.array(days, dtype="datetime64[D]"))
    if kind not in ("flag", "words", "lists"):
        raise BadInputError(
            f"column '{name}' holds values of the type {kind}; "
            "give text, categories, numbers, booleans, dates or lists of words"
        )
    return Values(kind, [None if is_missing(v) else v for v in values])


def _kind_of(value: Any) -> str:
    """The kind of one value; "" where there is none, and the name of its type where it is none of ours."""
    if is_missing(value):
        return ""
    match value:
        case str():
            return "words"
        case bool() | np.bool_():
            return "flag"
        case Real() | Decimal():
            return "number"
        case date() | np.datetime64():
            return "date"
        case list() | tuple() | set() | frozenset() | np.ndarray() if all(isinstance(word, str) for word in value):
            return "lists"
    return type(value).__name__


def is_missing(value: Any) -> bool:
    """Whether it is a gap: None, NaN, or what libraries have in their place."""
    return type(value).__name__ in _MISSING or (isinstance(value, float) and value != value)  # noqa: PLR0124 - NaN


def word_of(value: Any) -> str:
    """A value as text on one line; whole numbers without a point, so that 1 and 1.0 are one word."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return " ".join(str(value).split())
