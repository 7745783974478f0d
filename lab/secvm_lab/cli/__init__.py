"""The laboratory's commands: ``COMMANDS`` is hung into ``secvm`` by an entry point (``secvm.cli.commands``).

To add one, write its function and a line here; its name goes into ``IN_LABORATORY`` there.
"""

from secvm.cli.commands import Command

COMMANDS = {
    "demo": Command(
        "secvm_lab.cli.demo:demo",
        "Train with two thousand devices on this machine, in a minute.",
    ),
    "attack": Command("secvm_lab.cli.attack:app", "Run every known attack, without and with the defence."),
    "simulate": Command(
        "secvm_lab.cli.simulate_population:simulate",
        "Simulate devices over days, with cover and attacks.",
    ),
    "reproduce": Command("secvm_lab.cli.reproduce:app", "Reproduce the paper's numbers and figures."),
    "bench": Command("secvm_lab.cli.bench:bench", "Run a benchmark, or list them."),
    "test": Command("secvm_lab.cli.dev.tiers:run_tests", "Run the tests; further arguments go to pytest."),
    "dev": Command("secvm_lab.cli.dev:app", "Commands for people who change the code."),
    "privacy bins": Command(
        "secvm_lab.cli.privacy:bins",
        "Bound how likely features stand alone in a bin.",
    ),
    "privacy labels": Command(
        "secvm_lab.cli.privacy:labels",
        "Estimate how well public tallies give a label away.",
    ),
    "privacy plan": Command(
        "secvm_lab.cli.privacy:plan",
        "Plan an experiment by how well its labels hide.",
    ),
}
