"""Whose coordinator a command asks, and with which admin key: options, and the variables that stand for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

COORDINATOR_VARIABLE, ADMIN_KEY_VARIABLE = "SECVM_COORDINATOR", "SECVM_ADMIN_KEY_FILE"

_COORDINATOR = typer.Option(
    "--coordinator", help="The coordinator's URL.", metavar="URL", envvar=COORDINATOR_VARIABLE, show_default=False
)
_ADMIN_KEY = typer.Option(
    "--admin-key-file",
    help="File that holds the admin key.",
    metavar="FILE",
    envvar=ADMIN_KEY_VARIABLE,
    show_default=False,
)
CoordinatorOption = Annotated[str, _COORDINATOR]
AdminKeyOption = Annotated[Path, _ADMIN_KEY]
#: For commands that can do without.
AnyCoordinator = Annotated[str | None, _COORDINATOR]
AnyAdminKey = Annotated[Path | None, _ADMIN_KEY]


def usual_coordinator() -> str | None:
    """The coordinator of the environment, for commands where something else that was said goes before it."""
    return os.environ.get(COORDINATOR_VARIABLE) or None
