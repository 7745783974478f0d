"""``secvm coordinator``: set one up, and run it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.output import Format, FormatOption, emit

app = typer.Typer(
    help="Run rounds: opens capsules, counts, publishes.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.command()
def serve(
    config: Annotated[Path, typer.Option(help="Settings, a TOML file; 'init' writes one.", show_default=False)],
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    What happens is told on stderr, a JSON object a line, and nothing about anybody is in it. Example:

    \b
        ./secvm coordinator serve --config coordinator/coordinator.toml
    """
    from secvm.coordinator.main import serve as serve_coordinator

    serve_coordinator(config)


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


@app.command()
def build_lanes(*, output_format: FormatOption = Format.TXT) -> None:
    """Compile the machine code that opens eight capsules at once.

    Needs a C compiler, and a CPU with AVX-512 IFMA and SHA extensions. A coordinator that starts afterwards
    finds the code by itself; without it, it opens one capsule after the other. Example:

    \b
        ./secvm coordinator build-lanes
    """
    from secvm.runtime.lanes import build_lanes as build
    from secvm.runtime.lanes import find_lanes

    folder = build()
    found = find_lanes()
    verdict = "a coordinator uses it" if found.lanes is not None else f"of no use on this machine: {found.reason}"
    emit(
        {"folder": str(folder), "usable": found.lanes is not None, "reason": found.reason},
        output_format,
        text=f"{folder}: {verdict}",
    )
