"""The laboratory's commands: ``COMMANDS`` is hung into ``secvm`` by an entry point (``secvm.cli.commands``).

To add one, write its function and a line here; its name goes into ``IN_LABORATORY`` there.
"""

from secvm.cli.commands import Command

COMMANDS = {
    "demo": Command(
        "secvm_lab.cli.demo:demo",
        "Train with two thousand devices on this machine under a guarantee, in about a minute.",
    ),
    "attack": Command(
        "secvm_lab.cli.attack:app", "Attack the system in every way that we know, without and with the defence."
    ),
    "simulate": Command(
        "secvm_lab.cli.simulate_population:simulate",
        "Simulate a population of devices over days, with cover and attacks.",
    ),
    "reproduce": Command("secvm_lab.cli.reproduce:app", "Make the paper's numbers and figures again."),
    "bench": Command("secvm_lab.cli.bench:bench", "Run a benchmark, or list them."),
    "dev chaos": Command(
        "secvm_lab.cli.chaos:chaos", "Disturb a federation of real processes, and hold it to the undisturbed one."
    ),
    "dev fuzz": Command("secvm_lab.cli.fuzz:fuzz", "Fuzz every decoder."),
    "dev house": Command(
        "secvm_lab.cli.house:house", "Count lines, modules and ways to do one thing, beside limits and earlier numbers."
    ),
    "dev screenshots": Command(
        "secvm_lab.cli.screenshots:screenshots", "Take pictures of every page, in light and dark, phone and desktop."
    ),
    "dev simulate": Command(
        "secvm_lab.cli.simulate:simulate", "Let everything happen to a federation until something breaks."
    ),
    "dev soak": Command(
        "secvm_lab.cli.soak:soak", "Load a coordinator steadily through many epochs, and watch what it uses."
    ),
    "dev trials": Command(
        "secvm_lab.cli.trials:trials", "Lie to devices in every way that we know, and count who notices."
    ),
}
