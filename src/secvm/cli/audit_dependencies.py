"""``secvm dev audit-dependencies``: the pinned packages, their licences and what is known against them."""

from __future__ import annotations

from pathlib import Path

import typer

from secvm.cli.output import Format, emit
from secvm.errors import BadInputError

#: So that nobody takes a clean run for more than it is.
NO_DATABASE = (
    "No database of vulnerabilities was asked: requirements/advisories.toml is kept by hand. With a network:"
    " pip-audit --require-hashes -r requirements/run.txt"
)


def audit(root: Path, output_format: Format) -> None:
    """Tell every fault of the packages that this checkout pins; exit code 1 where there is one."""
    try:
        from secvm.cli.dependencies import LOCKS, Dependencies
    except ImportError:
        raise BadInputError("this needs the developers' packages", next_step="Use the launcher, ./secvm.") from None

    found = Dependencies(root)
    faults = found.check()
    counts = {lock: len(found.pins[lock]) for lock in LOCKS}
    told = "\n".join([*faults, f"{counts['dev']} pins, {len(faults)} faults. {NO_DATABASE}"])
    emit({"pins": counts, "faults": faults, "database": False}, output_format, text=told)
    if faults:
        raise typer.Exit(1)
