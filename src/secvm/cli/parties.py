"""What the commands of parties share: where a passphrase comes from, ``protect-keys``, and how a service ends.

A passphrase is never an argument: other programs see those, and a shell remembers them.

A service whose store does not answer ends with 1, so that a service manager starts it again (deploy/). Settings and
keys are for a person to put right, and end with 2, which the units in deploy/ take for final.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.output import Format, FormatOption, emit, note
from secvm.errors import BadInputError, StoreError
from secvm.runtime.disk.secret_files import Passphrase, check_new_passphrase, protect

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
            "changed": [str(path) for path in changed],
        },
        output_format,
        text="\n".join(lines),
    )


ConfigOption = Annotated[
    Path, typer.Option("--config", help="Settings of the service, a TOML file.", metavar="FILE", show_default=False)
]

_PROTECT_HELP = """Set, change or remove the passphrase of its keys.

Killed at any moment, each file opens with the old passphrase or the new one, and running this again finishes it.
docs/how-to/rotate-keys.md says how a service gets the passphrase. Example:

\b
    ./secvm {0} protect-keys --config {0}.toml"""


@contextmanager
def worth_another_start() -> Iterator[None]:
    """Run a service in this."""
    try:
        yield
    except StoreError as fault:
        note(f"secvm: {fault}" + (f"\n{fault.next_step}" if fault.next_step else ""))
        raise typer.Exit(1) from None


def add_protect_keys(app: typer.Typer, party: str, secret_files: Callable[[Path], Sequence[Path]]) -> None:
    """Add ``protect-keys`` to the commands of a party; ``secret_files`` names its files by its settings' path."""

    @app.command(help=_PROTECT_HELP.format(party))
    def protect_keys(
        config: ConfigOption,
        passphrase_file: PassphraseFile = None,
        passphrase_fd: PassphraseFd = None,
        new_passphrase_file: NewPassphraseFile = None,
        new_passphrase_fd: NewPassphraseFd = None,
        remove: Remove = False,
        output_format: FormatOption = Format.TXT,
    ) -> None:
        protect_and_tell(
            secret_files(config),
            old=passphrase_of(passphrase_file, passphrase_fd),
            new=new_passphrase_of(new_passphrase_file, new_passphrase_fd, remove=remove),
            output_format=output_format,
        )
