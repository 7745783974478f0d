"""``secvm dev mutations``: what keeps packages from being lost or counted twice is taken out, and tests must notice."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from secvm.cli.output import Format, emit, note
from secvm.errors import BadInputError

if TYPE_CHECKING:
    from secvm.testing.mutations import Mutation

#: pytest's word for "some tests failed"; anything else is another fault.
_FAILED = 1


def mutate(checkout: Path, only: Sequence[str], output_format: Format) -> None:
    """Take out each of these (none: all of them), see that tests fail, and say so; see ``secvm dev mutations``."""
    from secvm.testing.mutations import MUTATIONS

    unknown = sorted(set(only) - set(MUTATIONS))
    if unknown:
        raise BadInputError(f"there is no mutation '{unknown[0]}'", next_step=f"Known: {', '.join(MUTATIONS)}.")
    begun = time.monotonic()
    chosen = {name: one for name, one in MUTATIONS.items() if not only or name in only}
    told: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory(prefix="secvm-mutations-") as folder:
        root = copied(checkout, Path(folder))
        passes = not _fails(root, [test for one in chosen.values() for test in one.tests])
        note(f"unchanged: {'all of them pass' if passes else 'SOME FAIL ALREADY'}")
        for name, one in chosen.items():
            by = _killed_by(root, one)
            told[name] = {"killed": passes and len(by) == len(one.tests), "by": by}
            note(f"without {name}: {', '.join(by) or 'NOBODY NOTICES'}")
    right = all(one["killed"] for one in told.values())
    result = {
        "mutations": told,
        "unchanged_passes": passes,
        "all_killed": right,
        "seconds": round(time.monotonic() - begun, 1),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024, 1),
    }
    emit(result, output_format)
    if not right:
        raise typer.Exit(1)


def copied(root: Path, folder: Path) -> Path:
    """The source and its tests, in another folder."""
    unwanted = shutil.ignore_patterns("__pycache__", ".hypothesis", ".pytest_cache")
    for name in ("src", "lab", "tests"):
        shutil.copytree(root / name, folder / name, ignore=unwanted)
    shutil.copy(root / "pyproject.toml", folder)
    return folder


def _killed_by(root: Path, one: Mutation) -> list[str]:
    """The tests that fail without it; afterwards the tree is as it was."""
    before = {edit.file: (root / edit.file).read_bytes() for edit in one.edits}
    try:
        for edit in one.edits:
            edit.apply(root)
        return [test for test in one.tests if _fails(root, [test])]
    finally:
        for file, data in before.items():
            (root / file).write_bytes(data)


def _fails(root: Path, tests: Sequence[str]) -> bool:
    """Whether one of these fails."""
    arguments = ["-P", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(  # noqa: S603  (our own tests)
        [sys.executable, *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root / "lab")])},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, _FAILED):
        raise BadInputError(f"{tests[0]} could not be run", next_step=done.stdout[-2000:] + done.stderr[-2000:])
    return done.returncode == _FAILED
