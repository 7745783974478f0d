"""``secvm relay``: run a relay, and make what it needs."""

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

app = group("Run a relay: it knows who, not what.")

Config = Annotated[Path, typer.Option(help="Settings of the relay, TOML.", metavar="FILE", show_default=False)]


@app.command()
def serve(
    config: Config,
    passphrase_file: PassphraseFile = None,
    passphrase_fd: PassphraseFd = None,
) -> None:
    """Run the relay until SIGTERM or Ctrl-C.

    docs/how-to/run-a-relay.md explains every setting. What happens is told on stderr, a JSON object a line, and nothing
    about anybody is in it. Example:

    \b
        ./secvm relay serve --config relay.toml
    """
    from secvm.relay.main import serve as serve_relay

    with worth_another_start():
        serve_relay(config, passphrase_of(passphrase_file, passphrase_fd))


@app.command()
def key(
    out: Annotated[Path, typer.Option(help="New file for the private key.", metavar="FILE", show_default=False)],
    output_format: FormatOption = Format.TXT,
) -> None:
    """Make a relay's signing key, and print its public half.

    The public half goes into experiments, under [[relays]]. Example:

    \b
        ./secvm relay key --out relay.key
    """
    from secvm.relay.main import make_key

    public = make_key(out).data.hex()
    emit({"key": public, "out": str(out)}, output_format, text=public)


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
        ./secvm relay protect-keys --config relay.toml
    """
    from secvm.relay.main import secret_files
    from secvm.relay.settings import RelayServiceSettings
    from secvm.runtime.settings import read_settings

    paths = secret_files(read_settings(config, RelayServiceSettings))
    protect_and_tell(
        paths,
        old=passphrase_of(passphrase_file, passphrase_fd),
        new=new_passphrase_of(new_passphrase_file, new_passphrase_fd, remove=remove),
        output_format=output_format,
    )
