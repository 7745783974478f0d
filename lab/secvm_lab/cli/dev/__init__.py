"""``secvm dev``: the commands of people who change the code; all of them work on a checkout (``checkout``).

To add one, write it in a file beside this one and register it here.
"""

from secvm.cli.commands import group
from secvm_lab.cli.dev import chaos, coverage, fuzz, house, maintenance, mutations, screenshots, simulate, soak, trials

app = group("Commands for people who change the code.")
for _command in (
    *(maintenance.check, maintenance.fix, maintenance.lock, coverage.coverage, mutations.mutations, chaos.chaos),
    *(fuzz.fuzz, house.house, screenshots.screenshots, simulate.simulate, soak.soak, trials.trials),
):
    app.command()(_command)
