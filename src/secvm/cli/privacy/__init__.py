"""``secvm privacy``: what can be said about an experiment's privacy in numbers, before there is one.

To add a command, write it in a file beside this one and register it at the end.
"""

from __future__ import annotations

from secvm.cli.commands import group
from secvm.cli.privacy.bins import bins
from secvm.cli.privacy.labels import labels, plan
from secvm.cli.privacy.statement import statement

app = group("Say in numbers what hides and what does not.")


@app.callback()
def _privacy() -> None:
    """Say in numbers what hides and what does not."""
    # With one command alone typer would drop its name; a callback keeps it a group.


app.command()(bins)
app.command()(labels)
app.command()(plan)
app.command()(statement)
