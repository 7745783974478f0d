"""The named queries of a coordinator's store, in the files of ``sql/``, where each has a name and a sentence:

-- name --
-- What it does.
SELECT …;
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from secvm.errors import LocalProtocolError

FOLDER = files("secvm.coordinator.store") / "sql"

#: A query's answer, row by row; what a column holds is the query's affair.
Row = tuple[Any, ...]

_HEADING = re.compile(r"^-- (\w+) --$", re.MULTILINE)


class NoTableError(Exception):
    """A query names a table that is not there (any more)."""


@cache
def queries(*names: str) -> Mapping[str, str]:
    """All queries of these files, by name."""
    gathered: dict[str, str] = {}
    for name in names:
        parts = _HEADING.split((FOLDER / f"{name}.sql").read_text(encoding="utf-8"))[1:]
        for heading, body in zip(parts[::2], parts[1::2], strict=True):
            if heading in gathered:
                raise LocalProtocolError(f"two queries have the name {heading}")
            gathered[heading] = body.strip()
    return gathered


def for_sqlite(query: str) -> str:
    """A query of PostgreSQL as SQLite reads it: its parameters are ``:name``, and its transactions hold all rows."""
    return re.sub(r" FOR (?:SHARE|UPDATE)", "", re.sub(r"%\((\w+)\)[sb]", r":\1", query))
