"""``secvm relay``: run a relay, and make what it needs."""

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

app = group("Run a relay: it knows who, not what.")


@app.command()
def serve(
    config: ConfigOption,
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


def _secret_files(config: Path) -> Sequence[Path]:
    from secvm.relay.main import secret_files
    from secvm.relay.settings import RelayServiceSettings
    from secvm.runtime.settings import read_settings

    return secret_files(read_settings(config, RelayServiceSettings))


add_protect_keys(app, "relay", _secret_files)
