"""``secvm dev coverage``: which lines and branches the default tier reaches, and which the whole of the tests."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.output import Format, FormatOption, emit, note
from secvm.errors import BadInputError
from secvm_lab.cli.dev.checkout import call, find_or_refuse, tool
from secvm_lab.cli.dev.tiers import DEFAULT_TIER, parallel

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
