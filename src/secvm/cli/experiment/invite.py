"""``secvm experiment invite``: the line that people are given so that they can take part."""

from __future__ import annotations

from typing import Annotated

import typer

from secvm.cli.coordinator_options import CoordinatorOption
from secvm.cli.output import Format, FormatOption, emit


def invite(
    experiment: Annotated[str, typer.Argument(help="Its digest, or how it begins.", show_default=False)],
    coordinator: CoordinatorOption,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Print the invite of an experiment, for people.

    The line names the entry relay and the experiment's digest. It is no secret: send it to whom you want to ask, or
    put it on a page. Example:

    \b
        ./secvm experiment invite 3fa9 --coordinator http://127.0.0.1:8750
    """
    from secvm.cli.experiment.remote import Remote
    from secvm.protocol.invite import Invite

    line = Invite.of(Remote(coordinator).experiment(experiment)).to_text()
    emit({"invite": line}, output_format, text=line)
