"""``secvm test``: the tests of this checkout, in tiers.

    tests/unit       one module at a time: no process, less than a second a case
    tests/contract   what several parts agree on: vectors, stores, decoders, the tree, the documents
    tests/system     real parties on this machine
    tests/deep       what takes long: attacks, statistics, kills, strangers' programs, browsers

The default is the first three with fixed seeds, so that a red test is red for everybody. ``--deep`` is all four at full
effort with new seeds. Three environment variables tell the tests, and ``tests/conftest.py`` reads them:
``SECVM_TEST_TIER``, ``SECVM_TEST_SEED`` and ``SECVM_TEST_MINUTES``.
"""

import hashlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.output import note
from secvm.errors import BadInputError
from secvm_lab.cli.dev import system_packages
from secvm_lab.cli.dev.checkout import call, find_or_refuse, tool

#: The longest cases first: so that at the end there are short ones to share out among workers.
DEFAULT_TIER = ("tests/system", "tests/contract", "tests/unit")
DEEP_TIER = ("tests/deep", *DEFAULT_TIER)


def run_tests(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[PYTEST ARGUMENTS]...", show_default=False)] = None,
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Run everything, at full effort, with new seeds.")] = False,
    minutes: Annotated[
        float | None, typer.Option("--minutes", metavar="M", help="With --deep: a slice, drawn by the seed.")
    ] = None,
    seed: Annotated[
        str | None, typer.Option("--seed", metavar="TEXT", help="With --deep: play the run with this seed again.")
    ] = None,
) -> None:
    """Run the tests; further arguments go to pytest.

    The default takes some minutes on two cores. --deep runs everything there is, prints its seed first, and takes
    about an hour; with --minutes it starts no test after that time, in an order drawn by the seed. Files and folders
    may be named instead. Example:

    \b
        ./secvm test
        ./secvm test tests/unit/crypto -x
        ./secvm test --deep --minutes 12 --seed 2bba600
    """
    root = find_or_refuse()
    if not deep and (minutes is not None or seed is not None):
        raise BadInputError(
            "--minutes and --seed belong to the deep tier; the default tier is always run whole, with fixed seeds",
            next_step="Add --deep.",
        )
    if minutes is not None and not minutes > 0:
        raise BadInputError(f"--minutes is {minutes:g} and must be greater than 0")
    given = _from_the_root(arguments or [])
    named = any(Path(argument.partition("::")[0]).exists() for argument in given)
    system_packages.provide(root, deep=deep or any("tests/deep" in argument for argument in given))
    options = ["--durations=10"]
    if not named:
        options += [*parallel(deep=deep), *(DEEP_TIER if deep else DEFAULT_TIER)]
    environment = {"SECVM_TEST_TIER": "default"}
    if deep:
        seed = seed if seed is not None else secrets.token_hex(8)
        note(f"secvm test: the seed of this run is {seed}; to play it again: ./secvm test --deep --seed {seed}")
        environment = {"SECVM_TEST_TIER": "deep", "SECVM_TEST_SEED": seed}
        # Hypothesis takes a number.
        options.append(f"--hypothesis-seed={int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], 'big')}")
    if minutes is not None:
        environment["SECVM_TEST_MINUTES"] = f"{minutes:g}"
    raise typer.Exit(call(tool("pytest", *options, *given), root, environment))


#: Options that are not ours are pytest's.
run_tests.context_settings = {"ignore_unknown_options": True}  # type: ignore[attr-defined]  # read by cli.main


def parallel(*, deep: bool = False) -> list[str]:
    """Options that let pytest use every core: idle workers take over tests from busy ones.

    One worker more than there are cores, because a third of the time tests wait for sockets, disks and processes. Those
    of the deep tier start many processes of their own, and have a worker for each core.
    """
    return ["-n", str((os.cpu_count() or 1) + (not deep)), "--dist", "worksteal"]


def _from_the_root(arguments: Sequence[str]) -> list[str]:
    """Name files absolutely: pytest runs in the checkout, wherever the caller stands."""
    given = []
    for argument in arguments:
        file, colons, inside = argument.partition("::")
        given.append(str(Path(file).resolve()) + colons + inside if Path(file).exists() else argument)
    return given
