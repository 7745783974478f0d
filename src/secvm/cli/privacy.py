"""``secvm privacy``: what can be said about an experiment's privacy in numbers, before there is one.

To add a command, write it in a file beside this one and register it at the end.
"""

from __future__ import annotations

import typer

from secvm.cli.privacy_bins import bins
from secvm.cli.privacy_labels import labels, plan
from secvm.cli.privacy_statement import statement

app = typer.Typer(
    help="Say in numbers what hides and what does not.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback()
def _privacy() -> None:
    """Say in numbers what hides and what does not."""
    # With one command alone typer would drop its name; a callback keeps it a group.


app.command()(bins)
app.command()(labels)
app.command()(plan)
app.command()(statement)
