"""What tests need from the system: found, installed with apt-get when this user may, or named when it is missing.

The lists are ``tests/system_packages.txt`` and, for the deep tier alone, ``tests/deep/system_packages.txt``. A test
whose program is missing fails with a sentence that names the package.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from secvm.cli.output import note

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
        failed = [name for name in absent if not run([*_APT, "install", "-y", "--no-install-recommends", name])]
        # Its lists of packages may be old, or not there at all.
        if failed and run([*_APT, "update"]):
            for name in failed:
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
