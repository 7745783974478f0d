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
    "test": Command("secvm_lab.cli.dev.tiers:run_tests", "Run the tests; further arguments go to pytest."),
    "dev": Command("secvm_lab.cli.dev:app", "Commands for people who change the code."),
    "privacy bins": Command(
        "secvm_lab.cli.privacy_bins:bins",
        "Bound how likely features stand alone in a bin, and say how well popular ones hide.",
    ),
    "privacy labels": Command(
        "secvm_lab.cli.privacy_labels:labels",
        "Say how well somebody who knows a person's bins finds the label in public tallies.",
    ),
    "privacy plan": Command(
        "secvm_lab.cli.privacy_labels:plan",
        "Plan an experiment by how well labels hide: what it leaks, and what would have to change.",
    ),
}
