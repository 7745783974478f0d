"""``secvm dev``: the commands of people who change the code; all of them work on a checkout (``checkout``).

To add one, write it in a file beside this one and register it here.
"""

from secvm.cli.commands import group
from secvm_lab.cli.dev import chaos, extension, maintenance, mutations, screenshots, searches, tiers

app = group("Commands for people who change the code.")
for _command in (
    *(maintenance.check, maintenance.fix, maintenance.lock, tiers.coverage, mutations.mutations, chaos.chaos),
    extension.extension,
    *(searches.fuzz, maintenance.house, screenshots.screenshots, searches.simulate, searches.soak, searches.trials),
):
    app.command()(_command)
