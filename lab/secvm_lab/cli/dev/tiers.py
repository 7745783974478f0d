"""``secvm test`` and ``secvm dev coverage``: the tests of this checkout, in tiers, and what they reach.

    tests/unit       one module at a time: no process, less than a second a case
    tests/contract   what several parts agree on: vectors, stores, decoders, the tree, the documents
    tests/system     real parties on this machine
    tests/deep       what takes long: attacks, statistics, kills, strangers' programs, browsers

The default is the first three with fixed seeds, so that a red test is red for everybody. ``--deep`` is all four at full
effort with new seeds. Three environment variables tell the tests, and ``tests/conftest.py`` reads them:
``SECVM_TEST_TIER``, ``SECVM_TEST_SEED`` and ``SECVM_TEST_MINUTES``.

What tests need from the system is found, installed with apt-get when this user may, or named when it is missing. The
lists are ``tests/system_packages.txt`` and, for the deep tier alone, ``tests/deep/system_packages.txt``. A test whose
program is missing fails with a sentence that names the package.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.output import Format, FormatOption, emit, note
from secvm.errors import BadInputError
from secvm_lab.cli.dev.checkout import call, find_or_refuse, tool

#: A package index that does not answer must not hold the tests up for long.
_APT = (
    "apt-get",
    "-qq",
    "-o",
    "Acquire::Retries=1",
    "-o",
    "Acquire::http::Timeout=20",
    "-o",
    "DPkg::Lock::Timeout=120",
)
_LIMIT_S = 600

Which = Callable[[str], str | None]


def wanted(list_file: Path) -> dict[str, tuple[str, ...]]:
    """Read the list: package to the programs of which one will do."""
    lines = (line.partition("#")[0].strip() for line in list_file.read_text(encoding="utf-8").splitlines())
    return {package.strip(): tuple(programs.split()) for package, _, programs in (x.partition(":") for x in lines if x)}


def find(program: str) -> str | None:
    """Where a program is; of a package that has none, one of its files, named by its whole path."""
    return shutil.which(program) or (program if program.startswith("/") and Path(program).is_file() else None)


def missing(packages: Mapping[str, Sequence[str]], which: Which = find) -> list[str]:
    """Name the packages of which no program is there."""
    return [package for package, programs in packages.items() if not any(which(program) for program in programs)]


def provide(
    root: Path,
    *,
    deep: bool = False,
    which: Which = find,
    run: Callable[[Sequence[str]], bool] | None = None,
) -> None:
    """Install what is missing if this user may, and say what is still missing.

    Packages are installed one by one: not every system has all of them, and one that it lacks must not stop the others.
    """
    packages = wanted(root / "tests/system_packages.txt")
    if deep:
        packages |= wanted(root / "tests/deep/system_packages.txt")
    absent = missing(packages, which)
    run = run or _run_quietly
    if absent and os.geteuid() == 0 and which("apt-get"):
        note(f"secvm test: installing {', '.join(absent)} with apt-get (only this once)")
        # Its lists of packages may be old, with browsers of last summer, or not there at all.
        run([*_APT, "update"])
        for name in absent:
            run([*_APT, "install", "-y", "--no-install-recommends", name])
        absent = missing(packages, which)
    if absent:
        note(f"secvm test: missing from this system: {', '.join(absent)}; as root: apt-get install {' '.join(absent)}")


def _run_quietly(command: Sequence[str]) -> bool:
    """Run a command without a word; tell whether it worked."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(  # noqa: S603  (apt-get with packages of our own list)
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


#: The longest cases first: so that at the end there are short ones to share out among workers.
DEFAULT_TIER = ("tests/system", "tests/contract", "tests/unit")
DEEP_TIER = ("tests/deep", *DEFAULT_TIER)
#: Seconds after which a test of a tier is taken to hang; the longest of the default tier takes one of these minutes.
_HANGS_AFTER_S = {"default": 480, "deep": 2400}


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
    provide(root, deep=deep or any("tests/deep" in argument for argument in given))
    options = ["--durations=10", *end_hanging(_HANGS_AFTER_S["deep" if deep else "default"])]
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


def end_hanging(seconds: int) -> list[str]:
    """Options that end a test which hangs, with the stack of every thread: its worker dies, and the others go on."""
    return ["-o", f"faulthandler_timeout={seconds}", "-o", "faulthandler_exit_on_timeout=true"]


def _from_the_root(arguments: Sequence[str]) -> list[str]:
    """Name files absolutely: pytest runs in the checkout, wherever the caller stands."""
    given = []
    for argument in arguments:
        file, colons, inside = argument.partition("::")
        given.append(str(Path(file).resolve()) + colons + inside if Path(file).exists() else argument)
    return given


#: What each step runs beyond the step before it.
_TIERS = {"default": DEFAULT_TIER, "whole": ("tests/deep",)}


def coverage(
    *,
    default: Annotated[bool, typer.Option("--default", help="Only the default tier: some minutes.")] = False,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="FOLDER", help="Keep what was measured, for `coverage html`.")
    ] = None,
    output_format: FormatOption = Format.TXT,
) -> None:
    """Measure line and branch coverage of both tiers.

    Processes that tests start are followed; what they had measured is lost where a test kills them. Percentages are
    coverage.py's: a line or branch of src/secvm or lab that was reached, of all there are. Example:

    \b
        ./secvm dev coverage --format json
        ./secvm dev coverage --default --keep out/coverage
    """
    root = find_or_refuse()
    with tempfile.TemporaryDirectory(prefix="secvm-coverage-") as temporary:
        folder = keep.resolve() if keep else Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        emit(_measure(root, folder, ["default"] if default else list(_TIERS)), output_format)


def _measure(root: Path, folder: Path, tiers: list[str]) -> dict[str, object]:
    """Run the tests of each tier and tell what was reached by it and those before it."""
    result: dict[str, object] = {}
    passed = True
    for tier in tiers:
        note(f"secvm dev coverage: running {', '.join(_TIERS[tier])}")
        data = folder / f"{tier}.coverage"
        arguments = ["run", f"--data-file={data}", "-m", "pytest", "-q", *parallel(), *_TIERS[tier]]
        passed &= call(tool("coverage", *arguments), root, {"COVERAGE_FILE": str(data)}, beside_result=True) == 0
        result[tier] = _percentages(root, folder)
    if "whole" in result:
        whole, default = result["whole"], result["default"]
        assert isinstance(whole, dict)
        assert isinstance(default, dict)
        result["difference"] = {name: round(whole[name] - default[name], 2) for name in whole}
    return {**result, "tests_passed": passed}


def _percentages(root: Path, folder: Path) -> dict[str, float]:
    """Percentages of lines, of branches and of both that all data of a folder reach together."""
    combined, report = folder / "combined", folder / "report.json"
    combined.unlink(missing_ok=True)
    files = [str(file) for file in sorted(folder.glob("*.coverage*"))]
    for arguments in (
        ["combine", "--quiet", "--keep", f"--data-file={combined}", *files],
        ["json", "--quiet", f"--data-file={combined}", "-o", str(report)],
    ):
        done = subprocess.run(  # noqa: S603  (coverage.py on its own files)
            [sys.executable, *tool("coverage", *arguments)],
            cwd=root,
            env=os.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BadInputError("coverage.py could not read what was measured", next_step=done.stdout + done.stderr)
    totals = json.loads(report.read_bytes())["totals"]
    return {
        "lines": round(100 * totals["covered_lines"] / totals["num_statements"], 2),
        "branches": round(100 * totals["covered_branches"] / totals["num_branches"], 2),
        "both": round(totals["percent_covered"], 2),
    }
