"""``secvm relay``: run a relay, and make what it needs."""

import enum
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

    docs/how-to/run-a-relay.md explains every setting. What happens is told on stderr as JSON lines, and nothing
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
    from secvm.relay.setting_up import make_key

    public = make_key(out).data.hex()
    emit({"key": public, "out": str(out)}, output_format, text=f"key   {public}   (public)\nfile  {out}")


@app.command()
def token(
    out: Annotated[Path, typer.Option(help="New file for the token.", metavar="FILE", show_default=False)],
    allow_in: Annotated[
        Path | None,
        typer.Option(
            help="List of clients' credentials that its SHA-256 is added to.", metavar="FILE", show_default=False
        ),
    ] = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Make a token or credential, and print its SHA-256.

    The coordinator and a relay know each other by a token. A relay that knows its clients by credential lets those in
    whose SHA-256 stands in its clients.credentials_file; it reads the file when it starts. Examples:

    \b
        ./secvm relay token --out relay.token
        ./secvm relay token --out person-1.credential --allow-in credentials
    """
    from secvm.relay.setting_up import make_token

    digest = make_token(out, allow_in)
    emit({"sha256": digest, "out": str(out)}, output_format, text=f"sha256  {digest}   (public)\nfile    {out}")


class InitRole(enum.StrEnum):
    """What a new relay does."""

    ENTRY = "entry"
    MIX = "mix"
    PLAIN = "plain"


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Folder for its settings and state.", show_default=False)],
    role: Annotated[
        InitRole, typer.Option(help="entry and mix add cover; plain is for experiments without.", show_default=False)
    ],
    operator: Annotated[str, typer.Option(help="Who runs it, as experiments will name them.", show_default=False)],
    url: Annotated[
        str, typer.Option(help="Where devices reach it; of a host alone /relay.", metavar="URL", show_default=False)
    ],
    coordinator: Annotated[str, typer.Option(help="The coordinator behind it.", metavar="URL", show_default=False)],
    period: Annotated[int, typer.Option(help="Seconds of a slot: the coordinator's period_s.", min=1)] = 3600,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Make a new relay, and print what the others need of it.

    In the folder are then its settings, its private key, and the token that the coordinator knows it by. Example:

    \b
        ./secvm relay init entry --role entry --operator "Example Foundation" \\
            --url https://relay.example/relay --coordinator https://coordinator.example
    """
    from secvm.relay.setting_up import SETTINGS_FILE, TOKEN_FILE, initialise
    from secvm.runtime.settings import settings_text

    grid = {"period_s": period}
    made = initialise(folder, role=role, operator=operator, url=url, coordinator=coordinator, grid=grid)
    settings, admitted = folder / SETTINGS_FILE, made.admitted(f"{role}.token")
    lines = [
        f"settings    {settings}",
        f"public key  {made.key}",
        f"token       {folder / TOKEN_FILE}   (secret: you and the coordinator's operator alone)",
        "",
        "For the coordinator's operator, into coordinator.toml"
        + (f", with a copy of the token beside it as {role}.token:" if role != "plain" else ":"),
        "",
        settings_text({"relays": [admitted]}),
        "For experiments:",
        "",
        settings_text({"relays": [made.specified]}),
        f"Look through the settings, then: ./secvm relay serve --config {settings}",
    ]
    content = {"settings": str(settings), "token_file": str(folder / TOKEN_FILE), "key": made.key, "admitted": admitted}
    emit({**content, "specified": made.specified}, output_format, text="\n".join(lines))


def _secret_files(config: Path) -> Sequence[Path]:
    from secvm.relay.main import secret_files
    from secvm.relay.settings import RelayServiceSettings
    from secvm.runtime.settings import read_settings

    return secret_files(read_settings(config, RelayServiceSettings))


add_protect_keys(app, "relay", _secret_files)
