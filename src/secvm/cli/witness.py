"""``secvm witness``: set one up, and run it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.commands import group
from secvm.cli.output import Format, FormatOption, emit
from secvm.cli.parties import (
    ConfigOption,
    PassphraseFd,
    PassphraseFile,
    add_protect_keys,
    passphrase_of,
    worth_another_start,
)

app = group("Run a witness: it cosigns logs that only grow.")


@app.command()
def serve(config: ConfigOption, passphrase_file: PassphraseFile = None, passphrase_fd: PassphraseFd = None) -> None:
    """Run the witness until SIGTERM or Ctrl-C.

    docs/how-to/run-a-witness.md explains every setting. What happens is told on stderr as JSON lines. A line
    with the event "fork" is evidence against a log: the page says what to do then. Example:

    \b
        ./secvm witness serve --config witness/witness.toml
    """
    from secvm.witness.main import serve as serve_witness

    with worth_another_start():
        serve_witness(config, passphrase_of(passphrase_file, passphrase_fd))


@app.command()
def key(
    config: ConfigOption,
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
    folder: Annotated[Path, typer.Argument(help="Folder for its settings and state.", show_default=False)],
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
        text=(
            f"settings  {settings}\n"
            f"name      {public.name}\n"
            f"key       {public.to_text()}   (public)\n"
            "\n"
            f"The log's owner needs the key, and the URL of the witness. Now: ./secvm witness serve --config {settings}"
        ),
    )


def _secret_files(config: Path) -> Sequence[Path]:
    from secvm.runtime.settings import read_settings
    from secvm.witness.settings import WitnessSettings

    return [read_settings(config, WitnessSettings).witness.key_file]


add_protect_keys(app, "witness", _secret_files)
