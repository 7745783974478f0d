"""What the commands of services share: their options, how they end, and ``protect-keys``.

A service whose store does not answer ends with 1, so that a service manager starts it again (deploy/). Settings and
keys are for a person to put right, and end with 2, which the units in deploy/ take for final.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.output import Format, FormatOption, note
from secvm.cli.passphrases import (
    NewPassphraseFd,
    NewPassphraseFile,
    PassphraseFd,
    PassphraseFile,
    Remove,
    new_passphrase_of,
    passphrase_of,
    protect_and_tell,
)
from secvm.errors import StoreError

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
