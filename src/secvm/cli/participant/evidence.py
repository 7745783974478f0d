"""``secvm participant evidence``: what a device holds against a server, in words and as a file for others."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.output import Format, FormatOption, confirmed, emit, note, program
from secvm.cli.participant.state import ConfigOption, FolderOption, device_of, known_digest, open_state
from secvm.errors import BadInputError


def evidence(
    experiment: Annotated[
        str | None, typer.Argument(help="The experiment's digest, or its first few digits.", show_default="all")
    ] = None,
    export: Annotated[
        Path | None, typer.Option("--export", help="Write one piece into this file.", show_default=False)
    ] = None,
    number: Annotated[int | None, typer.Option("--number", help="Which piece, where there are several.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: I know what the file may tell about me.")] = False,
    config: ConfigOption = None,
    folder: FolderOption = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Show or write out evidence against a server.

    The file holds what the server signed, and nothing of yours. Anybody can check it offline. Example:

    \b
        ./secvm participant evidence --export evidence.json
    """
    from secvm.files import write_atomically
    from secvm.participant.trust.evidence import WATERMARK, choose_one, evidence_of, in_a_list

    with closing(open_state(device_of(config, folder)[1])) as state:
        digest = None if experiment is None else known_digest(state, experiment)
        records = [record for record in state.records() if digest in (None, record.digest)]
        held = evidence_of(state, records)
    pieces = in_a_list(held)
    lines = [f"{piece['number']}. {piece['title']} ({piece['experiment']})\n   {piece['sentence']}" for piece in pieces]
    text = "\n".join(lines) or "This device holds nothing against any server."
    if export is not None:
        chosen = choose_one(held, number)
        if not yes:
            note(WATERMARK)
            if not confirmed("Write the file?", otherwise="--yes writes without asking."):
                raise BadInputError("nothing was written")
        try:
            write_atomically(export, chosen.data)
        except OSError as error:
            raise BadInputError(f"{export}: cannot be written: {error.strerror or 'input/output error'}") from None
        text = f"{chosen.sentence}\nWritten to {export}. Anybody can check it: {program()} audit --evidence {export}"
    emit({"evidence": pieces, "exported": None if export is None else str(export)}, output_format, text=text)
