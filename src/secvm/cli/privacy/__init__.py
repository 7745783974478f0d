"""``secvm privacy``: what can be said about an experiment's privacy in numbers, before there is one.

To add a command, write it in a file beside this one and register it at the end. The laboratory adds ``bins``,
``labels`` and ``plan``.
"""

from __future__ import annotations

from secvm.cli.commands import added, group
from secvm.cli.privacy.statement import statement

app = group("Compute privacy bounds and leakage estimates.")


@app.callback()
def _privacy() -> None:
    """Compute privacy bounds and leakage estimates."""
    # With one command alone typer would drop its name; a callback keeps it a group.


for _name, _command in added().items():
    if _name.startswith("privacy "):
        app.command(_name.removeprefix("privacy "))(_command.find())
app.command()(statement)
