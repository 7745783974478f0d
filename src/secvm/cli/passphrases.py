"""Passphrases on the command line: where one comes from, and ``protect-keys`` of every party.

A passphrase is never an argument: other programs see those, and a shell remembers them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.output import Format, emit
from secvm.errors import BadInputError
from secvm.runtime.disk.passphrases import Passphrase
from secvm.runtime.disk.secret_files import check_new_passphrase, protect

PassphraseFile = Annotated[
    Path | None,
    typer.Option("--passphrase-file", help="The passphrase is the first line of this file.", show_default=False),
]
PassphraseFd = Annotated[
    int | None,
    typer.Option("--passphrase-fd", help="… or comes from this open descriptor.", show_default=False),
]
NewPassphraseFile = Annotated[
    Path | None,
    typer.Option("--new-passphrase-file", help="The new one is the first line of this file.", show_default=False),
]
NewPassphraseFd = Annotated[
    int | None,
    typer.Option("--new-passphrase-fd", help="… or comes from this open descriptor.", show_default=False),
]
Remove = Annotated[bool, typer.Option("--remove", help="Take the passphrase away: only the file's mode protects.")]


def passphrase_of(file: Path | None, descriptor: int | None) -> Passphrase:
    """From where the options say; else from systemd; else from the person at the terminal."""
    if file is not None and descriptor is not None:
        raise BadInputError("--passphrase-file and --passphrase-fd exclude each other")
    if file is not None:
        return Passphrase.in_file(file)
    if descriptor is not None:
        return Passphrase.in_descriptor(descriptor)
    return Passphrase.around(otherwise=_ask_old if sys.stdin is not None and sys.stdin.isatty() else None)


def new_passphrase_of(file: Path | None, descriptor: int | None, *, remove: bool) -> Passphrase | None:
    """The one that is to be set; None: none any more."""
    if sum([file is not None, descriptor is not None, remove]) > 1:
        raise BadInputError("--new-passphrase-file, --new-passphrase-fd and --remove exclude each other")
    if remove:
        return None
    if file is not None:
        return Passphrase.in_file(file)
    if descriptor is not None:
        return Passphrase.in_descriptor(descriptor)
    if sys.stdin is None or not sys.stdin.isatty():
        raise BadInputError(
            "nobody is there to type a new passphrase", next_step="Give --new-passphrase-file, or --remove."
        )
    return Passphrase(_ask_new)


def _ask_old() -> bytes:
    return str(typer.prompt("Passphrase (not shown)", hide_input=True, err=True)).encode()


def _ask_new() -> bytes:
    asked = typer.prompt("New passphrase (not shown)", hide_input=True, confirmation_prompt=True, err=True)
    return check_new_passphrase(str(asked).encode())


def protect_and_tell(paths: Sequence[Path], *, old: Passphrase, new: Passphrase | None, output_format: Format) -> None:
    """Put these files under the new passphrase, and say which were changed."""
    changed = protect(paths, old=old, new=new, dice=os.urandom)
    state = "without a passphrase" if new is None else "under the passphrase"
    lines = [f"{path}: {state}" + ("" if path in changed else " already") for path in paths]
    emit(
        {
            "protected": new is not None,
            "files": [str(path) for path in paths],
            "changed": [str(one) for one in changed],
        },
        output_format,
        text="\n".join(lines),
    )
