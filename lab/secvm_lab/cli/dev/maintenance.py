"""``secvm dev check``, ``fix`` and ``lock``: what people who change the code run, and continuous integration runs."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from secvm.cli.output import note
from secvm_lab.cli.dev.checkout import call, find_or_refuse, tool
from secvm_lab.cli.dev.tiers import parallel

# import-linter has no `python -m`; a script in .venv/bin would break when the checkout is moved.
_LINT_IMPORTS = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_logo=True))"

_COMPILE = [
    *("uv", "pip", "compile", "--quiet"),
    *("--universal", "--python-version", "3.11"),
    *("--generate-hashes", "--no-emit-index-url", "--no-header", "--no-annotate"),
]


def typed_folders(root: Path) -> list[str]:
    """Name the folders that mypy looks at: those of ours that hold Python."""
    return [name for name in ("src", "lab", "tests", "benchmarks", "vectors") if any((root / name).rglob("*.py"))]


def check(
    *, tests: Annotated[bool, typer.Option("--tests/--no-tests", help="Run the unit tests as well.")] = True
) -> None:
    """Check format, lint, types, imports, unit tests.

    Every step is run, also after one that failed; the last line names those that did.
    """
    root = find_or_refuse()
    steps: dict[str, list[str]] = {
        "format": tool("ruff", "format", "--check", "--quiet"),
        "lint": tool("ruff", "check", "--quiet"),
        "types": tool("mypy", *typed_folders(root)),
        "imports": ["-P", "-c", _LINT_IMPORTS],
        "dependencies": tool("uv", "pip", "check", "--quiet", "--python", sys.executable),
    }
    if tests:
        steps["unit tests"] = tool("pytest", "-q", *parallel(), "tests/unit")
    failed = []
    for name, arguments in steps.items():
        started = time.monotonic()
        code = call(arguments, root)
        if code == 130:
            raise typer.Exit(code)
        note(f"secvm dev check: {name} {'FAILED' if code else 'passed'} in {time.monotonic() - started:.1f} s")
        if code:
            failed.append(name)
    if failed:
        note(f"secvm dev check: failed: {', '.join(failed)}")
        raise typer.Exit(1)


def fix() -> None:
    """Repair what tools can repair.

    That is: some lint, the format, the description of the operator's API, the reference of an experiment's settings.
    """
    root = find_or_refuse()
    call(tool("ruff", "check", "--fix", "--quiet"), root)
    code = call(tool("ruff", "format", "--quiet"), root)
    _describe_admin(root)
    _refer_to_settings(root)
    raise typer.Exit(code)


def _describe_admin(root: Path) -> None:
    from secvm.coordinator.experiments.openapi import answer

    (root / "docs/admin-openapi.json").write_bytes(answer().body)


def _refer_to_settings(root: Path) -> None:
    from secvm_lab.cli.dev.settings_reference import reference

    (root / "docs/reference").mkdir(exist_ok=True)
    (root / "docs/reference/experiment.md").write_text(reference(), encoding="utf-8")


def lock(
    *, upgrade: Annotated[bool, typer.Option("--upgrade", help="Move every pin to the newest release.")] = False
) -> None:
    """Pin every dependency with its hashes.

    Writes requirements/*.txt, for Linux and macOS and every Python from 3.11. No file there names a place.
    """
    root = find_or_refuse()
    newest = ["--upgrade"] if upgrade else []
    extras = ("estimator", "plots", "relay", "witness", "coordinator", "dashboard", "tokens", "postgres")
    run = [
        "pyproject.toml",
        "--constraints",
        "requirements/constraints.in",
        *(word for extra in extras for word in ("--extra", extra)),
        *("--group", "lab"),
    ]
    # What builds is installed beside what runs: of both, one version.
    build = ["requirements/build.in", "--constraints", "requirements/run.txt"]
    dev = [*run, "--group", "dev", "--constraints", "requirements/run.txt", "--constraints", "requirements/build.txt"]
    for name, what in {"bootstrap": ["requirements/bootstrap.in"], "run": run, "build": build, "dev": dev}.items():
        code = call(tool(*_COMPILE, *newest, *what, "--output-file", f"requirements/{name}.txt"), root)
        if code:
            raise typer.Exit(code)
