"""Files with columns, CSV and Parquet: a row is a person, a column its label, the others what is known of the person.

CSV: UTF-8, a first line with the columns' names, then a line for each person; commas, semicolons or tabs between cells,
plain or gzipped. What a column holds is read off all of its cells:

 1. A cell with nothing in it, or one of ``NOTHING``, is missing. A column without a name (an index) is left out.
 2. Where all others are numbers as JSON writes them, the column is one of numbers: ``007`` is none, but a word.
 3. Where all are ``true`` or ``false``, in any case, it is one of flags; where all are days like ``2026-11-18``, dates.
 4. Any other column is one of text, as it stands.

Parquet says by itself what its columns hold; it needs pyarrow.

An error is one sentence, with the line where there is one. It shows names of columns at most, and none where the first
line may be a person's.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from secvm.errors import BadPeopleFileError
from secvm.people.person import label_number, number_text
from secvm.people.source import OpenFile, decoded, no_people, open_people, suffix_of

#: Cells that say that there is nothing.
NOTHING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"})
#: Between cells, the one that comes most often in the first line.
_SEPARATORS = ",;\t"
_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]*|(?=\.[0-9]))(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, eq=False, repr=False)
class Columns:
    """The people of a file with columns. Secret: it does not print itself."""

    #: Columns by name, but for the label: a dict of them, or a table of pyarrow.
    frame: Any
    #: Each person's label as text; None where it is missing, or nobody asked.
    labels: list[str | None]

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"Columns(<{len(self)} people>)"


def has_columns(path: str | os.PathLike[str]) -> bool:
    """Whether a file is one with columns, by its name."""
    return suffix_of(Path(path)) in (".csv", ".tsv", ".parquet")


def read_columns(
    path: str | os.PathLike[str],
    label: str | None,
    *,
    labels_required: bool = True,
    texts: Collection[str] = (),
) -> Columns:
    """All people of a CSV or Parquet file.

    Args:
        path: the file.
        label: the column that holds the label; None where nobody wants to know.
        labels_required: whether there must be such a column, and a label for everybody.
        texts: columns whose cells are text, whatever they look like.
    """
    path = Path(path)
    if suffix_of(path) == ".parquet":
        return _read_parquet(path, label, labels_required=labels_required)
    with open_people(path) as source:
        names, lines, cells = _read_cells(source)
        asked = _column_of_label(path, names, label, required=labels_required)
        columns = dict(zip(names, zip(*cells, strict=True), strict=True))
        labels: list[str | None] = [None] * len(cells)
        if asked is not None:
            labels = _labels(columns.pop(asked))
            if labels_required and None in labels:
                raise BadPeopleFileError(f"column '{asked}' has no label", line=lines[labels.index(None)])
    columns.pop("", None)
    return Columns({name: _column(column, as_text=name in texts) for name, column in columns.items()}, labels)


def _read_cells(source: OpenFile) -> tuple[list[str], list[int], list[list[str]]]:
    """The names of the columns, and the line and the cells of each person."""
    text = (decoded(line, number) + "\n" for number, line in enumerate(source.lines(), start=1))
    first = next(text, "")
    if not first.strip():
        raise BadPeopleFileError("the names of the columns are missing", line=1)
    rows = csv.reader(chain([first], text), delimiter=max(_SEPARATORS, key=first.count), strict=True)
    names, lines, cells, fault = list[str](), list[int](), list[list[str]](), None
    try:
        names = [name.strip() for name in next(rows)]
        for row in rows:
            if len(row) == len(names):
                lines.append(rows.line_num)
                cells.append([cell.strip() for cell in row])
            elif row:
                fault = f"{len(row)} cells, and there are {len(names)} columns"
                break
    except csv.Error as error:
        fault = f"this is no CSV ({error})"
    if fault is not None:
        raise BadPeopleFileError(fault, line=rows.line_num)
    twice = next((k for k, name in enumerate(names) if name and name in names[:k]), None)
    if twice is not None:
        places = f"{names.index(names[twice]) + 1} and {twice + 1}"
        raise BadPeopleFileError(f"columns {places} have one name", line=1, next_step="Rename one of them.")
    if not cells:
        raise no_people(source)
    return names, lines, cells


def _column_of_label(path: Path, names: Collection[str], label: str | None, *, required: bool) -> str | None:
    if label in names or (label is None and not required):
        return label
    some = _some_of(names)
    if label is None:
        raise BadPeopleFileError(
            f"{path}: this file has columns, and nobody says which one is the label",
            next_step=f"Give --label COLUMN{some and ', one of ' + some}.",
        )
    if not required:
        return None
    raise BadPeopleFileError(f"{path}: there is no column '{label}'", next_step=some and f"There are {some}.")


def _some_of(names: Collection[str]) -> str:
    """The names of the columns; nothing where one is a number, as then the first line may be a person's."""
    return "" if any(map(_NUMBER.fullmatch, names)) else ", ".join(name for name in names if name)


def _labels(cells: Collection[str]) -> list[str | None]:
    """Labels as text; of numbers as in other files of people, so that ``1.0`` and ``1`` are one."""
    texts = {cell: cell for cell in cells if cell not in NOTHING}
    numbers = {cell: number for cell in texts if (number := label_number(cell)) is not None}
    # One that is too large for a number makes texts of all.
    texts |= {cell: number_text(number) for cell, number in numbers.items() if len(numbers) == len(texts)}
    return [texts.get(cell) for cell in cells]


def _column(cells: Collection[str], *, as_text: bool) -> Any:
    there = [cell for cell in cells if cell not in NOTHING]
    if as_text or not there:
        return [None if cell in NOTHING else cell for cell in cells]
    if all(map(_NUMBER.fullmatch, there)):
        return np.array([np.nan if cell in NOTHING else float(cell) for cell in cells])
    if all(cell.lower() in ("true", "false") for cell in there):
        return [None if cell in NOTHING else cell.lower() == "true" for cell in cells]
    if all(map(_DAY.fullmatch, there)):
        try:
            return np.array(["NaT" if cell in NOTHING else cell for cell in cells], dtype="datetime64[D]")
        except ValueError:
            pass  # the 31st of February: it is text
    return [None if cell in NOTHING else cell for cell in cells]


def _read_parquet(path: Path, label: str | None, *, labels_required: bool) -> Columns:
    if find_spec("pyarrow") is None:
        raise BadPeopleFileError(
            f"{path}: Parquet needs pyarrow, which is not installed",
            next_step="Install it (pip install pyarrow), or save the file as CSV.",
        )
    parquet: Any = import_module("pyarrow.parquet")
    try:
        table = parquet.read_table(path)
    except (import_module("pyarrow").ArrowException, OSError):
        table = None
    # Raised outside the handler: the error might show a cell.
    if table is None:
        raise BadPeopleFileError(f"{path}: cannot be read as Parquet")
    if not table.num_rows:
        raise BadPeopleFileError(f"{path}: the file holds no people")
    asked = _column_of_label(path, table.column_names, label, required=labels_required)
    labels: list[str | None] = [None] * table.num_rows
    if asked is not None:
        labels = _labels(["" if value is None else str(value) for value in table[asked].to_pylist()])
        if labels_required and None in labels:
            raise BadPeopleFileError(f"{path}: a person has no label in column '{asked}'")
        table = table.drop_columns([asked])
    return Columns(table, labels)
