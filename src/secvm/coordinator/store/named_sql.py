"""SQL that is written in SQL: files in ``sql/``, in which each query has a name and a sentence.

    -- name --
    -- What it does.
    SELECT …;

``{sealed}`` stands for a table of one epoch: such names come from numbers alone (``epoch_tables``), never from outside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from secvm.errors import LocalProtocolError

FOLDER = files("secvm.coordinator.store") / "sql"
#: The tables that each epoch has for itself.
PER_EPOCH = ("sealed", "opened", "shards", "keys")
#: … and each batch.
PER_BATCH = ("seeds", "pieces", "runs")

#: Up to so many groups of a statement are parameters of their own.
_SINGLE_GROUPS = 16

_HEADING = re.compile(r"^-- (\w+) --$", re.MULTILINE)


@cache
def queries(name: str) -> Mapping[str, str]:
    """All queries of a file, by name."""
    text = (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    parts = _HEADING.split(text)[1:]
    names, bodies = parts[::2], parts[1::2]
    if len(set(names)) != len(names):
        raise LocalProtocolError(f"two queries of {name}.sql have one name")
    return {one: body.strip() for one, body in zip(names, bodies, strict=True)}


def epoch_tables(epoch: int) -> dict[str, str]:
    """What stands for ``{sealed}`` and the like."""
    if not 0 <= epoch < 2**63:
        raise LocalProtocolError("an epoch is a number that is not negative")
    return {"epoch": f"{epoch:d}", **{name: f"epoch_{epoch:d}_{name}" for name in PER_EPOCH}}


def batch_tables(batch: int) -> dict[str, str]:
    """What stands for ``{pieces}`` and the like."""
    if not 0 <= batch < 2**63:
        raise LocalProtocolError("a batch's id is a number that is not negative")
    return {name: f"batch_{batch:d}_{name}" for name in PER_BATCH}


def given_groups(groups: Sequence[bytes]) -> tuple[str, dict[str, object]]:
    """What stands for ``{groups}``, and its parameters. A few are one parameter each, which spares both sides a copy;
    many are an array, so that there are not too many statements to prepare.
    """
    if len(groups) > _SINGLE_GROUPS or not groups:
        return "unnest(%(groups)b::bytea[])", {"groups": list(groups)}
    names = [f"group_{i}" for i in range(len(groups))]
    values = ", ".join(f"(%({name})b::bytea)" for name in names)
    return f"(VALUES {values})", dict(zip(names, groups, strict=True))
