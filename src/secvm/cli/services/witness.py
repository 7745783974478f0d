"""``secvm witness``: set one up, and run it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.commands import group
from secvm.cli.output import Format, FormatOption, emit
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
from secvm.cli.services import worth_another_start

app = group("Run a witness: it cosigns logs that only grow.")

Config = Annotated[
    Path, typer.Option(help="Settings of the witness, TOML; 'init' writes one.", metavar="FILE", show_default=False)
]


@app.command()
def serve(config: Config, passphrase_file: PassphraseFile = None, passphrase_fd: PassphraseFd = None) -> None:
    """Run the witness until SIGTERM or Ctrl-C.

    docs/how-to/run-a-witness.md explains every setting. What happens is told on stderr, a JSON object a line. A line
    with the event "fork" is evidence against a log: the page says what to do then. Example:

    \b
        ./secvm witness serve --config witness/witness.toml
    """
    from secvm.witness.main import serve as serve_witness

    with worth_another_start():
        serve_witness(config, passphrase_of(passphrase_file, passphrase_fd))


@app.command()
def key(
    config: Config,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Print the public key; make key and store if missing.

    The line is C2SP's: name, id and key. It goes to those whose logs are witnessed. A key that is there never gets a
    new store: it would cosign again what it has forgotten. Example:

    \b
        ./secvm witness key --config witness/witness.toml
    """
    from secvm.witness.main import make

    public = make(config, passphrase=passphrase_of(passphrase_file, passphrase_fd))
    emit(
        {"name": public.name, "key": public.key.data.hex(), "vkey": public.to_text()},
        output_format,
        text=public.to_text(),
    )


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Where its settings and its state shall be.", show_default=False)],
    name: Annotated[str, typer.Option(help="Its name under checkpoints: a host and a path, say.", show_default=False)],
    log: Annotated[
        list[str],
        typer.Option(
            help="A log: its name, a space, its key in hex; or its vkey. Repeat for more.",
            metavar="TEXT",
            show_default=False,
        ),
    ],
    output_format: FormatOption = Format.TXT,
) -> None:
    """Make a new witness, and print its public key.

    In the folder are then its settings, its private key, and an empty store. Example:

    \b
        ./secvm witness init witness --name witness.example/w1 --log "coordinator.example KEY"
    """
    from secvm.witness.main import SETTINGS_FILE, initialise

    public = initialise(folder, name=name, logs=log)
    settings = folder / SETTINGS_FILE
    emit(
        {"settings": str(settings), "name": public.name, "key": public.key.data.hex(), "vkey": public.to_text()},
        output_format,
        text=f"{public.to_text()}\n\nNow: ./secvm witness serve --config {settings}",
    )


@app.command("protect-keys")
def protect_keys(
    config: Config,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
    new_passphrase_file: NewPassphraseFile = None,
    new_passphrase_fd: NewPassphraseFd = None,
    remove: Remove = False,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Set, change or remove the passphrase of its keys.

    Killed at any moment, each file opens with the old passphrase or the new one, and running this again finishes it.
    docs/how-to/rotate-keys.md says how a service gets the passphrase. Example:

    \b
        ./secvm witness protect-keys --config witness.toml
    """
    from secvm.runtime.settings import read_settings
    from secvm.witness.settings import WitnessSettings

    paths = [read_settings(config, WitnessSettings).witness.key_file]
    protect_and_tell(
        paths,
        old=passphrase_of(passphrase_file, passphrase_fd),
        new=new_passphrase_of(new_passphrase_file, new_passphrase_fd, remove=remove),
        output_format=output_format,
    )
