"""``secvm coordinator``: set one up, and run it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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

app = typer.Typer(
    help="Run rounds: opens capsules, counts, publishes.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Config = Annotated[Path, typer.Option(help="Settings, a TOML file; 'init' writes one.", show_default=False)]


@app.command()
def serve(
    config: Config,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    What happens is told on stderr, a JSON object a line, and nothing about anybody is in it. Example:

    \b
        ./secvm coordinator serve --config coordinator/coordinator.toml
    """
    from secvm.coordinator.main import serve as serve_coordinator

    serve_coordinator(config, passphrase_of(passphrase_file, passphrase_fd))


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Where its settings and its state shall be.", show_default=False)],
    output_format: FormatOption = Format.TXT,
) -> None:
    """Write settings and keys for a new coordinator, and show its admin key, once.

    Example:

    \b
        ./secvm coordinator init coordinator
    """
    from secvm.coordinator.main import SETTINGS_FILE, initialise, log_key

    admin_key = initialise(folder)
    settings, public = folder / SETTINGS_FILE, log_key(folder).data.hex()
    text = (
        f"settings   {settings}\n"
        f"admin key  {admin_key}\n"
        f"log key    {public}   (public: for witnesses, if the rounds shall stand in a log)\n"
        "\n"
        "The admin key is shown this once; the coordinator keeps only its SHA-256. Put it into a file that only you\n"
        f"can read. Look through the settings, then: ./secvm coordinator serve --config {settings}"
    )
    emit({"settings": str(settings), "admin_key": admin_key, "log_key": public}, output_format, text=text)


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
    """Put the keys that sign and log under a passphrase, change it, or take it away.

    Killed at any moment, each file opens with the old passphrase or the new one, and running this again finishes it.
    docs/how-to/rotate-keys.md says how a service gets the passphrase. Example:

    \b
        ./secvm coordinator protect-keys --config coordinator.toml
    """
    from secvm.coordinator.keys import secret_files

    paths = secret_files(config)
    protect_and_tell(
        paths,
        old=passphrase_of(passphrase_file, passphrase_fd),
        new=new_passphrase_of(new_passphrase_file, new_passphrase_fd, remove=remove),
        output_format=output_format,
    )


@app.command("new-admin-key")
def new_admin_key(config: Config, output_format: FormatOption = Format.TXT) -> None:
    """Make another admin key, and show it, once. The old one ends with the next start.

    Example:

    \b
        ./secvm coordinator new-admin-key --config coordinator/coordinator.toml
    """
    import os

    from secvm.coordinator.keys import new_admin_key as make_admin_key

    key = make_admin_key(config, os.urandom)
    text = (
        f"admin key  {key}\n"
        "\n"
        "It is shown this once; the coordinator keeps only its SHA-256. Restart the coordinator: until then the old\n"
        "key is the one that counts."
    )
    emit({"admin_key": key}, output_format, text=text)
